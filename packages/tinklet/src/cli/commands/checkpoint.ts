/** `checkpoint list`, `info`, `publish`, `unpublish` and `set-ttl`, with the official tool's options, columns and JSON. */

import type { RestClient } from "@tinklet/sdk";
import { hintFor } from "@tinklet/sdk/environment";
import { type Checkpoint, ParsedCheckpointTinkerPath } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../output/explain.ts";
import { counted, formatBool, formatSize, formatTimestamp } from "../output/format.ts";
import { checkpointJson } from "../output/official-json.ts";
import { fetchUpTo, moreNotShown } from "../paging.ts";
import { UsageError } from "../parse.ts";
import { referenceHelp, resolveCheckpoint, resolveHalves, resolveRuns } from "../references.ts";
import { loraText } from "./run.ts";

const size = (bytes: number | undefined) => (bytes === undefined ? "N/A" : formatSize(bytes));
const expiry = (time: Date | undefined) => (time === undefined ? "Never" : formatTimestamp(time));

export const checkpointList: Command = {
  usage: "checkpoint list [--run-id RUN] [--limit N]",
  about: "Lists checkpoints, of one run or of all.",
  options: {
    "run-id": { type: "string", value: "RUN", about: "only checkpoints of this run (name, id or folder)" },
    limit: { type: "string", value: "N", about: "maximum number over all runs; 0 for all (default 20)" },
  },
  async run(input, context) {
    const { output, signal } = context;
    const runId = input.text("run-id");
    const limit = input.integer("limit", 0) ?? 20;
    const rest = (await context.service()).createRestClient();
    let checkpoints: readonly Checkpoint[];
    let total: number | undefined;
    if (runId === undefined) {
      const fetch = async (page: { limit: number; offset: number }) => {
        const { checkpoints: items, cursor } = await rest.listUserCheckpoints({ ...page, signal });
        return { items, total: cursor?.totalCount };
      };
      ({ items: checkpoints, total } = await fetchUpTo(limit, 1000, fetch, { output, what: "checkpoints" }));
    } else checkpoints = await checkpointsOf(await resolveRuns(runId, async () => rest), rest, signal);
    const where = runId === undefined ? "" : ` for run ${runId}`;
    const saved = bySave(checkpoints);
    const files = checkpoints.length === saved.length ? "" : ` with ${checkpoints.length} files`;
    const count = checkpoints.length === 0 ? "No checkpoints found" : `${counted(saved.length, "checkpoint")}${files}`;
    output.result({
      title: `${count}${where}${moreNotShown(total, checkpoints.length)}`,
      columns: ["Checkpoint", "Files", "Size", "Public", "Created", "Expires"],
      rows: saved.map(({ reference, files }) => [
        reference,
        files.map(({ checkpointType }) => checkpointType).join(" + "),
        size(files.reduce<number | undefined>((sum, { sizeBytes }) => sizeBytes && sizeBytes + (sum ?? 0), 0)),
        distinct(files, (one) => formatBool(one.public)),
        formatTimestamp(files[0]?.time),
        distinct(files, (one) => expiry(one.expiresAt)),
      ]),
      json: { ...omitUndefined({ run_id: runId }), checkpoints: checkpoints.map(checkpointJson) },
    });
  },
};

/** A checkpoint as users see it: what was saved under one name, at most one file of each type. */
interface Save {
  /** `NAME@CHECKPOINT`, or `RUN_ID:CHECKPOINT` if the run has no name. */
  readonly reference: string;
  readonly files: Checkpoint[];
}

/** Groups files by checkpoint, in the order of their first file. */
function bySave(checkpoints: readonly Checkpoint[]): Save[] {
  const saves = new Map<string, Save>();
  for (const one of checkpoints) {
    const [run, , name] = one.tinkerPath.replace("tinker://", "").split("/");
    const key = `${run}/${name}`;
    const save = saves.get(key) ?? { reference: one.reference ?? `${run}:${name}`, files: [] };
    save.files.push(one);
    saves.set(key, save);
  }
  return [...saves.values()];
}

/** What the files have in common, or all values. */
const distinct = (files: readonly Checkpoint[], of: (one: Checkpoint) => string): string =>
  [...new Set(files.map(of))].join(", ");

