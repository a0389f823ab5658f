/**
 * A small model of random weights with a tokenizer and a random adapter, of every family and of every choice that files of models write
 * differently.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "../../packages/models/src/config/read-config.ts";
import { weightShapes } from "../../packages/models/src/config/tensor-shapes.ts";
import { writePeft } from "../../packages/models/src/peft/peft.ts";
import { tinyTokenizer } from "../../packages/models/src/testing/tiny-tokenizer.ts";
import { writeSafetensors } from "../../packages/models/src/weights/write-safetensors.ts";
import { seededRandom } from "../weights/random.ts";

const shared = {
  hidden_act: "silu",
  hidden_size: 32,
  intermediate_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 16,
  rms_norm_eps: 1e-5,
  max_position_embeddings: 128,
  vocab_size: 280,
};
const llama3 = {
  rope_type: "llama3",
  factor: 32,
  low_freq_factor: 1,
  high_freq_factor: 4,
  original_max_position_embeddings: 8192,
};
/** One of every family, and of every choice that is written differently. */
export const families = {
  llama: { model_type: "llama", rope_theta: 500_000, rope_scaling: llama3, tie_word_embeddings: true },
  "llama with biases": { model_type: "llama", rope_theta: 10_000, attention_bias: true, mlp_bias: true },
  "llama stretched": { model_type: "llama", rope_theta: 10_000, rope_scaling: { rope_type: "linear", factor: 4 } },
  mistral: { model_type: "mistral", rope_theta: 1_000_000, sliding_window: null, head_dim: 8 },
  qwen2: { model_type: "qwen2", rope_theta: 1_000_000, tie_word_embeddings: true, head_dim: 8 },
  qwen3: { model_type: "qwen3", rope_theta: 1_000_000, tie_word_embeddings: false },
} as const;

/** A random model with a tokenizer, and a random adapter of every linear. */
export async function randomModel(folder: string, family: Record<string, unknown>) {
  mkdirSync(folder, { recursive: true });
  const raw = { ...shared, ...family };
  const config = readConfig(raw);
  const random = seededRandom(3);
  const values = (shape: readonly number[], size = 0.2) =>
    Float32Array.from({ length: shape.reduce((n, dim) => n * dim, 1) }, () => random.normal() * size);
  const tensors = [...weightShapes(config)].map(([tensor, shape]) => ({
    name: tensor,
    dtype: "F32" as const,
    shape,
    data: values(shape),
  }));
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  writeFileSync(join(folder, "config.json"), JSON.stringify(raw));
  for (const [file, text] of Object.entries(tinyTokenizer)) writeFileSync(join(folder, file), text as string);
  const rank = 2;
  const weights = Object.fromEntries(
    [...weightShapes({ ...config, tiedEmbeddings: false })]
      .filter(([tensor, { length }]) => length === 2 && tensor !== "model.embed_tokens.weight")
      .flatMap(([tensor, [outSize = 0, inSize = 0]]) => {
        const module = `base_model.model.${tensor.replace(/\.weight$/, "")}`;
        return [
          [`${module}.lora_A.weight`, { shape: [rank, inSize], data: values([rank, inSize]) }],
          [`${module}.lora_B.weight`, { shape: [outSize, rank], data: values([outSize, rank]) }],
        ];
      }),
  );
  const adapter = join(folder, "adapter");
  await writePeft(adapter, { lora: { rank, alpha: 8 }, weights }, folder);
  const base = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  /** The merged values of a tensor, by the definition. */
  const merged = (tensor: string): Float32Array => {
    const module = `base_model.model.${tensor.replace(/\.weight$/, "")}`;
    const { data, shape } = base.get(tensor) ?? base.get("model.embed_tokens.weight")!;
    const [a, b] = ["A", "B"].map((half) => weights[`${module}.lora_${half}.weight`]);
    if (!a || !b) return data;
    const [, inSize = 0] = shape;
    return data.map((value, at) => {
      const [row, column] = [Math.floor(at / inSize), at % inSize];
      let sum = 0;
      for (let r = 0; r < rank; r++) sum += b.data[row * rank + r]! * a.data[r * inSize + column]!;
      return value + (8 / rank) * sum;
    });
  };
  return { folder, adapter, config, merged };
}
