/** Opens a model for work on the current thread: weights, runtime, and a division of the memory budget. */
import { availableParallelism, totalmem } from "node:os";
import { EngineCore } from "./core.ts";
import { ConfigError, MemoryError } from "./errors.ts";
import { readConfig } from "./model/config.ts";
import { countParameters, loadModel } from "./model/load.ts";
import { createInterpreter } from "./runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "./runtime/ort.ts";
import type { Runtime } from "./runtime/runtime.ts";
import type { EngineOptions } from "./types.ts";
import { type DownloadProgress, openModel } from "./weights/index.ts";

/** Options that may cross a thread boundary. */
export type PlainOptions = Omit<EngineOptions, "onProgress" | "onNotice" | "signal" | "inThread">;

export interface OpenCallbacks {
  readonly notice: (message: string) => void;
  readonly progress: (progress: DownloadProgress) => void;
  /** Stops a download. */
  readonly signal?: AbortSignal;
}

/** Weights up to this size are also kept in the layout that decoding multiplies fastest with: packing costs a few seconds per gigabyte
 * when the first token is decoded, and as much memory again. */
const PACK_LIMIT_BYTES = 6e8;
/** Share of the machine's memory that an engine takes by default. */
const DEFAULT_SHARE = 0.8;

/** Picks a runtime; falling back to the slow one is worth a notice. */
export const chooseRuntime = async (
  wanted: EngineOptions["runtime"],
  threads: number,
  notice: (message: string) => void,
  loadNative: typeof loadNativeRuntime = loadNativeRuntime,
): Promise<Runtime> => {
  if (wanted === "interpreter") return createInterpreter();
  if (wanted === "wasm") return loadWasmRuntime(threads);
  const { runtime, reason } = await loadNative(threads);
  if (runtime) return runtime;
  if (wanted === "native") {
    throw new ConfigError(`the native runtime cannot be loaded: ${reason}`, {
      code: "no_native_runtime",
      field: "runtime",
      hint: "install onnxruntime-node, or use the wasm runtime",
    });
  }
  notice(
    `onnxruntime-node cannot be loaded (${reason}): running on WebAssembly, about four times slower. ` +
      "To get the native runtime: ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node",
  );
  return loadWasmRuntime(threads);
};

/**
 * @throws ConfigError, WeightsError, MemoryError: before anything large is read where that can be known.
 */
export const openCore = async (
  source: string,
  options: PlainOptions,
  callbacks: OpenCallbacks,
): Promise<EngineCore> => {
  const opened = await openModel(source, {
    ...(options.cacheDir === undefined ? {} : { cacheDir: options.cacheDir }),
    ...(options.offline === undefined ? {} : { offline: options.offline }),
    ...(callbacks.signal === undefined ? {} : { signal: callbacks.signal }),
    onProgress: callbacks.progress,
  });
  try {
    callbacks.signal?.throwIfAborted();
    const config = readConfig(opened.config);
    const budget = options.memoryBudgetBytes ?? Math.floor(totalmem() * DEFAULT_SHARE);
    const weightsBytes = countParameters(config) * 4;
    // Less than a tenth more than the weights leaves no room to do anything with them.
    if (weightsBytes * 1.1 > budget) {
      throw new MemoryError(`${source} needs ${Math.ceil(weightsBytes / 1e6)} MB for its weights in float32`, {
        neededBytes: weightsBytes,
        budgetBytes: budget,
        hint: `the memory budget is ${Math.floor(budget / 1e6)} MB`,
      });
    }
    const runtime = await chooseRuntime(options.runtime, options.threads ?? availableParallelism(), callbacks.notice);
    const model = loadModel(config, opened.weights);
    const free = budget - model.bytes;
    const packWeights = runtime.name === "native" && model.bytes <= PACK_LIMIT_BYTES && 2 * model.bytes < free;
    const rest = packWeights ? free - model.bytes : free;
    const contextLength = Math.min(options.contextLength ?? config.contextLength, config.contextLength);
    // The tokenizer knows more ends of text than config.json does, but a model without one can still train and sample.
    const tokenizer = await opened.loadTokenizer().then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const eosTokenIds = [
      ...new Set([...config.eosTokenIds, ...("value" in tokenizer ? tokenizer.value.eosTokenIds : [])]),
    ];
    return new EngineCore({
      model,
      runtime,
      contextLength,
      maxBatch: options.maxBatch ?? 32,
      activationBytes: Math.floor(rest * 0.6),
      cacheBytes: Math.floor(rest * 0.3),
      packWeights,
      loadTokenizer: () => ("value" in tokenizer ? Promise.resolve(tokenizer.value) : Promise.reject(tokenizer.error)),
      info: {
        origin: opened.origin,
        architecture: config.architecture,
        runtime: runtime.name,
        vocabSize: config.vocabSize,
        contextLength,
        hiddenSize: config.hiddenSize,
        layers: config.layers,
        parameters: countParameters(config),
        tiedEmbeddings: config.tiedEmbeddings,
        eosTokenIds,
        config: opened.config,
      },
    });
  } finally {
    opened.close();
  }
};
