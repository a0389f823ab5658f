/** Entry point of the engine's thread: opens a model and answers calls until it is closed. */
import { parentPort, workerData } from "node:worker_threads";
import { openCore } from "../open-core.ts";
import { type ToWorker, toPlainError, type WorkerStart } from "./messages.ts";
import { type CorePort, serveCore } from "./serve-core.ts";
import { lowerThreadPriority } from "./thread-priority.ts";

lowerThreadPriority(); // before any other thread starts, because threads inherit the priority
const parent = parentPort!;

/** Ends the thread, so that every pending call fails as after any death of the engine: nothing can be computed on a lost device. */
const endWith = (error: unknown): void => {
  setImmediate(() => {
    throw error;
  });
};

const port: CorePort = {
  post: (message, transfer = []) => parent.postMessage(message, transfer),
  onMessage: (receive) => parent.on("message", receive),
};
const { source, options, gate, deviceLock } = workerData as WorkerStart;
const opening = new AbortController();
function abort({ type }: ToWorker): void {
  if (type === "abort") opening.abort();
}
parent.on("message", abort);
try {
  const core = await openCore(source, options, {
    signal: opening.signal,
    gate,
    deviceLock,
    notice: (message) => port.post({ type: "notice", message }),
    progress: (progress) => port.post({ type: "progress", progress }),
  });
  parent.off("message", abort);
  serveCore(core, port, endWith);
  port.post({ type: "ready", info: core.info });
} catch (error) {
  port.post({ type: "failed", error: toPlainError(error) });
}
