/**
 * Opens a GGUF file with Hugging Face's tensor names and row order, and a `config.json` rebuilt from the metadata, so that other modules
 * handle only Hugging Face's conventions.
 */

import { ConfigError, WeightsError } from "../errors.ts";
import { assertLittleEndian } from "./codecs.ts";
import { fileWeights } from "./file-weights.ts";
import { type GgufHeader, type GgufValue, readGgufHeader } from "./gguf.ts";
import { architectures, huggingFaceName, interleavedHeads, ropeFactorsName } from "./gguf-names.ts";
import { llama3Scaling } from "./rope-factors.ts";
import type { TensorInfo, WeightSource } from "./types.ts";
import { WeightFile } from "./weight-file.ts";

export interface OpenedGguf {
  readonly config: Record<string, unknown>;
  readonly weights: WeightSource;
  /** The tokenizer is built from it. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
}

export function openGguf(path: string): OpenedGguf {
  assertLittleEndian();
  const file = new WeightFile(path);
  try {
    const header = readGgufHeader(file);
    const { metadata } = header;
    const split = metadata.get("split.count");
    if (split !== undefined && split !== 1 && split !== 0) {
      throw new WeightsError(`${path} is one of ${String(split)} parts`, {
        code: "split_gguf",
        file: path,
        hint: "join them with llama.cpp's llama-gguf-split --merge",
      });
    }
    const tensors = new Map<string, TensorInfo>();
    let factors: TensorInfo | undefined;
    for (const { name, dtype, dimensions, offset, byteLength } of header.tensors) {
      const target = name === ropeFactorsName ? name : huggingFaceName(name);
      if (target === undefined) {
        const message = `${path}: tensor ${name} does not belong to a supported architecture`;
        throw new WeightsError(message, { code: "unknown_tensor", tensor: name, file: path });
      }
      const info = { name: target, dtype, shape: [...dimensions].reverse(), file: path, offset, byteLength };
      if (name === ropeFactorsName) factors = info;
      else tensors.set(target, info);
    }

    const config = ggufConfig(header, tensors, path);
    if (factors) {
      const files = new Map([[path, file]]);
      const values = fileWeights({ files, tensors: new Map([[ropeFactorsName, factors]]) }).readFloat32(
        ropeFactorsName,
      );
      config["rope_scaling"] = llama3Scaling(
        values,
        config["head_dim"] as number,
        config["rope_theta"] as number,
        path,
      );
    }
    const heads =
      metadata.get("general.architecture") === "llama"
        ? interleavedHeads(
            tensors.keys(),
            config["num_attention_heads"] as number,
            config["num_key_value_heads"] as number,
          )
        : undefined;
    const weights = fileWeights({
      files: new Map([[path, file]]),
      tensors,
      ...(heads && { interleavedHeads: heads }),
    });
    return { config, weights, metadata };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** Rebuilds `config.json` from the metadata and, for values that the metadata lack, from the tensors. */
function ggufConfig(
  { metadata }: GgufHeader,
  tensors: ReadonlyMap<string, TensorInfo>,
  path: string,
): Record<string, unknown> {
  const refuse = (key: string, message: string) =>
    new ConfigError(`${path}: ${key} ${message}`, { code: "unsupported_config", field: key });
  const architecture = metadata.get("general.architecture");
  if (typeof architecture !== "string" || !Object.hasOwn(architectures, architecture)) {
    throw refuse("general.architecture", `${JSON.stringify(architecture ?? null)} is not supported`);
  }
  const integer = (name: string, fallback?: number): number => {
    const key = `${architecture}.${name}`;
    const value = metadata.get(key) ?? fallback;
    if (value === undefined) throw refuse(key, "is missing");
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1) {
      throw refuse(key, `must be a positive integer, got ${describe(value)}`);
    }
    return value;
  };
  const positive = (name: string, fallback?: number): number => {
    const key = `${architecture}.${name}`;
    const value = metadata.get(key) ?? fallback;
    if (typeof value !== "number" || !(value > 0) || !Number.isFinite(value)) {
      throw refuse(key, value === undefined ? "is missing" : `must be a positive number, got ${describe(value)}`);
    }
    return value;
  };
  const tokenId = (name: string): number | null => {
    const key = `tokenizer.ggml.${name}`;
    const value = metadata.get(key);
    if (value === undefined) return null;
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0)
      throw refuse(key, `is ${describe(value)}`);
    return value;
  };

  const embedding = tensors.get("model.embed_tokens.weight");
  if (!embedding) {
    throw new WeightsError(`${path}: tensor token_embd.weight is missing`, {
      code: "missing_tensor",
      tensor: "token_embd.weight",
      file: path,
    });
  }
  if (integer("expert_count", 1) > 1)
    throw refuse(`${architecture}.expert_count`, "must be 1: mixture of experts is not supported");
  const hidden = integer("embedding_length");
  const heads = integer("attention.head_count");
  const headDim = integer("attention.key_length", hidden / heads);
  for (const name of ["attention.value_length", "rope.dimension_count"]) {
    const size = integer(name, headDim);
    if (size !== headDim) throw refuse(`${architecture}.${name}`, `must equal the head size ${headDim}, got ${size}`);
  }
  const config: Record<string, unknown> = {
    architectures: [architectures[architecture]],
    model_type: architecture,
    hidden_act: "silu",
    hidden_size: hidden,
    intermediate_size: integer("feed_forward_length"),
    num_hidden_layers: integer("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: integer("attention.head_count_kv", heads),
    head_dim: headDim,
    rms_norm_eps: positive("attention.layer_norm_rms_epsilon"),
    rope_theta: positive("rope.freq_base", 10_000),
    max_position_embeddings: integer("context_length"),
    vocab_size: embedding.shape[0], // the embedding's rows, which bound the token ids that the model accepts
    tie_word_embeddings: !tensors.has("lm_head.weight"),
    bos_token_id: tokenId("bos_token_id"),
    eos_token_id: tokenId("eos_token_id"),
    pad_token_id: tokenId("padding_token_id"),
  };
  if (architecture === "llama") {
    config["attention_bias"] = tensors.has("model.layers.0.self_attn.q_proj.bias");
    config["mlp_bias"] = tensors.has("model.layers.0.mlp.gate_proj.bias");
  }
  const window = integer("attention.sliding_window", config["max_position_embeddings"] as number);
  if (window < (config["max_position_embeddings"] as number)) {
    throw refuse(`${architecture}.attention.sliding_window`, `is ${window}; only full attention is supported`);
  }
  const scaling = metadata.get(`${architecture}.rope.scaling.type`);
  if (scaling !== undefined && scaling !== "none") {
    config["rope_scaling"] = { rope_type: describe(scaling), factor: positive("rope.scaling.factor") };
  }
  return config;
}

function describe(value: GgufValue): string {
  return typeof value === "object" ? `an array of ${value.length}` : String(value);
}
