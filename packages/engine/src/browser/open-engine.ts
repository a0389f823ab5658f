/** Opens an engine in a Web Worker. */
import type { TokenizerFiles } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
import { checkOptions } from "../options.ts";
import type { Engine, EngineOptions } from "../types.ts";
import { engineOf, threadLink } from "../worker/link.ts";
import type { FromWorker } from "../worker/messages.ts";
import { browserMemoryBudget, type ToBrowserWorker } from "./start.ts";

/** Options of {@link openEngine}. */
export interface BrowserEngineOptions
  extends Pick<EngineOptions, "contextLength" | "maxBatch" | "onNotice" | "onProgress" | "signal"> {
  /**
   * Address of the folder with `ort-wasm-simd-threaded.mjs` and `ort-wasm-simd-threaded.wasm` of `onnxruntime-web/dist`. It has to be of the
   * page's own origin, or allow other origins (CORS).
   */
  readonly runtimeUrl: string | URL;
  /**
   * Starts the worker. Needed with bundlers that do not follow `new Worker(new URL(…))`, such as esbuild: bundle
   * `@tinklet/engine/browser/worker` as a file of its own. @defaultValue the file beside this module
   */
  readonly worker?: () => Worker;
  /** Name of the model, for `info.origin` and messages. @defaultValue its address */
  readonly origin?: string;
  /** Threads of the runtime; more than one needs a cross-origin isolated page. @defaultValue the number of cores, at most 4; else 1 */
  readonly threads?: number;
  /** Upper bound of all memory. @defaultValue half of `navigator.deviceMemory`, at most 4 GiB; 2 GiB where it is unknown */
  readonly memoryBudgetBytes?: number;
  /** Name of the cache (`caches.open`) of downloaded files; false for none. @defaultValue "tinklet-models" */
  readonly cache?: string | false;
}

/** An engine in a browser. `savePeft`, `readPeft` and `saveMerged` fail, because there are no folders. */
export interface BrowserEngine extends Engine {
  /** The contents of the tokenizer's files. */
  readonly tokenizerFiles: TokenizerFiles;
}

/** More threads than this do not make small models faster. */
const mostThreads = 4;

/** Calls `released` when the holder of a lock has ended. */
function watchLock(name: string, signal: AbortSignal, released: () => void): void {
  navigator.locks.request(name, { signal }, released).catch(() => {}); // aborted by close
}

/** The address of a folder, with a slash at the end. @throws InputError */
function folderUrl(field: string, address: string | URL): string {
  try {
    const url = new URL(address, globalThis.location?.href);
    if (!url.pathname.endsWith("/")) url.pathname += "/";
    return url.href;
  } catch (cause) {
    throw new InputError(field, `must be the address of a folder, got ${JSON.stringify(String(address))}`, { cause });
  }
}

function defaultWorker(): Worker {
  return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "tinklet-engine" });
}

/**
 * Opens a model in a Web Worker: downloads its files, or takes them from the browser's cache.
 *
 * @param model - address of a folder with `config.json`, `model.safetensors` and `tokenizer.json`
 * @throws InputError for an invalid option, ModelError `download_failed`, ConfigError for an unsupported model, WeightsError for bad files,
 *   MemoryError if the model does not fit.
 * @example
 * ```ts
 * await using engine = await openEngine("/models/base/", { runtimeUrl: "/onnxruntime/" });
 * const { adapterId } = await engine.createAdapter({ rank: 16 });
 * ```
 */
export async function openEngine(model: string | URL, options: BrowserEngineOptions): Promise<BrowserEngine> {
  const { contextLength, maxBatch, onProgress, signal, cache = "tinklet-models" } = options;
  const isolated = globalThis.crossOriginIsolated === true;
  const threads = options.threads ?? (isolated ? Math.min(navigator.hardwareConcurrency, mostThreads) : 1);
  const deviceGiB = (navigator as { readonly deviceMemory?: number }).deviceMemory;
  const memoryBudgetBytes = options.memoryBudgetBytes ?? browserMemoryBudget(deviceGiB);
  checkOptions({
    threads,
    memoryBudgetBytes,
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(maxBatch === undefined ? {} : { maxBatch }),
  });
  if (threads > 1 && !isolated) {
    throw new InputError("threads", `must be 1 on a page that is not cross-origin isolated, got ${threads}`, {
      hint: "serve the page with Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp",
    });
  }
  const folder = folderUrl("model", model);
  const runtimeUrl = folderUrl("runtimeUrl", options.runtimeUrl);
  signal?.throwIfAborted();
  const worker = (options.worker ?? defaultWorker)();
  const locks = navigator.locks as LockManager | undefined;
  const lock = locks && `tinklet-engine-${crypto.randomUUID()}`;
  const post = (message: ToBrowserWorker, transfer: ArrayBuffer[] = []): void => worker.postMessage(message, transfer);
  let tokenizerFiles: TokenizerFiles | undefined;
  let end = (): void => {};
  const stopWaiting = new AbortController();
  post({
    type: "start",
    ...{ folder, runtimeUrl, threads, memoryBudgetBytes, contextLength, maxBatch, lock },
    origin: options.origin ?? folder,
    cacheName: cache === false || globalThis.caches === undefined ? undefined : cache,
  });
  const link = await threadLink(
    {
      post,
      onMessage: (receive) =>
        worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => {
          if (data.type === "ready") {
            tokenizerFiles = data.tokenizerFiles;
            // Granted when the worker has ended: nothing else reports that a worker was stopped.
            if (lock) watchLock(lock, stopWaiting.signal, () => end());
          }
          receive(data);
        }),
      onEnd: (ended) => {
        end = () => ended(new Error("the worker was stopped"));
        worker.addEventListener("error", ({ message }) => {
          ended(new Error(message || "its script could not be loaded"));
          worker.terminate();
        });
      },
      terminate: () => {
        stopWaiting.abort();
        worker.terminate();
      },
      setBusy: () => {},
    },
    {
      onNotice: options.onNotice ?? ((message: string) => console.warn(`tinklet engine: ${message}`)),
      ...(onProgress && { onProgress }),
      ...(signal && { signal }),
    },
  );
  return { ...engineOf(link), tokenizerFiles: tokenizerFiles! };
}
