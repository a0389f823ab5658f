/** Entry point of the engine's thread: opens a model and answers calls until it is closed. */
import { parentPort, workerData } from "node:worker_threads";
import type { EngineCore } from "../core.ts";
import { openCore } from "../open-core.ts";
import type { SampleHandle } from "../sample/sampler.ts";
import type { SampleRequest } from "../types.ts";
import { type ArrayPlace, type Assembly, createAssembly } from "./chunked-transfer.ts";
import { type FromWorker, type ToWorker, toPlainError, type WorkerStart } from "./messages.ts";
import { lowerThreadPriority } from "./thread-priority.ts";

lowerThreadPriority(); // before any other thread starts, because threads inherit the priority
const port = parentPort!;
const send = (message: FromWorker): void => port.postMessage(message);

/** Transfers large results instead of copying them; no other code refers to the typed arrays of a result. */
function buffersOf(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
  } else if (value && typeof value === "object") for (const inner of Object.values(value)) buffersOf(inner, found);
  return found;
}

/** Ends the thread, so that every pending call fails as after any death of the engine: nothing can be computed on a lost device. */
const endWith = (error: unknown): void => {
  setImmediate(() => {
    throw error;
  });
};

function wholeOnes(whole: Promise<void>, arg: unknown): Promise<unknown> {
  const coming = whole.then(() => arg);
  coming.catch(() => {}); // avoids an unhandled rejection; the call itself rejects when it runs
  return coming;
}

function serve(core: EngineCore): void {
  const samples = new Map<number, SampleHandle>();
  const assemblies = new Map<number, Assembly>();
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
  /** Arguments that are complete when their arrays have arrived. */
  const comingArgs = (id: number, args: readonly unknown[], places: readonly ArrayPlace[]): unknown[] => {
    const assembly = createAssembly(args, places);
    assemblies.set(id, assembly);
    const { whole } = assembly;
    whole.finally(() => assemblies.delete(id)).catch(() => {});
    return args.map((arg, i) => (places.some(({ path }) => path[0] === i) ? wholeOnes(whole, arg) : arg));
  };
  port.on("message", (message: ToWorker) => {
    if (message.type === "abort") return; // too late: the model is open
    if (message.type === "cancel") {
      samples.get(message.id)?.cancel(new Error("cancelled"));
      assemblies.get(message.id)?.fail(new Error("cancelled"));
      return;
    }
    if (message.type === "piece") return assemblies.get(message.id)?.take(message.piece);
    const { id, method, args, places } = message;
    call(id, method, places ? comingArgs(id, args, places) : args)
      .then((value) => port.postMessage({ type: "result", id, value } satisfies FromWorker, [...buffersOf(value)]))
      .catch((error: unknown) => {
        if ((error as { code?: unknown }).code === "device_lost") endWith(error);
        else send({ type: "error", id, error: toPlainError(error) });
      });
  });
}

const { source, options, gate, deviceLock } = workerData as WorkerStart;
const opening = new AbortController();
function abort({ type }: ToWorker): void {
  if (type === "abort") opening.abort();
}
port.on("message", abort);
try {
  const core = await openCore(source, options, {
    signal: opening.signal,
    gate,
    deviceLock,
    notice: (message) => send({ type: "notice", message }),
    progress: (progress) => send({ type: "progress", progress }),
  });
  port.off("message", abort);
  serve(core);
  send({ type: "ready", info: core.info });
} catch (error) {
  send({ type: "failed", error: toPlainError(error) });
}
