/**
 * What a configuration says must be in the files: for the supported architectures every tensor and its shape. A checkpoint that
 * lacks one, or holds it in another shape, is refused when it is opened and not in the middle of a run.
 */

import { WeightsError } from "../errors.ts";
import type { WeightSource } from "./types.ts";

/** Names and shapes that a model of this configuration has, or undefined when the architecture is not one of ours. */
export function expectedTensors(config: Readonly<Record<string, unknown>>): Map<string, readonly number[]> | undefined {
  const type = config["model_type"];
  if (type !== "llama" && type !== "mistral" && type !== "qwen2" && type !== "qwen3") return undefined;
  const size = (key: string, fallback?: number): number => {
    const value = config[key] ?? fallback;
    return typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : Number.NaN;
  };
  const hidden = size("hidden_size");
  const inner = size("intermediate_size");
  const heads = size("num_attention_heads");
  const headDim = size("head_dim", type === "qwen3" ? 128 : hidden / heads);
  const queries = heads * headDim;
  const keys = size("num_key_value_heads", heads) * headDim;
  const layers = size("num_hidden_layers");
  // A configuration without sizes is for whoever reads it to refuse, by field; there is nothing to compare with here.
  if (![hidden, inner, queries, keys, layers, size("vocab_size")].every(Number.isSafeInteger)) return undefined;
  if (layers > 10_000) return undefined;

  const expected = new Map<string, readonly number[]>([
    ["model.embed_tokens.weight", [size("vocab_size"), hidden]],
    ["model.norm.weight", [hidden]],
  ]);
  if (config["tie_word_embeddings"] !== true) expected.set("lm_head.weight", [size("vocab_size"), hidden]);
  const attentionBias = type === "qwen2" ? true : config["attention_bias"] === true;
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    const linear = (name: string, rows: number, columns: number, bias: boolean) => {
      expected.set(`${at}.${name}.weight`, [rows, columns]);
      if (bias) expected.set(`${at}.${name}.bias`, [rows]);
    };
    linear("self_attn.q_proj", queries, hidden, attentionBias);
    linear("self_attn.k_proj", keys, hidden, attentionBias);
    linear("self_attn.v_proj", keys, hidden, attentionBias);
    linear("self_attn.o_proj", hidden, queries, attentionBias && type !== "qwen2");
    const mlpBias = type === "llama" && config["mlp_bias"] === true;
    linear("mlp.gate_proj", inner, hidden, mlpBias);
    linear("mlp.up_proj", inner, hidden, mlpBias);
    linear("mlp.down_proj", hidden, inner, mlpBias);
    expected.set(`${at}.input_layernorm.weight`, [hidden]);
    expected.set(`${at}.post_attention_layernorm.weight`, [hidden]);
    if (type === "qwen3") {
      expected.set(`${at}.self_attn.q_norm.weight`, [headDim]);
      expected.set(`${at}.self_attn.k_norm.weight`, [headDim]);
    }
  }
  return expected;
}

/** Left in old checkpoints, computed by everyone since; and the second name of a tied embedding. */
const harmless = /(?:^|\.)rotary_emb\.inv_freq$|^lm_head\.weight$/;

/**
 * @throws WeightsError naming the first tensor that is missing, has another shape than the configuration says, or has no place
 * in such a model (as a sign that the configuration is that of another).
 */
export function checkAgainstConfig(
  config: Readonly<Record<string, unknown>>,
  weights: WeightSource,
  origin: string,
): void {
  const expected = expectedTensors(config);
  if (!expected) return;
  for (const [name, shape] of expected) {
    const info = weights.tensors.get(name);
    if (!info) {
      weights.readFloat32(name, empty); // throws: the source knows whether it is missing or in a format we do not read
      continue;
    }
    if (info.shape.length !== shape.length || info.shape.some((size, i) => size !== shape[i])) {
      throw new WeightsError(
        `${origin}: tensor ${name} has shape [${info.shape}], its configuration calls for [${shape}]`,
        { code: "shape_mismatch", tensor: name, file: info.file },
      );
    }
  }
  for (const [name, info] of weights.tensors) {
    if (!expected.has(name) && !harmless.test(name)) {
      const message = `${origin}: tensor ${name} has no place in a ${String(config["model_type"])} of its configuration`;
      throw new WeightsError(message, { code: "unexpected_tensor", tensor: name, file: info.file });
    }
  }
}

const empty = new Float32Array(0);
