/**
 * The threads that read, search and convert traces, with the time limit of each task and its errors as refusals. Exports have a thread of
 * their own, so that a slow search delays none. A tenant whose task exceeded the limit uses a second thread for a while.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { Limits } from "../../limits.ts";
import { Refusal } from "../../queue/refusal.ts";
import { type SideThread, TaskError, ThreadClosed, ThreadDied, ThreadTimeout } from "../../thread/side-thread.ts";
import type { TaskName, Tasks } from "../../thread/tasks.ts";
import { createPromptThreads } from "../chat/prompt-threads.ts";
import { TenantTurns } from "./tenant-turns.ts";

/** Tasks of one tenant that may wait. */
const mostWaiting = 64;

export interface TraceThreads {
  /** Reads an export. @throws Refusal 400, 413, 429, 503 */
  readExport(
    tenant: string,
    input: Parameters<Tasks["readExport"]>[0],
  ): Promise<Awaited<ReturnType<Tasks["readExport"]>>>;
  /** Any other task. @throws Refusal 422, 429, 503 */
  run<K extends TaskName>(
    tenant: string,
    task: K,
    input: Parameters<Tasks[K]>[0],
  ): Promise<Awaited<ReturnType<Tasks[K]>>>;
  close(): Promise<void>;
}

export function createTraceThreads(
  startThread: () => SideThread,
  { clock, limits }: { readonly clock: Clock; readonly limits: Pick<Limits, "traceTaskMs"> },
): TraceThreads {
  const exports = createPromptThreads(clock, startThread(), startThread());
  const others = createPromptThreads(clock, startThread(), startThread());
  const exportTurns = new TenantTurns(mostWaiting);
  const otherTurns = new TenantTurns(mostWaiting);
  const limitMs = limits.traceTaskMs;

  return {
    readExport: (tenant, input) =>
      exportTurns.run(tenant, () =>
        exports
          .of(tenant)
          .run("readExport", input, { limitMs })
          .catch((error: unknown) => {
            if (error instanceof ThreadTimeout) exports.timedOut(tenant);
            throw exportRefusal(error);
          }),
      ),
    run: (tenant, task, input) =>
      otherTurns.run(tenant, () =>
        others
          .of(tenant)
          .run(task, input, { limitMs })
          .catch((error: unknown) => {
            if (error instanceof ThreadTimeout) others.timedOut(tenant);
            throw taskRefusal(error, limitMs);
          }),
      ),
    close: async () => {
      await Promise.all([exports.close(), others.close()]);
    },
  };
}

function exportRefusal(error: unknown): unknown {
  if (error instanceof TaskError && error.task === "BadExport") return new Refusal(400, "bad_export", error.message);
  if (error instanceof TaskError && error.task === "ExportTooLarge")
    return new Refusal(413, "export_too_large", error.message);
  if (error instanceof ThreadTimeout || error instanceof ThreadDied)
    return new Refusal(413, "export_too_large", "The export takes too long to read. Send smaller batches.");
  return closing(error);
}

function taskRefusal(error: unknown, limitMs: number): unknown {
  if (error instanceof TaskError && error.task === "SyntaxError")
    return new Refusal(422, "invalid_regex", `regex: ${error.message}`);
  if (error instanceof ThreadTimeout || error instanceof ThreadDied) {
    const problem = `The request takes more than ${limitMs} ms. Use a simpler regular expression, or a narrower filter.`;
    return new Refusal(422, "too_slow", problem);
  }
  return closing(error);
}

const closing = (error: unknown): unknown =>
  error instanceof ThreadClosed ? new Refusal(503, "shutting_down", error.message, { retryAfterSeconds: 1 }) : error;
