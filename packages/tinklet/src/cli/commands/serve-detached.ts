/** `serve --detach`: starts `tinklet serve` as a process of its own, and returns when it answers. */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { folderUse } from "@tinklet/sdk/environment";
import type { Context } from "../context.ts";
import { CliError } from "../output/explain.ts";
import { UsageError } from "../parse.ts";
import { showUse } from "./status.ts";

/** Log of the detached server, in its data folder; the one before has the ending `.1`, that of a start that failed `.failed`. */
const logFile = "serve.log";
/** Bytes of the log that an error shows. */
const shownBytes = 4000;

/** @param args - arguments of this process, which the new one gets without `--detach` */
export async function serveDetached(args: readonly string[], context: Context): Promise<number> {
  const { dataDir, output, signal } = context;
  if (dataDir === undefined) throw new UsageError("--detach needs a data folder, not --data-dir memory");
  const use = await folderUse(dataDir);
  if (use.state === "running") {
    output.note("It already runs; npx tinklet stop stops it. Its options are those it was started with.");
    return showUse(use, dataDir, context);
  }
  if (use.state === "embedded" || use.state === "silent")
    throw new CliError(`${dataDir}: ${use.program} (process ${use.pid}) uses the data folder.`, {
      hint: "Wait until it ends, or choose another data folder (--data-dir).",
    });
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const log = join(dataDir, logFile);
  // It gets its name when the server runs: until then another one may use the folder and its log.
  const started = `${log}.${process.pid}`;
  rmSync(started, { force: true });
  const descriptor = openSync(started, "wx", 0o600);
  // The server writes one line to the pipe, when it is ready; everything else goes to the log.
  const child = spawn(process.execPath, [...process.execArgv, process.argv[1] as string, ...args, "--json"], {
    detached: true,
    stdio: ["ignore", "pipe", descriptor],
    windowsHide: true,
  });
  closeSync(descriptor);
  const pipe = child.stdout as NonNullable<typeof child.stdout>;
  output.progress("Starting the server …");
  const stop = () => child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  const ready = await new Promise<boolean>((resolve, reject) => {
    createInterface({ input: pipe }).once("line", () => resolve(true));
    child.once("exit", () => resolve(false));
    child.once("error", reject);
  });
  signal.removeEventListener("abort", stop);
  if (signal.aborted) rmSync(started, { force: true });
  signal.throwIfAborted();
  output.endProgress();
  if (!ready) {
    const failed = `${log}.failed`;
    renameSync(started, failed);
    const said = saidIn(failed);
    throw new CliError(`The server did not start. ${said === "" ? `See ${failed}.` : said}`);
  }
  keepLog(started, log);
  pipe.destroy();
  child.unref();
  const now = await folderUse(dataDir);
  if (now.state !== "running") throw new CliError(`The server ended after its start. See ${log}.`);
  if (!output.isJson) output.note(`Log: ${log}`);
  return showUse(now, dataDir, context);
}

/** Names the log of the new server, after renaming the one before. */
function keepLog(started: string, log: string): void {
  try {
    renameSync(log, `${log}.1`);
  } catch {
    // the first start
  }
  renameSync(started, log);
}

/** What the server wrote for people: the log without its JSON lines. */
function saidIn(log: string): string {
  const lines = readFileSync(log, "utf8").slice(-shownBytes).split("\n");
  const text = lines.filter((line) => line.trim() !== "" && !line.startsWith("{"));
  return text.map((line) => line.replace(/^Error: /, "")).join("\n");
}
