/** Entry point of an engine's Web Worker: downloads a model, opens it on onnxruntime-web and answers calls. */
import { modelFromFiles } from "@tinklet/models/bytes";
import { createCore } from "../create-core.ts";
import { ModelError } from "../errors.ts";
import { type Ort, wasmRuntime } from "../runtime/ort-runtime.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { type FromWorker, type ToWorker, toPlainError } from "../worker/messages.ts";
import { serveCore } from "../worker/serve-core.ts";
import { type FetchFilesOptions, fetchFile, fetchModelFiles } from "./fetch-files.ts";
import { type BrowserStart, browserHint, type ToBrowserWorker } from "./start.ts";

/** The part of a worker's global scope in use. */
interface WorkerScope {
  onmessage: ((event: { readonly data: ToBrowserWorker }) => void) | null;
  postMessage(message: FromWorker, transfer?: ArrayBuffer[]): void;
  readonly name: string;
}

/** Time for the runtime to start. Threads whose script the browser refuses (a missing Cross-Origin-Embedder-Policy) never start. */
const runtimeStartMs = 60_000;

async function loadRuntime({ runtimeUrl, threads }: BrowserStart, files: FetchFilesOptions): Promise<Runtime> {
  const wasmUrl = new URL("ort-wasm-simd-threaded.wasm", runtimeUrl).href;
  const wasmBinary = await fetchFile(wasmUrl, "ort-wasm-simd-threaded.wasm", files);
  if (wasmBinary === undefined) {
    throw new ModelError("no_runtime", `there is no ${wasmUrl}`, {
      hint: "serve the files ort-wasm-simd-threaded.mjs and .wasm of onnxruntime-web/dist, and pass their folder as runtimeUrl",
    });
  }
  const ort = (await import("onnxruntime-web/wasm")) as unknown as Ort;
  ort.env.wasm = Object.assign(ort.env.wasm ?? {}, {
    wasmPaths: runtimeUrl,
    wasmBinary: wasmBinary.buffer,
    initTimeout: runtimeStartMs,
  });
  return wasmRuntime(ort, { threads, hint: browserHint });
}

async function start(scope: WorkerScope, options: BrowserStart, signal: AbortSignal): Promise<void> {
  const { folder, origin, memoryBudgetBytes, contextLength, maxBatch, cacheName, lock } = options;
  if (lock !== undefined) {
    await new Promise<void>((resolve, reject) => {
      const held = new Promise<never>(() => {}); // until the worker ends
      navigator.locks
        .request(lock, () => {
          resolve();
          return held;
        })
        .catch(reject);
    });
  }
  const files: FetchFilesOptions = {
    fetch: (...args) => fetch(...args),
    cache: cacheName === undefined ? undefined : await caches.open(cacheName),
    signal,
    onProgress: (progress) => scope.postMessage({ type: "progress", progress }),
  };
  const [contents, runtime] = await Promise.all([fetchModelFiles(folder, files), loadRuntime(options, files)]);
  const model = modelFromFiles(contents, origin);
  const core = await createCore(model, runtime, {
    budget: memoryBudgetBytes,
    notice: (message) => scope.postMessage({ type: "notice", message }),
    wasmHint: browserHint,
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(maxBatch === undefined ? {} : { maxBatch }),
  });
  model.weights.close();
  signal.throwIfAborted();
  serveCore(
    core,
    {
      post: (message, transfer = []) => scope.postMessage(message, transfer),
      onMessage: (receive) => {
        scope.onmessage = ({ data }) => receive(data as ToWorker);
      },
    },
    (error) => {
      throw error; // reaches the page as the worker's error event
    },
  );
  scope.postMessage({ type: "ready", info: core.info, tokenizerFiles: model.tokenizerFiles });
}

const scope = globalThis as unknown as WorkerScope;
const opening = new AbortController();
scope.onmessage = ({ data }) => {
  if (data.type === "abort") opening.abort();
  if (data.type !== "start") return;
  start(scope, data, opening.signal).catch((error: unknown) =>
    scope.postMessage({ type: "failed", error: toPlainError(error) }),
  );
};
