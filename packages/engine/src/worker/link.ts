/**
 * The caller's side of the link between threads, in Node and in browsers: calls are messages that may be answered in any order; abort
 * signals and token callbacks are converted to messages here.
 */
import type { EngineCore } from "../core.ts";
import { EngineError, InputError } from "../errors.ts";
import { checkSampleRequest } from "../options.ts";
import type { SampleHandle } from "../sample/sampler.ts";
import type {
  Engine,
  EngineOptions,
  ModelInfo,
  SampleOptions,
  SampleRequest,
  SampleResult,
  TokenEvent,
} from "../types.ts";
import { type ArrayChunk, detachArrays, sendChunks } from "./chunked-transfer.ts";
import { type FromWorker, fromPlainError, type ToWorker } from "./messages.ts";

/** Transport of calls to a core. */
export interface Link {
  readonly info: ModelInfo;
  /** The method of the core with this name. */
  method<Method extends keyof EngineCore>(name: Method): EngineCore[Method];
  sample(request: SampleRequest, onToken: ((event: TokenEvent) => void) | undefined): SampleHandle;
  /** Idempotent. */
  close(): Promise<void>;
}

/** A core on the calling thread. */
export const directLink = (core: EngineCore): Link => ({
  info: core.info,
  method: (name) => (core[name] as (...args: never[]) => unknown).bind(core) as EngineCore[typeof name],
  sample: (request, onToken) => core.sample(request, onToken),
  close: () => core.close(),
});

/** The thread of an engine, seen from its caller. */
export interface EngineThread {
  post(message: ToWorker, transfer?: ArrayBuffer[]): void;
  onMessage(receive: (message: FromWorker) => void): void;
  /** Called when the thread has ended, with the error that ended it if there is one. Further calls have no effect. */
  onEnd(ended: (cause?: Error) => void): void;
  terminate(): Promise<void> | void;
  /** Whether a call is pending, which keeps a process alive; an idle engine does not. */
  setBusy(isBusy: boolean): void;
}

interface Pending {
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
  readonly onToken?: (event: TokenEvent) => void;
}

/** Calls with arguments of up to hundreds of megabytes. */
const largeCalls = new Set(["importState", "loadState", "importSnapshot"]);

/** A core in a thread that opens its model and then reports `ready`. */
export async function threadLink(
  thread: EngineThread,
  { onNotice, onProgress, signal }: Pick<EngineOptions, "onNotice" | "onProgress" | "signal">,
): Promise<Link> {
  const pending = new Map<number, Pending>();
  let nextId = 1;
  let ended: EngineError | undefined;
  const end = (error: EngineError): void => {
    ended ??= error;
    for (const { reject } of pending.values()) reject(ended);
    pending.clear();
  };
  // The thread stops by itself and reports it: terminating it while it loads the native runtime would end the process.
  const abort = (): void => thread.post({ type: "abort" });
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  const info = await new Promise<ModelInfo>((resolve, reject) => {
    thread.onMessage((message) => {
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
    thread.onEnd((cause) => {
      const error =
        cause === undefined
          ? new EngineError("closed", "the engine is closed")
          : new EngineError("worker_died", `the engine's thread failed: ${cause.message}`, { cause });
      reject(error);
      end(error);
    });
  })
    .catch(async (error: unknown) => {
      await thread.terminate();
      throw error;
    })
    .finally(() => signal?.removeEventListener("abort", abort));
  thread.setBusy(false);
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
        thread.post(call);
      } catch (cause) {
        return reject(notSent(method, cause));
      }
      pending.set(id, { resolve: resolve as (value: never) => void, reject, ...(onToken ? { onToken } : {}) });
      thread.setBusy(true);
      if (!apart) return;
      const sendPiece = (piece: ArrayChunk): void => thread.post({ type: "piece", id, piece }, [piece.data.buffer]);
      sendChunks(apart.arrays, sendPiece, () => pending.has(id)).catch((cause: unknown) => {
        pending.delete(id);
        reject(notSent(method, cause));
        thread.post({ type: "cancel", id });
      });
    }).finally(() => {
      if (pending.size === 0) thread.setBusy(false);
    });
    return { id, result };
  };
  const shutDown = async (): Promise<void> => {
    if (ended) return;
    await ask("close", []).result.catch((error: unknown) => {
      if (!ended) throw error; // the thread may have ended in the meantime, which counts as closed
    });
    end(new EngineError("closed", "the engine was closed"));
    await thread.terminate();
  };
  let closing: Promise<void> | undefined;
  return {
    info,
    method: (name) => ((...args: unknown[]) => ask(name, args).result) as unknown as EngineCore[typeof name],
    sample: (request, onToken) => {
      const { id, result } = ask<SampleResult>("sample", [request, onToken !== undefined], onToken);
      return { result, cancel: () => thread.post({ type: "cancel", id }) };
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

/** The public engine over a link. */
export function engineOf(link: Link): Engine {
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
