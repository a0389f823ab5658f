/**
 * The public engine: a proxy on the caller's thread for an `EngineCore`, which normally runs in a worker so that the caller's event loop
 * stays free. Calls are messages that may be answered in any order; abort signals and token callbacks are converted to messages here.
 */

import type { EngineCore } from "./core.ts";
import { EngineError, InputError } from "./errors.ts";
import { openCore, type PlainOptions } from "./open-core.ts";
import { checkOptions, checkSampleRequest } from "./options.ts";
import type { SampleHandle } from "./sample/sampler.ts";
import type {
  Engine,
  EngineOptions,
  ModelInfo,
  SampleOptions,
  SampleRequest,
  SampleResult,
  TokenEvent,
} from "./types.ts";
import { type ArrayChunk, detachArrays, sendChunks } from "./worker/chunked-transfer.ts";
import { type FromWorker, fromPlainError, type ToWorker, type WorkerStart } from "./worker/messages.ts";
import { createGate, watchGate } from "./worker/native-call-gate.ts";
import { startThread } from "./worker/start-thread.ts";

/** Transport of calls to a core. */
interface Link {
  readonly info: ModelInfo;
  /** The method of the core with this name. */
  method<Method extends keyof EngineCore>(name: Method): EngineCore[Method];
  sample(request: SampleRequest, onToken: ((event: TokenEvent) => void) | undefined): SampleHandle;
  /** Idempotent. */
  close(): Promise<void>;
}

/** A core on the calling thread. */
const directLink = (core: EngineCore): Link => ({
  info: core.info,
  method: (name) => (core[name] as (...args: never[]) => unknown).bind(core) as EngineCore[typeof name],
  sample: (request, onToken) => core.sample(request, onToken),
  close: () => core.close(),
});

interface Pending {
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  readonly onToken?: (event: TokenEvent) => void;
}

/** One per process, because runs of two engines at once can crash a device's driver: 0 is free, 1 is held. */
const deviceLock = new Int32Array(new SharedArrayBuffer(4));

/** Calls with arguments of up to hundreds of megabytes. */
const largeCalls = new Set(["importState", "loadState", "importSnapshot"]);

/** A core in a worker thread. */
async function workerLink(
  source: string,
  options: PlainOptions,
  { onNotice, onProgress, signal }: EngineOptions,
): Promise<Link> {
  const gate = createGate();
  const worker = await startThread(import.meta.url, "worker/worker", {
    workerData: { source, options, gate, deviceLock } satisfies WorkerStart,
  });
  worker.once("exit", watchGate(gate));
  const pending = new Map<number, Pending>();
  let nextId = 1;
  let ended: EngineError | undefined;
  const end = (error: EngineError): void => {
    ended ??= error;
    for (const { reject } of pending.values()) reject(ended);
    pending.clear();
  };
  // The thread stops by itself and reports it: terminating it while it loads the native runtime would end the process.
  const abort = (): void => worker.postMessage({ type: "abort" } satisfies ToWorker);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  const info = await new Promise<ModelInfo>((resolve, reject) => {
    worker.on("message", (message: FromWorker) => {
      switch (message.type) {
        case "ready":
          return signal?.aborted ? reject(signal.reason) : resolve(message.info);
        case "failed":
          return reject(signal?.aborted ? signal.reason : fromPlainError(message.error));
        case "notice":
          return onNotice?.(message.message);
        case "progress":
          return onProgress?.(message.progress);
        case "token":
          return pending.get(message.id)?.onToken?.(message.event);
        case "result":
          pending.get(message.id)?.resolve(message.value as never);
          return void pending.delete(message.id);
        case "error":
          pending.get(message.id)?.reject(fromPlainError(message.error));
          return void pending.delete(message.id);
        default:
          message satisfies never;
      }
    });
    worker.on("error", (cause) => {
      const error = new EngineError("worker_died", `the engine's thread failed: ${cause.message}`, { cause });
      reject(error);
      end(error);
    });
    worker.on("exit", () => {
      const error = new EngineError("closed", "the engine is closed");
      reject(error);
      end(error);
    });
  })
    .catch(async (error: unknown) => {
      await worker.terminate();
      throw error;
    })
    .finally(() => signal?.removeEventListener("abort", abort));
  // A pending call keeps the process alive; an idle engine does not.
  worker.unref();
  const ask = <T>(
    method: string,
    args: readonly unknown[],
    onToken?: (event: TokenEvent) => void,
  ): { id: number; result: Promise<T> } => {
    const id = nextId++;
    const result = new Promise<T>((resolve, reject) => {
      if (ended) return reject(ended);
      const apart = largeCalls.has(method) ? detachArrays(args) : undefined;
      try {
        // before the call is registered: a message that cannot be sent gets no answer
        const call: ToWorker = {
          type: "call",
          id,
          method,
          ...(apart ? { args: apart.args, places: apart.places } : { args }),
        };
        worker.postMessage(call);
      } catch (cause) {
        return reject(notSent(method, cause));
      }
      pending.set(id, { resolve: resolve as (value: never) => void, reject, ...(onToken ? { onToken } : {}) });
      worker.ref();
      if (!apart) return;
      const sendPiece = (piece: ArrayChunk): void =>
        worker.postMessage({ type: "piece", id, piece } satisfies ToWorker, [piece.data.buffer]);
      sendChunks(apart.arrays, sendPiece, () => pending.has(id)).catch((cause: unknown) => {
        pending.delete(id);
        reject(notSent(method, cause));
        worker.postMessage({ type: "cancel", id } satisfies ToWorker);
      });
    }).finally(() => {
      if (pending.size === 0) worker.unref();
    });
    return { id, result };
  };
  const shutDown = async (): Promise<void> => {
    if (ended) return;
    await ask("close", []).result.catch((error: unknown) => {
      if (!ended) throw error; // the thread may have ended in the meantime, which counts as closed
    });
    end(new EngineError("closed", "the engine was closed"));
    await worker.terminate();
  };
  let closing: Promise<void> | undefined;
  return {
    info,
    method: (name) => ((...args: unknown[]) => ask(name, args).result) as unknown as EngineCore[typeof name],
    sample: (request, onToken) => {
      const { id, result } = ask<SampleResult>("sample", [request, onToken !== undefined], onToken);
      return { result, cancel: () => worker.postMessage({ type: "cancel", id } satisfies ToWorker) };
    },
    close: () => {
      closing ??= shutDown();
      return closing;
    },
  };
}

