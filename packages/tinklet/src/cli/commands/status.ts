/** `status` and `stop`: what uses the data folder of this machine, and the end of a `tinklet serve`. */
import { setTimeout as sleep } from "node:timers/promises";
import { type FolderUse, folderUse } from "@tinklet/sdk/environment";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError } from "../output/explain.ts";
import { UsageError } from "../parse.ts";
import { hasEnded, startOf } from "../process-end.ts";

/** A server finishes its steps and saves before it ends. */
const defaultTimeout = 60;
const pollMs = 50;

export const status: Command = {
  usage: "status [--data-dir FOLDER]",
  about: "Shows whether a tinklet serve runs on the data folder. Exit code 0 if one runs, else 1.",
  examples: ["status", "status --json"],
  async run(_, context) {
    const dataDir = folderOf(context);
    return showUse(await folderUse(dataDir), dataDir, context);
  },
};

export const stop: Command = {
  usage: "stop [--data-dir FOLDER] [--timeout SECONDS]",
  about:
    "Stops the tinklet serve that runs on the data folder. Requests it has accepted are finished after the next start.",
  options: {
    timeout: { type: "string", value: "SECONDS", about: `how long to wait for its end (default ${defaultTimeout})` },
  },
  examples: ["stop"],
  async run(input, context) {
    const { output } = context;
    const seconds = input.number("timeout", 0) ?? defaultTimeout;
    const untilMs = performance.now() + seconds * 1000;
    const dataDir = folderOf(context);
    const use = await settledUse(dataDir, untilMs, context);
    if (use.state === "none" || use.state === "ended") {
      if (output.isJson) output.event({ state: "stopped", stopped_pid: null });
      else output.line(`No tinklet serve runs on ${dataDir}.`);
      return 0;
    }
    if (use.state !== "running") throw new CliError(...refusal(use, dataDir));
    output.progress(`Stopping process ${use.pid} …`);
    const start = startOf(use.pid);
    try {
      process.kill(use.pid, "SIGTERM");
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ESRCH") throw cause; // it has just ended
    }
    while (!hasEnded(use.pid, start)) {
      if (performance.now() > untilMs)
        throw new CliError(`Process ${use.pid} has not ended within ${seconds} s.`, {
          hint: `It may be in a long step: run the command again with a larger --timeout, or end it at once with kill -9 ${use.pid}; the next start recovers.`,
        });
      await sleep(pollMs, undefined, { signal: context.signal });
    }
    output.endProgress();
    if (output.isJson) output.event({ state: "stopped", stopped_pid: use.pid });
    else output.line(`Stopped (process ${use.pid}).`);
    return 0;
  },
};

/** What uses the folder, after waiting for a server that starts or ends: it does not answer, for example when it is stopped twice. */
async function settledUse(dataDir: string, untilMs: number, { output, signal }: Context): Promise<FolderUse> {
  for (;;) {
    const use = await folderUse(dataDir);
    if (use.state !== "silent" || performance.now() > untilMs) return use;
    output.progress(`Waiting for process ${use.pid}, which does not answer …`);
    await sleep(pollMs, undefined, { signal });
  }
}

function folderOf({ dataDir }: Context): string {
  if (dataDir === undefined) throw new UsageError("--data-dir memory keeps nothing: name a folder");
  return dataDir;
}

type Refused = Exclude<FolderUse, { readonly state: "running" | "none" | "ended" }>;

/** Why a process is not stopped: only a server that proved itself is. */
function refusal(use: Refused, dataDir: string): [message: string, options: { hint: string }] {
  if (use.state === "foreign")
    return [
      `${dataDir}: the server belongs to another user, or its record can be read by others.`,
      { hint: "Stop it as that user." },
    ];
  if (use.state === "embedded")
    return [
      `${dataDir}: ${use.program} (process ${use.pid}) uses the data folder, with a server inside.`,
      { hint: "It ends with that program; npx tinklet stop does not stop programs." },
    ];
  return [
    `${dataDir}: process ${use.pid} is recorded as ${use.program} and does not answer.`,
    {
      hint: `It may be starting or ending: try again. If another program has that id by now, the next tinklet serve replaces the record.`,
    },
  ];
}

/** Prints the state. @returns the exit code of `status` */
export function showUse(use: FolderUse, dataDir: string, { output }: Context): number {
  const isRunning = use.state === "running";
  const json = isRunning
    ? {
        ...{ state: "running", pid: use.pid, url: use.url, release: use.release },
        models: use.models.map(({ name }) => name),
      }
    : { state: use.state, ...("pid" in use ? { pid: use.pid, program: use.program } : {}) };
  if (output.isJson) output.event({ ...json, data_dir: dataDir });
  else if (!isRunning) output.line(sentenceOf(use, dataDir));
  else {
    const rows = [
      ["Address", use.url],
      ["Process", String(use.pid)],
      ["Models", use.models.length === 0 ? "tinklet/base" : use.models.map(({ name }) => name).join(", ")],
      ["Release", use.release],
      ["Data folder", dataDir],
      [
        "Options",
        [use.strict ? "strict" : "not strict", use.studio ? "with the studio" : "without the studio"].join(", "),
      ],
    ];
    output.result({ json: undefined, title: "tinklet serve runs", columns: ["Property", "Value"], rows });
    output.note("\nCommands with --local and ServiceClient.local() use it. npx tinklet stop stops it.");
  }
  return isRunning ? 0 : 1;
}

function sentenceOf(use: Exclude<FolderUse, { readonly state: "running" }>, dataDir: string): string {
  if (use.state === "none") return `No server runs on ${dataDir}.`;
  if (use.state === "ended")
    return `No server runs on ${dataDir}. ${use.program} (process ${use.pid}) ended without stopping; the next start finishes its requests.`;
  const [message] = refusal(use, dataDir);
  return message;
}
