/** TensorBoard: event files in the run's folder. `tensorboard --logdir runs` shows every run below it. */
import { open } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { checkOptions } from "@tinklet/wire/options";
import { type EventContent, eventRecord } from "./event-file.ts";
import type { LoggedRow, LoggedRun, MetricsLogger, MetricsWriter } from "./metrics-logger.ts";

/** Options of {@link tensorboard}. */
export interface TensorboardOptions {
  /** Folder of a run's event files. @defaultValue the run's folder */
  readonly folder?: (run: LoggedRun) => string;
}

/**
 * Writes event files for TensorBoard: each metric as a scalar, the configuration as a text. A resumed run hides the steps that
 * it repeats.
 *
 * @example
 * ```ts
 * for await (const event of withLoggers(runSupervised(options), [tensorboard()])) console.log(event.type);
 * // tensorboard --logdir runs
 * ```
 */
export function tensorboard(options: TensorboardOptions = {}): MetricsLogger {
  checkOptions("tensorboard", options, { folder: true });
  const folderOf = options.folder ?? ((run: LoggedRun) => run.folder);
  return { name: "tensorboard", open: (run) => eventFiles(folderOf(run), run) };
}

let opened = 0;

function eventFiles(folder: string, { config, startStep }: LoggedRun): MetricsWriter {
  let path: string | undefined;
  /** The first records of a file: its version, the step where the run resumes, and the configuration. */
  const head = (timeMs: number): Buffer[] => {
    const at = { timeMs, step: startStep };
    const text = `\`\`\`json\n${JSON.stringify(config, null, 2)}\n\`\`\``;
    const first: EventContent[] = [
      { fileVersion: "brain.Event:2" },
      { restart: true },
      { text: { tag: "config", text } },
    ];
    return first.map((content) => eventRecord(at, content));
  };
  return {
    async write(rows: readonly LoggedRow[]) {
      const [row] = rows;
      if (row === undefined) return;
      const seconds = String(Math.floor(row.timeMs / 1000)).padStart(10, "0"); // files are read in the order of their names
      if (path === undefined) opened += 1;
      const file =
        path ??
        join(folder, `events.out.tfevents.${seconds}.${hostname()}.${process.pid}.${String(opened).padStart(6, "0")}`);
      const body = rows.map(({ step, timeMs, metrics }) => eventRecord({ step, timeMs }, { scalars: metrics }));
      await appendWhole(file, Buffer.concat([...(path === undefined ? head(row.timeMs) : []), ...body]));
      path = file;
    },
  };
}

/** Appends all of it or nothing: TensorBoard reads no further than half a record. */
async function appendWhole(path: string, data: Buffer): Promise<void> {
  const file = await open(path, "a");
  try {
    const { size } = await file.stat();
    try {
      await file.appendFile(data);
    } catch (error) {
      await file.truncate(size).catch(() => {}); // the first error is the one to tell
      throw error;
    }
  } finally {
    await file.close();
  }
}