const notSent = (method: string, cause: unknown): InputError =>
  new InputError(method, `an argument cannot be sent to the engine's thread: ${(cause as Error).message}`, {
    hint: "requests are plain data; pass callbacks and signals in the options of openEngine or sample",
    cause,
  });

/**
 * A sample with its signal and its callback. When the signal is aborted or `onToken` throws, the promise rejects with that reason, the core
 * is asked to stop, and later tokens are discarded.
 */
const sampleWith = (link: Link, request: SampleRequest, { signal, onToken }: SampleOptions): Promise<SampleResult> =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    checkSampleRequest(request);
    let over = false;
    const stop = (reason: unknown): void => {
      over = true;
      reject(reason);
      handle.cancel(reason);
    };
    const deliver = (event: TokenEvent): void => {
      if (over) return;
      try {
        onToken?.(event);
      } catch (error) {
        stop(error);
      }
    };
    const handle = link.sample(request, onToken && deliver);
    const abort = (): void => stop(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    handle.result.then(resolve, reject).finally(() => {
      over = true;
      signal?.removeEventListener("abort", abort);
    });
  });

/**
 * Opens a model: a folder, a `.safetensors` or `.gguf` file, or a Hub id.
 *
 * @throws InputError for an invalid option, ConfigError for an unsupported model, WeightsError for bad files, HubError for a failed
 *   download, MemoryError if the model does not fit the budget.
 * @example
 * ```ts
 * await using engine = await openEngine("./SmolLM2-135M");
 * const { adapterId } = await engine.createAdapter({ rank: 16 });
 * await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
 * await engine.optimStep(adapterId, { learningRate: 1e-4 });
 * const { sequences } = await engine.sample({ prompt, adapter: adapterId, params: { maxTokens: 64 } });
 * ```
 */
export async function openEngine(source: string, options: EngineOptions = {}): Promise<Engine> {
  checkOptions(options);
  options.signal?.throwIfAborted();
  const { onProgress, onNotice, signal, inThread, ...plain } = options;
  const notice = onNotice ?? ((message: string) => console.warn(`tinklet engine: ${message}`));
  const more = signal ? { signal } : {};
  const link = inThread
    ? directLink(
        await openCore(source, plain, { notice, progress: (progress) => onProgress?.(progress), deviceLock, ...more }),
      )
    : await workerLink(source, plain, { ...(onProgress ? { onProgress } : {}), onNotice: notice, ...more });
  const close = (): Promise<void> => link.close();
  return {
    info: link.info,
    tokenizer: {
      encode: link.method("encode"),
      decode: link.method("decode"),
      applyChatTemplate: link.method("applyChatTemplate"),
    },
    createAdapter: link.method("createAdapter"),
    adapterInfo: link.method("adapterInfo"),
    deleteAdapter: link.method("deleteAdapter"),
    forward: link.method("forward"),
    forwardBackward: link.method("forwardBackward"),
    optimStep: link.method("optimStep"),
    snapshot: link.method("snapshot"),
    importSnapshot: link.method("importSnapshot"),
    deleteSnapshot: link.method("deleteSnapshot"),
    exportState: link.method("exportState"),
    importState: link.method("importState"),
    loadState: link.method("loadState"),
    savePeft: link.method("savePeft"),
    readPeft: link.method("readPeft"),
    saveMerged: link.method("saveMerged"),
    sample: (request, given = {}) => sampleWith(link, request, given),
    stats: link.method("stats"),
    close,
    [Symbol.asyncDispose]: close,
  };
}
