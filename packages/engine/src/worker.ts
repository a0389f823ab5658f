/** The engine's thread: opens the model it is told to and answers calls until it is closed. */
import { parentPort, workerData } from "node:worker_threads";
import type { EngineCore } from "./core.ts";
import { type FromWorker, type ToWorker, toPlainError, type WorkerStart } from "./messages.ts";
import { openCore } from "./open-core.ts";
import type { SampleHandle } from "./sample/sampler.ts";
import type { SampleRequest } from "./types.ts";

const port = parentPort!;
const send = (message: FromWorker): void => port.postMessage(message);

/** Large results are moved, not copied: every typed array in a result belongs to it alone. */
const buffersOf = (value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> => {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
  } else if (value && typeof value === "object") for (const inner of Object.values(value)) buffersOf(inner, found);
  return found;
};

const serve = (core: EngineCore): void => {
  const samples = new Map<number, SampleHandle>();
  const call = (id: number, method: string, args: readonly unknown[]): Promise<unknown> => {
    if (method === "sample") {
      const [request, streams] = args as [SampleRequest, boolean];
      const handle = core.sample(request, streams ? (event) => send({ type: "token", id, event }) : undefined);
      samples.set(id, handle);
      return handle.result.finally(() => samples.delete(id));
    }
    const operation = core[method as keyof EngineCore] as (...given: readonly unknown[]) => Promise<unknown>;
    return operation.apply(core, args as unknown[]);
  };
  port.on("message", (message: ToWorker) => {
    if (message.type === "abort") return; // too late: it is open
    if (message.type === "cancel") {
      samples.get(message.id)?.cancel(new Error("cancelled"));
      return;
    }
    const { id, method, args } = message;
    call(id, method, args)
      .then((value) => port.postMessage({ type: "result", id, value } satisfies FromWorker, [...buffersOf(value)]))
      .catch((error: unknown) => send({ type: "error", id, error: toPlainError(error) }));
  });
};

const { source, options, gate } = workerData as WorkerStart;
const opening = new AbortController();
const abort = ({ type }: ToWorker): void => {
  if (type === "abort") opening.abort();
};
port.on("message", abort);
try {
  const core = await openCore(source, options, {
    signal: opening.signal,
    gate,
    notice: (message) => send({ type: "notice", message }),
    progress: (progress) => send({ type: "progress", progress }),
  });
  port.off("message", abort);
  serve(core);
  send({ type: "ready", info: core.info });
} catch (error) {
  send({ type: "failed", error: toPlainError(error) });
}
