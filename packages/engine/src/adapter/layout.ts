/**
 * The memory layout of a LoRA adapter: one flat float32 array, each A and B matrix at a fixed offset. With a flat array, gradients
 * arrive as one tensor, the optimizer is one loop, and copying an adapter is one `slice()`. `trainAttn`, `trainMlp` and
 * `trainUnembed` select the adapted linears.
 */
import { attentionLinears, linearSizes, type ModelConfig, mlpLinears } from "@tinklet/models/config";
import type { LoraOptions } from "../types.ts";

/** One adapted linear: y = x·Wᵀ + (alpha / rank) · (x·Aᵀ)·Bᵀ with A `[rank, in]` and B `[out, rank]`. */
export interface LoraModule {
  /** Hugging Face name without `.weight`: `model.layers.0.self_attn.q_proj` or `lm_head`. */
  readonly name: string;
  readonly inSize: number;
  readonly outSize: number;
  /** Offsets into the flat array, in float32 elements. */
  readonly offsetA: number;
  readonly offsetB: number;
}

/** The adapted parts of a model. Adapters with equal targets share all compiled programs. */
export interface LoraTargets {
  readonly attn: boolean;
  readonly mlp: boolean;
  readonly unembed: boolean;
}

export interface AdapterLayout {
  readonly rank: number;
  readonly targets: LoraTargets;
  readonly modules: readonly LoraModule[];
  /** Total number of values. */
  readonly size: number;
}

/** Names and sizes of the adapted linears, in the order of the flat array. */
export function targetLinears(
  config: ModelConfig,
  targets: LoraTargets,
): { name: string; inSize: number; outSize: number }[] {
  const linears: { name: string; inSize: number; outSize: number }[] = [];
  for (let layer = 0; layer < config.layers; layer++) {
    for (const [wanted, block, names] of [
      [targets.attn, "self_attn", attentionLinears],
      [targets.mlp, "mlp", mlpLinears],
    ] as const) {
      if (!wanted) continue;
      for (const name of names)
        linears.push({ name: `model.layers.${layer}.${block}.${name}`, ...linearSizes(config, name) });
    }
  }
  if (targets.unembed) linears.push({ name: "lm_head", inSize: config.hiddenSize, outSize: config.vocabSize });
  return linears;
}

/**
 * The largest number that divides both sizes of every adapted linear. On a device the flat array is a matrix with this many columns per
 * rank of the adapter, so that every A and B has whole rows for any rank.
 */
export const commonSize = (config: ModelConfig, targets: LoraTargets): number => {
  const divisor = (a: number, b: number): number => (b === 0 ? a : divisor(b, a % b));
  return targetLinears(config, targets).reduce(
    (common, { inSize, outSize }) => divisor(divisor(common, inSize), outSize),
    0,
  );
};

export const targetsOf = (options: LoraOptions): LoraTargets => ({
  attn: options.trainAttn ?? true,
  mlp: options.trainMlp ?? true,
  unembed: options.trainUnembed ?? true,
});

export function adapterLayout(config: ModelConfig, targets: LoraTargets, rank: number): AdapterLayout {
  let size = 0;
  const modules = targetLinears(config, targets).map((linear): LoraModule => {
    const offsetA = size;
    const offsetB = offsetA + rank * linear.inSize;
    size = offsetB + linear.outSize * rank;
    return { ...linear, offsetA, offsetB };
  });
  return { rank, targets, modules, size };
}
