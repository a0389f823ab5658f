/**
 * Creates the core of an engine from an opened model and a runtime: weights, tokenizer, memory plan, and the context length that fits in
 * memory. Nothing here needs Node.
 */
import type { ModelInMemory } from "@tinklet/models/bytes";
import { countParameters, endOfTextIds, type ModelConfig, readConfig } from "@tinklet/models/config";
import { type CoreOptions, EngineCore } from "./core.ts";
import { MemoryError } from "./errors.ts";
import { longestCached, planMemory, weightsBytesOf } from "./memory-plan.ts";
import { loadModel } from "./model/load.ts";
import type { Runtime } from "./runtime/runtime.ts";
import { KvCache } from "./sample/kv-cache.ts";
import type { EngineOptions } from "./types.ts";

export interface CreateOptions
  extends Pick<EngineOptions, "contextLength" | "maxBatch">,
    Pick<CoreOptions, "folders" | "residentBytes"> {
  /** Memory budget in bytes. */
  readonly budget: number;
  readonly notice: (message: string) => void;
  /** The fix for a model that is too large for WebAssembly. @defaultValue the native runtime */
  readonly wasmHint?: string;
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

/** @throws ConfigError, WeightsError, MemoryError */
export async function createCore(
  opened: Pick<ModelInMemory, "config" | "weights" | "origin" | "loadTokenizer">,
  runtime: Runtime,
  { budget, notice, folders, residentBytes, wasmHint, ...options }: CreateOptions,
): Promise<EngineCore> {
  const config = readConfig(opened.config);
  const { device } = runtime;
  const memory = planMemory(opened.origin, {
    weightsBytes: weightsBytesOf(config, device?.precision),
    budget,
    runtime: device === undefined ? runtime.name : "device",
    wasmHint,
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
    contextLength,
    ...(folders && { folders }),
    ...(residentBytes && { residentBytes }),
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
      parameters: countParameters(config),
      tiedEmbeddings: config.tiedEmbeddings,
      eosTokenIds,
      config: opened.config,
    },
  });
}
