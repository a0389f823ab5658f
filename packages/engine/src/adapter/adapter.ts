/**
 * A LoRA adapter's values: weights, accumulated gradients and AdamW moments, each one flat array in the order of its layout.
 * Moments and gradients exist only once they are needed.
 */

import type { ModelConfig } from "@tinklet/models/config";
import { InputError } from "../errors.ts";
import { createRandom } from "../random.ts";
import { f32, type Value } from "../runtime/runtime.ts";
import type { LoraOptions } from "../types.ts";
import { type AdapterLayout, adapterLayout, targetsOf } from "./layout.ts";

/** The alpha of the official service. */
export const defaultAlpha = 32;

/** Weights that nobody may change: a snapshot, or the view of a live adapter that a run uses. */
export interface AdapterWeights {
  readonly layout: AdapterLayout;
  readonly lora: Required<LoraOptions>;
  readonly values: Float32Array;
}

/** A live adapter. */
export interface Adapter extends AdapterWeights {
  values: Float32Array;
  /** Accumulated since the last optimizer step; absent when there is nothing to step with. */
  gradient?: Float32Array;
  /** AdamW moments; absent before the first step. */
  m?: Float32Array;
  v?: Float32Array;
  step: number;
  /** Set while somebody else holds `values`: the next change must be made to a copy. */
  frozen?: AdapterWeights;
}

/** The weights as they are now, for as long as anyone wants them. Costs nothing until the adapter next changes. */
export function freeze(adapter: Adapter): AdapterWeights {
  adapter.frozen ??= { layout: adapter.layout, lora: adapter.lora, values: adapter.values };
  return adapter.frozen;
}

/** Values that may be written to. */
export function ownValues(adapter: Adapter): Float32Array {
  if (adapter.frozen) {
    adapter.values = adapter.values.slice();
    delete adapter.frozen;
  }
  return adapter.values;
}

/** Fills in defaults and refuses what makes no sense. */
export function checkLora(options: LoraOptions, drawSeed: () => number): Required<LoraOptions> {
  const { rank, alpha = defaultAlpha, trainAttn = true, trainMlp = true, trainUnembed = true } = options;
  if (!Number.isInteger(rank) || rank < 1) throw new InputError("lora.rank", `${rank} is not a positive integer`);
  if (!Number.isFinite(alpha)) throw new InputError("lora.alpha", `${alpha} is not a number`);
  if (!trainAttn && !trainMlp && !trainUnembed) {
    throw new InputError("lora", "nothing to train: one of trainAttn, trainMlp and trainUnembed must be true");
  }
  return { rank, alpha, trainAttn, trainMlp, trainUnembed, seed: options.seed ?? drawSeed() };
}

/**
 * A fresh adapter: A uniform within ±1/√in (what PEFT's Kaiming initialisation with a = √5 amounts to), B zero, so that the
 * adapted model starts equal to its base. Each matrix has its own stream, so that adapting fewer modules changes no other.
 */
export function createAdapter(config: ModelConfig, lora: Required<LoraOptions>): Adapter {
  const layout = adapterLayout(config, targetsOf(lora), lora.rank);
  const values = new Float32Array(layout.size);
  for (const module of layout.modules) {
    const random = createRandom(lora.seed, module.name);
    const bound = 1 / Math.sqrt(module.inSize);
    const end = module.offsetA + lora.rank * module.inSize;
    for (let i = module.offsetA; i < end; i++) values[i] = (2 * random() - 1) * bound;
  }
  return { layout, lora, values, step: 0 };
}

/** Whether there is no NaN and no infinity among the values. */
export function areFinite(values: Float32Array): boolean {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! - values[i]!; // 0, or NaN for either
  return sum === 0;
}

/** Graph inputs of an adapter: views into its flat array, nothing copied. */
export function adapterInputs({ layout, lora, values }: AdapterWeights): Record<string, Value> {
  const inputs: Record<string, Value> = { "lora.scale": f32(Float32Array.of(lora.alpha / lora.rank), []) };
  for (const { name, inSize, outSize, offsetA, offsetB } of layout.modules) {
    inputs[`${name}.lora_A`] = f32(values.subarray(offsetA, offsetB), [layout.rank, inSize]);
    inputs[`${name}.lora_B`] = f32(values.subarray(offsetB, offsetB + outSize * layout.rank), [outSize, layout.rank]);
  }
  return inputs;
}
