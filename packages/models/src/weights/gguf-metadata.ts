/** A model's configuration as GGUF metadata: the way back from `gguf-model.ts`. Refuses what llama.cpp's graph of an architecture lacks. */

import type { ModelConfig } from "../config/read-config.ts";
import { ConfigError } from "../errors.ts";
import { llama3Factors } from "./rope-factors.ts";
import type { GgufField, GgufFields } from "./write-gguf.ts";

/** GGUF's name of an architecture: a Mistral is computed as a llama. */
export const ggufArchitecture = ({ architecture }: ModelConfig): "llama" | "qwen2" | "qwen3" =>
  architecture === "mistral" ? "llama" : architecture;

/** What llama.cpp calls the format of most tensors of a file. */
export const fileTypes = { F32: 0, F16: 1, Q8_0: 7, BF16: 32 } as const;

/**
 * The metadata that say what is computed.
 * @throws ConfigError naming what llama.cpp would leave out of such a model.
 */
export function modelFields(config: ModelConfig): GgufFields {
  const architecture = ggufArchitecture(config);
  const refuse = (field: string, message: string) =>
    new ConfigError(`config.json: ${field}: ${message}`, { code: "unsupported_field", field });
  if (architecture === "qwen3" && (config.qkvBias || config.outputBias)) {
    throw refuse("attention_bias", "llama.cpp has no biases in the attention of a qwen3");
  }
  if (architecture !== "llama" && config.ropeScaling.type === "llama3") {
    throw refuse("rope_scaling", `llama.cpp has no llama3 scaling in a ${architecture}`);
  }
  if (architecture === "qwen2" && config.headDim * config.heads !== config.hiddenSize) {
    throw refuse(
      "head_dim",
      `the heads of a qwen2 are ${config.hiddenSize / config.heads} wide in llama.cpp, not ${config.headDim}`,
    );
  }
  const fields = new Map<string, GgufField>();
  const u32 = (name: string, value: number) => fields.set(`${architecture}.${name}`, { type: "u32", value });
  const f32 = (name: string, value: number) => fields.set(`${architecture}.${name}`, { type: "f32", value });
  fields.set("general.architecture", { type: "string", value: architecture });
  fields.set("general.type", { type: "string", value: "model" });
  u32("block_count", config.layers);
  u32("context_length", config.contextLength);
  u32("embedding_length", config.hiddenSize);
  u32("feed_forward_length", config.mlpSize);
  u32("attention.head_count", config.heads);
  u32("attention.head_count_kv", config.kvHeads);
  u32("attention.key_length", config.headDim);
  u32("attention.value_length", config.headDim);
  f32("attention.layer_norm_rms_epsilon", config.normEpsilon);
  u32("rope.dimension_count", config.headDim);
  f32("rope.freq_base", config.ropeTheta);
  if (config.ropeScaling.type === "linear") {
    fields.set(`${architecture}.rope.scaling.type`, { type: "string", value: "linear" });
    f32("rope.scaling.factor", config.ropeScaling.factor);
  }
  u32("vocab_size", config.vocabSize);
  return fields;
}

/** The divisors of RoPE's frequencies that a Llama 3 carries as a tensor; undefined for others. */
export function ropeFactors({ ropeScaling, headDim, ropeTheta }: ModelConfig): Float32Array | undefined {
  if (ropeScaling.type !== "llama3") return undefined;
  const { factor, lowFreqFactor, highFreqFactor, originalContextLength } = ropeScaling;
  const parameters = { factor, lowFreqFactor, highFreqFactor, originalContext: originalContextLength };
  return Float32Array.from(llama3Factors(headDim, ropeTheta, parameters));
}
