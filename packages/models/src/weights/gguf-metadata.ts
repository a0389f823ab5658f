/** Converts a model's configuration to GGUF metadata, the inverse of `gguf-model.ts`. Rejects features that llama.cpp does not support. */

import type { ModelConfig } from "../config/read-config.ts";
import { ConfigError } from "../errors.ts";
import { llama3Factors } from "./rope-factors.ts";
import type { GgufField, GgufFields } from "./write-gguf.ts";

/** GGUF's name of an architecture; Mistral models use "llama". */
export const ggufArchitecture = ({ architecture }: ModelConfig): "llama" | "qwen2" | "qwen3" =>
  architecture === "mistral" ? "llama" : architecture;

/** llama.cpp's `general.file_type`: the dtype of most tensors of a file. */
export const fileTypes = { F32: 0, F16: 1, Q8_0: 7, BF16: 32 } as const;

/**
 * The metadata that define the computation.
 * @throws ConfigError naming a feature of the model that llama.cpp would ignore.
 */
export function modelFields(config: ModelConfig): GgufFields {
  const architecture = ggufArchitecture(config);
  const refuse = (field: string, message: string) =>
    new ConfigError(`config.json: ${field}: ${message}`, { code: "unsupported_field", field });
  if (architecture === "qwen3" && (config.qkvBias || config.outputBias)) {
    throw refuse("attention_bias", "llama.cpp does not support attention biases for qwen3");
  }
  if (architecture !== "llama" && config.ropeScaling.type === "llama3") {
    throw refuse("rope_scaling", `llama.cpp does not support llama3 rope scaling for ${architecture}`);
  }
  if (architecture === "qwen2" && config.headDim * config.heads !== config.hiddenSize) {
    throw refuse(
      "head_dim",
      `must be ${config.hiddenSize / config.heads} (hidden_size / num_attention_heads) for qwen2 in llama.cpp, got ${config.headDim}`,
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

/** The RoPE frequency divisors, which GGUF files of Llama 3 models store as a tensor; undefined for other models. */
export function ropeFactors({ ropeScaling, headDim, ropeTheta }: ModelConfig): Float32Array | undefined {
  if (ropeScaling.type !== "llama3") return undefined;
  const { factor, lowFreqFactor, highFreqFactor, originalContextLength } = ropeScaling;
  const parameters = { factor, lowFreqFactor, highFreqFactor, originalContext: originalContextLength };
  return Float32Array.from(llama3Factors(headDim, ropeTheta, parameters));
}
