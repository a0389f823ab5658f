/** `session list`, `session info`, and `session export-trace`, which the official tool has too. */
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { downloadFile } from "../checkpoint/download.ts";
import type { Command } from "../command.ts";
import { portableName } from "../files.ts";
import { counted, formatSize, formatTimestamp } from "../output/format.ts";
import { pythonTime } from "../output/official-json.ts";

export const sessionList: Command = {
  usage: "session list [--limit N]",
  about: "Lists sessions, newest first.",
  options: { limit: { type: "string", value: "N", about: "maximum number; 0 for all (default 20)" } },
  async run(input, context) {
    const limit = input.integer("limit", 0) ?? 20;
    const rest = (await context.service()).createRestClient();
    const { signal } = context;
    const sessions: string[] = [];
    for await (const id of rest.listSessions({
      limit: limit === 0 ? 100 : Math.min(limit, 100),
      signal,
    })) {
      sessions.push(id);
      if (sessions.length === limit) break;
    }
    const shown = await inGroups(sessions, async (id) => {
      const { trainingRunIds, samplerIds } = await rest.getSession(id, { signal });
      const [first] = trainingRunIds;
      // A run may be deleted while its session is still listed.
      const run = first === undefined ? undefined : await rest.getTrainingRun(first, { signal }).catch(() => undefined);
      return { id, trainingRunIds, samplerIds, run };
    });
    context.output.result({
      title: sessions.length === 0 ? "No sessions found" : counted(sessions.length, "session"),
      columns: ["Session ID", "Runs", "Samplers", "Base Model", "Last Update"],
      rows: shown.map(({ id, trainingRunIds, samplerIds, run }) => [
        id,
        String(trainingRunIds.length),
        String(samplerIds.length),
        run?.baseModel ?? "N/A",
        formatTimestamp(run?.lastRequestTime),
      ]),
      json: {
        sessions: shown.map(({ id, trainingRunIds, samplerIds, run }) => ({
          session_id: id,
          training_run_ids: trainingRunIds,
          sampler_ids: samplerIds,
          base_model: run?.baseModel ?? null,
          last_request_time: pythonTime(run?.lastRequestTime?.toISOString()),
        })),
      },
    });
  },
};

/** Maps the items with at most eight requests at a time; keeps the order. */
async function inGroups<T, R>(items: readonly T[], ask: (item: T) => Promise<R>): Promise<R[]> {
  const answers: R[] = [];
  for (let at = 0; at < items.length; at += 8) answers.push(...(await Promise.all(items.slice(at, at + 8).map(ask))));
  return answers;
}

export const sessionInfo: Command = {
  usage: "session info SESSION_ID",
  about: "Shows the training runs and samplers of a session.",
  arguments: ["SESSION_ID"],
  async run({ positionals: [sessionId = ""] }, context) {
    const rest = (await context.service()).createRestClient();
    const { trainingRunIds, samplerIds } = await rest.getSession(sessionId, { signal: context.signal });
    context.output.result({
      title: `Session: ${sessionId}`,
      columns: ["Kind", "ID"],
      rows: [...trainingRunIds.map((id) => ["Training run", id]), ...samplerIds.map((id) => ["Sampler", id])],
      json: { session_id: sessionId, training_run_ids: trainingRunIds, sampler_ids: samplerIds },
    });
  },
};

export const sessionExportTrace: Command = {
  usage: "session export-trace SESSION_ID [--output FILE] [--url-only]",
  about: "Fetches the timeline of a session; open the file in https://ui.perfetto.dev.",
  arguments: ["SESSION_ID"],
  options: {
    output: { type: "string", short: "o", value: "FILE", about: "default: ./SESSION_ID.pftrace" },
    "url-only": { type: "boolean", about: "print the link instead of fetching it" },
  },
  async run(input, context) {
    const { output, signal } = context;
    const sessionId = input.positionals[0] ?? "";
    const rest = (await context.service()).createRestClient();
    if (!output.isJson) output.note(`Exporting trace for session ${sessionId} (this may take a while)...`);
    const url = await rest.exportSessionTrace(sessionId, { signal });
    if (input.flag("url-only")) {
      if (output.isJson) output.result({ json: { session_id: sessionId, url }, columns: [], rows: [] });
      else output.line(url);
      return;
    }
    const given = input.text("output");
    const file = given ?? resolve(portableName(`${sessionId}.pftrace`));
    await mkdir(dirname(resolve(file)), { recursive: true });
    const bytes = await downloadFile(url, file, "trace", context);
    output.result({
      title: `Trace Export: ${sessionId}`,
      columns: ["Property", "Value"],
      rows: [["Session ID", sessionId], ["Saved to", file], ...(bytes > 0 ? [["Size", formatSize(bytes)]] : [])],
      json: { session_id: sessionId, destination: file, ...(bytes > 0 ? { file_size_bytes: bytes } : {}) },
    });
  },
};
