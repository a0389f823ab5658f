/**
 * The state of a LoRA adapter: weights, accumulated gradient and AdamW moments, each a flat array in the order of the adapter's
 * layout. The gradient and the moments are allocated on first use.
 */

import { loraScale, type ModelConfig } from "@tinklet/models/config";
import { InputError } from "../errors.ts";
import { createRandom } from "../random.ts";
import { f32, type Value } from "../runtime/runtime.ts";
import type { LoraOptions } from "../types.ts";
import { type AdapterLayout, adapterLayout, targetsOf } from "./layout.ts";

/** The alpha that the official service uses. */
export const defaultAlpha = 32;

/** Read-only weights: a snapshot, or the view of a live adapter that a running program reads. */
export interface AdapterWeights {
  readonly layout: AdapterLayout;
  readonly lora: Required<LoraOptions>;
  readonly values: Float32Array;
}

/** A trainable adapter. */
export interface Adapter extends AdapterWeights {
  values: Float32Array;
  /** Gradient accumulated since the last optimizer step; absent if no backward pass has run since. */
  gradient?: Float32Array;
  /** AdamW moments; absent before the first optimizer step. */
  m?: Float32Array;
  v?: Float32Array;
  step: number;
  /** Set once `values` is shared with a snapshot: the next write must go to a copy (copy on write). */
  frozen?: AdapterWeights;
}

/** Returns a snapshot of the current weights. Copy on write: values are copied only when the adapter is next modified. */
export function freeze(adapter: Adapter): AdapterWeights {
  adapter.frozen ??= { layout: adapter.layout, lora: adapter.lora, values: adapter.values };
  return adapter.frozen;
}

/** Returns values that may be written: copies them first if a snapshot shares them. */
export function ownValues(adapter: Adapter): Float32Array {
  if (adapter.frozen) {
    adapter.values = adapter.values.slice();
    delete adapter.frozen;
  }
  return adapter.values;
}

/** Fills in defaults and validates the options. @throws InputError */
export function checkLora(options: LoraOptions, drawSeed: () => number): Required<LoraOptions> {
  const { rank, alpha = defaultAlpha, trainAttn = true, trainMlp = true, trainUnembed = true } = options;
  if (!Number.isInteger(rank) || rank < 1) throw new InputError("lora.rank", `must be a positive integer, got ${rank}`);
  if (!Number.isFinite(alpha)) throw new InputError("lora.alpha", `must be a finite number, got ${alpha}`);
  if (!trainAttn && !trainMlp && !trainUnembed) {
    throw new InputError("lora", "at least one of trainAttn, trainMlp and trainUnembed must be true");
  }
  return { rank, alpha, trainAttn, trainMlp, trainUnembed, seed: options.seed ?? drawSeed() };
}

/**
 * Initialises an adapter: A is uniform within ±1/√in (equal to PEFT's Kaiming initialisation with a = √5) and B is zero, so that
 * the adapted model starts equal to the base model. Each matrix has its own random stream: adapting fewer modules does not change
 * the others.
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

/** Whether all values are finite (no NaN, no infinity). */
export function areFinite(values: Float32Array): boolean {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]! - values[i]!; // 0, or NaN if values[i] is NaN or infinite
  return sum === 0;
}

/** Graph inputs of an adapter: views into its flat array, without copies. */
export function adapterInputs({ layout, lora, values }: AdapterWeights): Record<string, Value> {
  const inputs: Record<string, Value> = { "lora.scale": f32(Float32Array.of(loraScale(lora)), []) };
  for (const { name, inSize, outSize, offsetA, offsetB } of layout.modules) {
    inputs[`${name}.lora_A`] = f32(values.subarray(offsetA, offsetB), [layout.rank, inSize]);
    inputs[`${name}.lora_B`] = f32(values.subarray(offsetB, offsetB + outSize * layout.rank), [outSize, layout.rank]);
  }
  return inputs;
}
