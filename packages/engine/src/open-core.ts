/** Opens a model on the current thread: runtime, weights, tokenizer, and the context length that fits in memory. */
import { availableParallelism } from "node:os";
import { type DownloadProgress, openModel } from "@tinklet/models";
import { countParameters, endOfTextIds, type ModelConfig, readConfig } from "@tinklet/models/config";
import { EngineCore } from "./core.ts";
import { openDevice } from "./device/open-device.ts";
import { ConfigError, MemoryError } from "./errors.ts";
import { defaultMemoryBudget, longestCached, planMemory, weightsBytesOf } from "./memory-plan.ts";
import { loadModel } from "./model/load.ts";
import { createDeviceRuntime } from "./runtime/device-runtime.ts";
import { createInterpreter } from "./runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime, nativeHint } from "./runtime/ort.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { KvCache } from "./sample/kv-cache.ts";
import type { EngineOptions } from "./types.ts";
import { type GateMemory, gatedRuntime, throughGate } from "./worker/native-call-gate.ts";

/** Options that can be sent to another thread. */
export type PlainOptions = Omit<EngineOptions, "onProgress" | "onNotice" | "signal" | "inThread">;

export interface OpenCallbacks {
  readonly notice: (message: string) => void;
  readonly progress: (progress: DownloadProgress) => void;
  /** Aborts a download. */
  readonly signal?: AbortSignal;
  /** Shared memory that marks native calls, on a thread that the process may stop. */
  readonly gate?: GateMemory;
  /** Held by the one thread of the process that runs something on a device. */
  readonly deviceLock?: Int32Array<SharedArrayBuffer>;
}

export interface RuntimeChoice {
  readonly threads: number;
  readonly notice: (message: string) => void;
  readonly loadNative?: typeof loadNativeRuntime;
}

/** Chooses a runtime; a fallback to WebAssembly is reported as a notice. */
export async function chooseRuntime(
  wanted: EngineOptions["runtime"],
  { threads, notice, loadNative = loadNativeRuntime }: RuntimeChoice,
): Promise<Runtime> {
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
    `onnxruntime-node cannot be loaded (${reason}): running on WebAssembly, about four times slower; ${nativeHint}`,
  );
  return loadWasmRuntime(threads);
}

/** The device's runtime, if the options ask for one and it can be opened; otherwise a runtime of the CPU. */
async function openRuntime(options: PlainOptions, { notice, gate, deviceLock }: OpenCallbacks): Promise<Runtime> {
  const threads = options.threads ?? availableParallelism();
  const isNative = options.runtime === undefined || options.runtime === "auto" || options.runtime === "native";
  const device = await openDevice(isNative ? (options.device ?? "cpu") : "cpu", {
    threads,
    notice,
    gate,
    lock: deviceLock,
    memoryBudgetBytes: options.memoryBudgetBytes,
    precision: options.precision,
  });
  if (device) return createDeviceRuntime(device); // its native calls pass the gate one by one
  const choose = () => chooseRuntime(options.runtime, { threads, notice });
  return gate ? gatedRuntime(await throughGate(gate, choose), gate) : choose();
}

/** The context length of an engine without the option. */
function defaultContext(config: ModelConfig, cacheBytes: number, notice: (message: string) => void): number {
  const length = longestCached(config, cacheBytes);
  if (length === 0) {
    throw new MemoryError("the memory budget leaves no room for the cache of a single request", {
      neededBytes: KvCache.bytesFor(config, 2, 1),
      budgetBytes: cacheBytes,
      hint: "raise the memory budget",
    });
  }
  if (length < config.contextLength) {
    notice(
      `the context is ${length} tokens instead of the model's ${config.contextLength}: the memory budget has no cache for more. ` +
        "Raise memoryBudgetBytes; or set contextLength and keep requests short with maxTokens",
    );
  }
  return length;
}

/** @throws ConfigError, WeightsError, MemoryError; where possible before anything large is read. */
export async function openCore(source: string, options: PlainOptions, callbacks: OpenCallbacks): Promise<EngineCore> {
  const { notice, progress, signal } = callbacks;
  const { cacheDir, offline } = options;
  const opened = await openModel(source, { cacheDir, offline, signal, onProgress: progress });
  try {
    signal?.throwIfAborted();
    const config = readConfig(opened.config);
    const parameters = countParameters(config);
    const runtime = await openRuntime(options, callbacks);
    const { device } = runtime;
    const budget = device?.memoryBytes ?? options.memoryBudgetBytes ?? defaultMemoryBudget();
    const memory = planMemory(source, {
      weightsBytes: weightsBytesOf(config, device?.precision),
      budget,
      runtime: device === undefined ? runtime.name : "device",
    });
    const contextLength = Math.min(
      options.contextLength ?? defaultContext(config, memory.cacheBytes, notice),
      config.contextLength,
    );
    const model = loadModel(config, opened.weights);
    // The tokenizer lists more EOS tokens than config.json. A model without a tokenizer can still train and sample.
    const tokenizer = await opened.loadTokenizer().then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const eosTokenIds = endOfTextIds(config.eosTokenIds, "value" in tokenizer ? tokenizer.value.eosTokenIds : []);
    return new EngineCore({
      ...memory,
      model,
      runtime,
      path: opened.path,
      contextLength,
      maxBatch: options.maxBatch ?? device?.plan.sequences ?? 32,
      loadTokenizer: () => ("value" in tokenizer ? Promise.resolve(tokenizer.value) : Promise.reject(tokenizer.error)),
      info: {
        origin: opened.origin,
        architecture: config.architecture,
        runtime: runtime.name,
        ...(device && {
          device: {
            kind: device.kind,
            name: device.name,
            memoryBytes: device.memoryBytes,
            precision: device.precision,
          },
        }),
        vocabSize: config.vocabSize,
        contextLength,
        hiddenSize: config.hiddenSize,
        layers: config.layers,
        parameters,
        tiedEmbeddings: config.tiedEmbeddings,
        eosTokenIds,
        config: opened.config,
      },
    });
  } finally {
    opened.close();
  }
}
