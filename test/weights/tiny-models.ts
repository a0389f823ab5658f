/**
 * Small models for the tests of weight files: a Qwen3 in safetensors whose tensors are F32, F16 and BF16 in turn, whole or in two
 * shards, built byte by byte here so that the reader is not tested against its own writer.
 */

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Random, seededRandom } from "./random.ts";

export const tinyGguf = fileURLToPath(new URL("./fixtures/tiny-llama.gguf", import.meta.url));

export const tinyConfig = {
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  hidden_act: "silu",
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  max_position_embeddings: 128,
  vocab_size: 96,
  tie_word_embeddings: true,
};

export interface RawTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly unknown[];
  readonly bytes: Uint8Array;
}

/** A header entry; what a hostile file writes instead of the truth is given as `unknown`. */
export type RawHeader = Record<string, { dtype: unknown; shape: unknown; data_offsets: unknown } | unknown>;

/** The true header of tensors laid back to back. */
export function headerOf(tensors: readonly RawTensor[]): RawHeader {
  let end = 0;
  const header: RawHeader = { __metadata__: { format: "pt" } };
  for (const { name, dtype, shape, bytes } of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
  }
  return header;
}

/** Length, header text (as it is, sound or not), data. */
export function safetensorsBytes(header: string | Uint8Array, data: readonly Uint8Array[], length?: bigint): Buffer {
  const text = typeof header === "string" ? Buffer.from(header) : Buffer.from(header);
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(length ?? BigInt(text.length));
  return Buffer.concat([prefix, text, ...data]);
}

/** Every tensor of `tinyConfig`, with finite random values. */
export function tinyTensors(seed = 7): RawTensor[] {
  const random = seededRandom(seed);
  const { hidden_size: hidden, intermediate_size: inner, head_dim: head, vocab_size: vocab } = tinyConfig;
  const queries = tinyConfig.num_attention_heads * head;
  const keys = tinyConfig.num_key_value_heads * head;
  const shapes: [string, number[]][] = [["model.embed_tokens.weight", [vocab, hidden]]];
  for (let layer = 0; layer < tinyConfig.num_hidden_layers; layer++) {
    const at = `model.layers.${layer}`;
    shapes.push(
      [`${at}.input_layernorm.weight`, [hidden]],
      [`${at}.self_attn.q_proj.weight`, [queries, hidden]],
      [`${at}.self_attn.k_proj.weight`, [keys, hidden]],
      [`${at}.self_attn.v_proj.weight`, [keys, hidden]],
      [`${at}.self_attn.o_proj.weight`, [hidden, queries]],
      [`${at}.self_attn.q_norm.weight`, [head]],
      [`${at}.self_attn.k_norm.weight`, [head]],
      [`${at}.post_attention_layernorm.weight`, [hidden]],
      [`${at}.mlp.gate_proj.weight`, [inner, hidden]],
      [`${at}.mlp.up_proj.weight`, [inner, hidden]],
      [`${at}.mlp.down_proj.weight`, [hidden, inner]],
    );
  }
  shapes.push(["model.norm.weight", [hidden]]);
  return shapes.map(([name, shape], i) => {
    const count = shape.reduce((product, size) => product * size, 1);
    return { name, shape, ...randomFloats((["F32", "BF16", "F16"] as const)[i % 3] as "F32", count, random) };
  });
}

function randomFloats(dtype: "F32" | "F16" | "BF16", count: number, random: Random) {
  const bytes = Buffer.alloc(count * (dtype === "F32" ? 4 : 2));
  for (let i = 0; i < count; i++) {
    if (dtype === "F32") bytes.writeFloatLE(random.normal() * 0.05, i * 4);
    // Any bit pattern below the largest exponent is a finite half; likewise for the upper half of a float32.
    else if (dtype === "F16") bytes.writeUInt16LE(random.integer(0x10000) & 0xbbff, i * 2);
    else bytes.writeUInt16LE(random.integer(0x10000) & 0xbfff, i * 2);
  }
  return { dtype, bytes };
}

/** Writes `config.json` and a single `model.safetensors`. */
export function writeTinyModel(folder: string, tensors = tinyTensors()): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(tinyConfig));
  const file = join(folder, "model.safetensors");
  const data = tensors.map(({ bytes }) => bytes);
  writeFileSync(file, safetensorsBytes(JSON.stringify(headerOf(tensors)), data));
  return file;
}

/** Writes the same model as two shards with an index. */
export function writeTinyShards(folder: string, tensors = tinyTensors()): { index: string; shards: string[] } {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), JSON.stringify(tinyConfig));
  const half = Math.ceil(tensors.length / 2);
  const weightMap: Record<string, string> = {};
  const shards = [tensors.slice(0, half), tensors.slice(half)].map((part, i) => {
    const name = `model-0000${i + 1}-of-00002.safetensors`;
    for (const tensor of part) weightMap[tensor.name] = name;
    const data = part.map(({ bytes }) => bytes);
    writeFileSync(join(folder, name), safetensorsBytes(JSON.stringify(headerOf(part)), data));
    return join(folder, name);
  });
  const index = join(folder, "model.safetensors.index.json");
  writeFileSync(index, JSON.stringify({ metadata: { total_size: 0 }, weight_map: weightMap }, null, 2));
  return { index, shards };
}

export function writeTinyGguf(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "model.gguf");
  copyFileSync(tinyGguf, file);
  return file;
}
