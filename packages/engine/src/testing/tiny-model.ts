/** Small models with seeded random weights, for tests: every architecture in a few hundred parameters. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeSafetensors } from "@tinklet/models";
import { type ModelConfig, readConfig, weightShapes } from "@tinklet/models/config";
import type { LoadedModel } from "../model/load.ts";
import { createRandom } from "../random.ts";
import type { WeightMap } from "../runtime/runtime.ts";

const tiny = {
  model_type: "llama",
  vocab_size: 37,
  hidden_size: 16,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 6,
  intermediate_size: 20,
  max_position_embeddings: 64,
  rms_norm_eps: 1e-5,
  tie_word_embeddings: true,
  eos_token_id: 0,
};

/**
 * As wide as the smallest models in use, because some effects need that width: products are divided among threads, long sums are split, and
 * keys and values are narrower than other linears.
 */
export const wideShape = {
  hidden_size: 256,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  intermediate_size: 704,
} as const;

/** The configuration of a small model, with overrides. */
export const tinyConfig = (overrides: Record<string, unknown> = {}): ModelConfig =>
  readConfig({ ...tiny, ...overrides });

/** A small model as a folder on disk. */
export async function writeTinyModel(folder: string, overrides: Record<string, unknown> = {}, seed = 1): Promise<void> {
  const config = { ...tiny, ...overrides };
  await writeFile(join(folder, "config.json"), JSON.stringify(config));
  const tensors = [...randomWeights(readConfig(config), seed)].map(([name, { data, dims }]) => ({
    name,
    dtype: "F32" as const,
    shape: dims,
    data,
  }));
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
}

/** Random weights of about unit gain; norms near 1. */
export function randomWeights(config: ModelConfig, seed: number): WeightMap {
  const weights = new Map<string, { data: Float32Array; dims: readonly number[] }>();
  for (const [name, dims] of weightShapes(config)) {
    const random = createRandom(seed, name);
    const fanIn = dims.at(-1)!;
    const isNorm = dims.length === 1 && name.includes("norm");
    const data = Float32Array.from({ length: dims.reduce((n, dim) => n * dim, 1) }, () =>
      isNorm ? 1 + 0.2 * (random() - 0.5) : (2 * random() - 1) * Math.sqrt(3 / fanIn),
    );
    weights.set(name, { data, dims });
  }
  return weights;
}

export function tinyModel(overrides: Record<string, unknown> = {}, seed = 1): LoadedModel {
  const config = tinyConfig(overrides);
  const weights = randomWeights(config, seed);
  let bytes = 0;
  for (const { data } of weights.values()) bytes += data.byteLength;
  return { config, weights, bytes };
}