export const checkpointInfo: Command = {
  usage: "checkpoint info CHECKPOINT",
  about: `Shows one checkpoint: ${referenceHelp}.`,
  arguments: ["CHECKPOINT"],
  async run({ positionals: [reference = ""] }, context) {
    const { rest, path } = await resolved(reference, context);
    const { trainingRunId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
    const { checkpoints } = await rest.listCheckpoints(trainingRunId).catch((cause: Error & { status?: number }) => {
      throw cause.status === 404 ? notFound(path, cause) : cause;
    });
    const found = checkpoints.find(({ tinkerPath }) => tinkerPath === path);
    if (found === undefined) throw notFound(path);
    // Runs of other users are visible if they have public checkpoints.
    const run = await rest.getTrainingRun(trainingRunId, { accessScope: "accessible" });
    context.output.result({
      title: `Checkpoint: ${found.reference ?? found.checkpointId}`,
      columns: ["Property", "Value"],
      rows: [
        ...(found.reference === undefined ? [] : [["Name", found.reference]]),
        ["Checkpoint ID", found.checkpointId],
        ["Type", found.checkpointType],
        ["Tinker Path", found.tinkerPath],
        ...(found.sizeBytes === undefined ? [] : [["Size", formatSize(found.sizeBytes)]]),
        ["Public", formatBool(found.public)],
        ["Created", formatTimestamp(found.time)],
        ["Expires", expiry(found.expiresAt)],
        ["Training Run ID", trainingRunId],
        ["LoRA", loraText(run)],
      ],
      json: { ...checkpointJson(found), is_lora: run.isLora, lora_rank: run.loraRank ?? null },
    });
  },
};

export const checkpointPublish: Command = {
  usage: "checkpoint publish CHECKPOINT",
  about: `Makes a checkpoint public: ${referenceHelp}. A short name means training state and sampler weights.`,
  arguments: ["CHECKPOINT"],
  run: ({ positionals: [reference = ""] }, context) =>
    changeHalves(reference, context, {
      done: "Published",
      json: { public: true },
      change: (rest, path, options) => rest.publishCheckpointFromTinkerPath(path, options),
    }),
};

export const checkpointUnpublish: Command = {
  usage: "checkpoint unpublish CHECKPOINT",
  about: `Makes a checkpoint private again: ${referenceHelp}. A short name means training state and sampler weights.`,
  arguments: ["CHECKPOINT"],
  run: ({ positionals: [reference = ""] }, context) =>
    changeHalves(reference, context, {
      done: "Made private",
      json: { public: false },
      change: (rest, path, options) => rest.unpublishCheckpointFromTinkerPath(path, options),
    }),
};

export const checkpointSetTtl: Command = {
  usage: "checkpoint set-ttl CHECKPOINT (--ttl SECONDS | --remove)",
  about: `Sets when a checkpoint expires: ${referenceHelp}. A short name means training state and sampler weights.`,
  arguments: ["CHECKPOINT"],
  options: {
    ttl: { type: "string", value: "SECONDS", about: "lifetime from now" },
    remove: { type: "boolean", about: "keep it without a limit" },
  },
  async run(input, context) {
    const ttl = input.integer("ttl");
    const remove = input.flag("remove");
    if (ttl === undefined && !remove) throw new UsageError("Must specify either --ttl <seconds> or --remove");
    if (ttl !== undefined && remove) throw new UsageError("Cannot specify both --ttl and --remove");
    if (ttl !== undefined && ttl <= 0) throw new UsageError(`--ttl must be at least 1 second, got ${ttl}`);
    return changeHalves(input.positionals[0] ?? "", context, {
      done:
        ttl === undefined ? "Kept without a limit" : `Kept until ${new Date(Date.now() + ttl * 1000).toISOString()}`,
      json: { ttl_seconds: ttl ?? null },
      change: (rest, path, options) => rest.setCheckpointTtlFromTinkerPath(path, ttl ?? null, options),
    });
  },
};

/** One message for a missing checkpoint and for one that the caller may not see, because the server answers both with 404. */
function notFound(path: string, cause?: Error): CliError {
  const hint = hintFor({ operation: "weightsInfo", status: 404, message: "", path });
  return new CliError(`Checkpoint not found: ${path}`, { ...omitUndefined({ hint }), cause });
}

/** Changes everything that a reference means, and says what was changed. */
async function changeHalves(
  reference: string,
  context: Context,
  act: {
    /** What has happened to a checkpoint, for a person. */
    readonly done: string;
    readonly json: object;
    readonly change: (rest: RestClient, path: string, options: { readonly signal: AbortSignal }) => Promise<void>;
  },
): Promise<undefined> {
  const { output, signal } = context;
  const rest = (await context.service()).createRestClient();
  const paths = await resolveHalves(reference, async () => rest);
  for (const path of paths) await act.change(rest, path, { signal });
  output.result({
    title: `${act.done}:`,
    columns: ["Path"],
    rows: paths.map((path) => [path]),
    json: { checkpoints: paths.map((path) => ({ tinker_path: path, ...act.json })) },
  });
}

/** The checkpoints of some runs. */
export async function checkpointsOf(
  runs: readonly string[],
  rest: RestClient,
  signal: AbortSignal,
): Promise<Checkpoint[]> {
  const found: Checkpoint[] = [];
  for (const run of runs) found.push(...(await rest.listCheckpoints(run, { signal })).checkpoints);
  return found;
}

/** The checkpoint that a reference means; sampler weights where it leaves the kind open. */
export async function resolved(reference: string, context: Context): Promise<{ rest: RestClient; path: string }> {
  const rest = (await context.service()).createRestClient();
  return { rest, path: await resolveCheckpoint(reference, "sampler", async () => rest) };
}
