/** AdamW on flat arrays, with decoupled weight decay and clipping by global norm, with PyTorch's formulas. */
import { type Adapter, ownValues } from "../adapter/adapter.ts";
import { InputError } from "../errors.ts";
import type { AdamParams, OptimStepResult } from "../types.ts";

/** The official defaults. */
export const adamDefaults: Required<AdamParams> = {
  learningRate: 1e-4,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-12,
  weightDecay: 0,
  gradClipNorm: 0,
};

const check = (params: Required<AdamParams>): void => {
  for (const name of ["learningRate", "eps", "weightDecay", "gradClipNorm"] as const) {
    if (!(params[name] >= 0 && Number.isFinite(params[name])))
      throw new InputError(name, `${params[name]} is not a number ≥ 0`);
  }
  for (const name of ["beta1", "beta2"] as const) {
    if (!(params[name] >= 0 && params[name] < 1)) throw new InputError(name, `${params[name]} is not within [0, 1)`);
  }
};

/** Euclidean norm, summed in double precision: float32 would lose small values next to a large sum. */
export const norm = (values: Float32Array): number => {
  // Two sums, because each addition waits for the previous one of its sum.
  let [even, odd] = [0, 0];
  const last = values.length - 1;
  for (let i = 0; i < last; i += 2) {
    even += values[i]! * values[i]!;
    odd += values[i + 1]! * values[i + 1]!;
  }
  if (last >= 0 && last % 2 === 0) even += values[last]! * values[last]!;
  return Math.sqrt(even + odd);
};

/**
 * Merges the given parameters with the defaults; undefined counts as absent.
 *
 * @throws InputError naming an invalid parameter
 */
export const readParams = (given: AdamParams): Required<AdamParams> => {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  const params = { ...adamDefaults, ...Object.fromEntries(set) };
  check(params);
  return params;
};

/** As in torch.nn.utils.clip_grad_norm_, the small constant avoids a division by zero. */
export const clipFactor = (norm: number, gradClipNorm: number): number =>
  gradClipNorm > 0 ? Math.min(1, gradClipNorm / (norm + 1e-6)) : 1;

/** The error of a step with a gradient that is not finite. */
export const gradientNotFinite = (): InputError =>
  new InputError("gradient", "is not finite, so no step was taken and it was dropped", {
    code: "not_finite",
    hint: "look for sampling log-probs far below the model's, or for a learning rate that made the weights explode",
  });

/** The result of a step; `norm` is the gradient's norm before clipping. */
export const stepResult = (step: number, norm: number, clip: number): OptimStepResult => ({
  step,
  metrics: { "unclipped_grad_l2:mean": norm, "clipped_grad_l2:mean": norm * clip },
});

/**
 * Takes one step with the accumulated gradient and clears it. Without one, the gradient is zero: moments and weights still decay, as in
 * PyTorch.
 *
 * @throws InputError if the gradient is not finite. The gradient is dropped and the adapter is unchanged: a step would make all weights and
 *   moments NaN permanently.
 */
export const optimStep = (adapter: Adapter, given: AdamParams = {}): OptimStepResult => {
  const { learningRate, beta1, beta2, eps, weightDecay, gradClipNorm } = readParams(given);
  const gradient = adapter.gradient ?? new Float32Array(adapter.values.length);
  const total = norm(gradient);
  if (!Number.isFinite(total)) {
    delete adapter.gradient;
    throw gradientNotFinite();
  }
  const values = ownValues(adapter);
  adapter.m ??= new Float32Array(values.length);
  adapter.v ??= new Float32Array(values.length);
  const { m, v } = adapter;
  const clip = clipFactor(total, gradClipNorm);
  const step = ++adapter.step;
  const rate = learningRate / (1 - beta1 ** step);
  const correction = 1 / Math.sqrt(1 - beta2 ** step);
  const keep = 1 - learningRate * weightDecay;
  for (let i = 0; i < values.length; i++) {
    const g = gradient[i]! * clip;
    const mi = beta1 * m[i]! + (1 - beta1) * g;
    const vi = beta2 * v[i]! + (1 - beta2) * g * g;
    m[i] = mi;
    v[i] = vi;
    values[i] = keep * values[i]! - (rate * mi) / (Math.sqrt(vi) * correction + eps);
  }
  delete adapter.gradient;
  return stepResult(step, total, clip);
};
