/** The engine's side of the link between threads: answers the calls that arrive as messages. Works in Node and in browsers. */
import type { EngineCore } from "../core.ts";
import type { SampleHandle } from "../sample/sampler.ts";
import type { SampleRequest } from "../types.ts";
import { type ArrayPlace, type Assembly, createAssembly } from "./chunked-transfer.ts";
import { type FromWorker, type ToWorker, toPlainError } from "./messages.ts";

/** The messages between an engine's thread and its caller, seen from the engine. */
export interface CorePort {
  post(message: FromWorker, transfer?: ArrayBuffer[]): void;
  onMessage(receive: (message: ToWorker) => void): void;
}

/** Transfers large results instead of copying them; no other code refers to the typed arrays of a result. */
function buffersOf(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer && value.byteLength === value.buffer.byteLength) found.add(value.buffer);
  } else if (value && typeof value === "object") for (const inner of Object.values(value)) buffersOf(inner, found);
  return found;
}

function wholeOnes(whole: Promise<void>, arg: unknown): Promise<unknown> {
  const coming = whole.then(() => arg);
  coming.catch(() => {}); // avoids an unhandled rejection; the call itself rejects when it runs
  return coming;
}

/**
 * Answers the calls that arrive until the thread ends.
 *
 * @param endWith - ends the thread with an error that no later call can recover from
 */
export function serveCore(core: EngineCore, port: CorePort, endWith: (error: unknown) => void): void {
  const send = (message: FromWorker): void => port.post(message);
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
  port.onMessage((message) => {
    if (message.type === "abort") return; // too late: the model is open
    if (message.type === "cancel") {
      samples.get(message.id)?.cancel(new Error("cancelled"));
      assemblies.get(message.id)?.fail(new Error("cancelled"));
      return;
    }
    if (message.type === "piece") return assemblies.get(message.id)?.take(message.piece);
    const { id, method, args, places } = message;
    call(id, method, places ? comingArgs(id, args, places) : args)
      .then((value) => port.post({ type: "result", id, value }, [...buffersOf(value)]))
      .catch((error: unknown) => {
        if ((error as { code?: unknown }).code === "device_lost") endWith(error);
        else send({ type: "error", id, error: toPlainError(error) });
      });
  });
}
