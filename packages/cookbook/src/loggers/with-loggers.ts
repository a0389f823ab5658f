/** Logs the metrics of a running loop; works with any loop whose first event is `start`. */
import { basename, resolve } from "node:path";
import { systemClock } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { RunFolder } from "../runs/run-folder.ts";
import { LogQueue, type LogQueueOptions } from "./log-queue.ts";
import type { MetricsLogger } from "./metrics-logger.ts";

/** Options of {@link withLoggers}. */
export interface LoggingOptions extends LogQueueOptions {
  /** Name of the run in the logger. @defaultValue the last part of its folder's path */
  readonly name?: string;
}

const optionNames: OptionNames<LoggingOptions> = {
  name: true,
  maxRows: true,
  writeLimitMs: true,
  closeLimitMs: true,
  onWarning: true,
  clock: true,
};

/**
 * Passes the metrics of a run to loggers, in addition to its own files: every row of `metrics.jsonl`, and the times of
 * each step as `time/…`. A logger that fails or hangs neither stops nor slows the run: rows wait in a bounded queue, a warning
 * says once what is wrong, and at the end how many rows were dropped.
 *
 * @param loop - `runSupervised(…)`, `runReinforcement(…)` or any other run: its events are passed on.
 *
 * @example
 * ```ts
 * const loggers = [tensorboard(), trackio({ project: "sums" })];
 * for await (const event of withLoggers(runSupervised(options), loggers)) console.log(event.type);
 * ```
 */
export async function* withLoggers<E extends { readonly type: string }, R>(
  loop: AsyncGenerator<E, R, void>,
  loggers: readonly MetricsLogger[],
  options: LoggingOptions = {},
): AsyncGenerator<E, R, void> {
  checkOptions("withLoggers", options, optionNames);
  if (loggers.length === 0) return yield* loop;
  const { clock = systemClock() } = options;
  let queues: readonly LogQueue[] = [];
  let release = () => {};
  try {
    for (;;) {
      const { done, value } = await loop.next();
      if (done) return value;
      if (isStart(value) && queues.length === 0) {
        const { run, startStep } = value;
        const name = options.name ?? basename(resolve(run.path));
        const logged = { name, folder: run.path, config: (await run.readConfig()) ?? {}, startStep };
        queues = loggers.map((logger) => new LogQueue(logger, logged, options));
        release = run.onRow(({ step, ...metrics }) => {
          const row = { step, timeMs: clock.now(), metrics };
          for (const queue of queues) queue.push(row);
        });
      }
      yield value;
    }
  } finally {
    await loop.return(undefined as never); // a consumer that stops iterating stops the loop; no effect on a finished one
    release();
    await Promise.all(queues.map((queue) => queue.close()));
  }
}

const isStart = (
  event: object,
): event is { readonly type: "start"; readonly run: RunFolder; readonly startStep: number } =>
  "type" in event && event.type === "start" && "run" in event && "startStep" in event;
