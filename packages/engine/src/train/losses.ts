/**
 * The losses, each with its slope beside it. Sums over tokens, never means: the official semantics. Per position, l is the
 * model's log-prob of the target, q the sampler's, A the advantage, w the weight (1 unless given) and ρ = exp(l − q):
 *
 * | loss                | value                                | slope (d value / d l)                            |
 * |---------------------|--------------------------------------|--------------------------------------------------|
 * | cross_entropy       | −w·l                                 | −w                                               |
 * | importance_sampling | −w·ρ·A                               | −w·ρ·A                                           |
 * | ppo                 | −w·min(ρ·A, clip(ρ, lo, hi)·A)       | −w·ρ·A where the first is not the larger, else 0 |
 * | cispo               | −w·sg(clip(ρ, lo, hi))·l·A           | −w·clip(ρ, lo, hi)·A                             |
 * | dro                 | −w·(l·A − ½β(l − q)²)                | −w·(A − β(l − q))                                |
 *
 * | gspo                | −w·min(s·A, clip(s, lo, hi)·A)       | −w·s·A where the first is not the larger, else 0 |
 *
 * (sg: stop-gradient.) gspo's s is the ratio of the whole sequence, exp of the mean of l − q over the tokens that `sequence_ratio_mask` marks: its
 * value counts for every token, its gradient is each token's own (the form that is called GSPO-token). It is defined so by the service's documentation
 * (tinker-docs.thinkingmachines.ai/tinker/losses/gspo) after Zheng et al., "Group Sequence Policy Optimization", arXiv 2507.18071, section 4.3. With
 * q' = l − log s, a constant, it is ppo: `sequence-ratio.ts` puts that in the place of q. Default thresholds are ppo's.
 *
 * The slope is what a training graph needs in its middle, before the log-probs have left it. All are
 * therefore cases of one formula whose coefficients are known beforehand; `slopeTerms` gives them, `model/head.ts` evaluates it, and
 * a test holds the two against each other.
 */
import type { LossFnName } from "../types.ts";

/** The inputs of a loss, for one target of one position. */
export interface LossPosition {
  /** l: log-prob of the target under the model. */
  readonly logprob: number;
  /** w */
  readonly weight: number;
  /** q: log-prob of the target under the sampler. */
  readonly samplingLogprob: number;
  /** A */
  readonly advantage: number;
  readonly clipLow: number;
  readonly clipHigh: number;
  /** β of dro. */
  readonly beta: number;
}

/**
 * slope = (ρ within [windowLow, windowHigh] ? ratio·ρ : 0) + clipped·clip(ρ, clipLow, clipHigh) + constant + gap·(l − q)
 */
export interface SlopeTerms {
  samplingLogprob: number;
  ratio: number;
  windowLow: number;
  windowHigh: number;
  clipped: number;
  clipLow: number;
  clipHigh: number;
  constant: number;
  gap: number;
}

/** Terms of a slope that is 0 everywhere; the empty window excludes even an infinite ratio. */
export const noSlope: SlopeTerms = {
  samplingLogprob: 0,
  ratio: 0,
  windowLow: Number.POSITIVE_INFINITY,
  windowHigh: Number.NEGATIVE_INFINITY,
  clipped: 0,
  clipLow: 0,
  clipHigh: 0,
  constant: 0,
  gap: 0,
};

/** Order of the terms in graph inputs. */
export const slopeTerms = Object.keys(noSlope) as (keyof SlopeTerms)[];

interface Loss {
  readonly value: (position: LossPosition) => number;
  readonly slope: (position: LossPosition) => number;
  readonly slopeTerms: (position: Omit<LossPosition, "logprob">) => SlopeTerms;
  /** The loss inputs besides `target_tokens` and `weights`; true means required. */
  readonly inputs: Readonly<Record<string, boolean>>;
  /** Configuration keys and their defaults. */
  readonly config: Readonly<Record<string, number>>;
}

const ratioOf = ({ logprob, samplingLogprob }: LossPosition): number => Math.exp(logprob - samplingLogprob);
const clip = (x: number, low: number, high: number): number => Math.min(Math.max(x, low), high);
const policyInputs = { logprobs: true, advantages: true } as const;
const clippedInputs = { ...policyInputs, clip_low_threshold: false, clip_high_threshold: false } as const;

const ppo: Loss = {
  value: (position) => {
    const ratio = ratioOf(position);
    const { weight, advantage, clipLow, clipHigh } = position;
    return -weight * Math.min(ratio * advantage, clip(ratio, clipLow, clipHigh) * advantage);
  },
  slope: (position) => {
    const ratio = ratioOf(position);
    const { weight, advantage, clipLow, clipHigh } = position;
    // The clipped branch is constant; it is the smaller one above hi for A > 0 and below lo for A < 0.
    const flat = advantage > 0 ? ratio > clipHigh : ratio < clipLow;
    return flat ? 0 : -weight * ratio * advantage;
  },
  slopeTerms: ({ weight, advantage, samplingLogprob, clipLow, clipHigh }) => ({
    ...noSlope,
    samplingLogprob,
    ratio: -weight * advantage,
    windowLow: advantage > 0 ? Number.NEGATIVE_INFINITY : clipLow,
    windowHigh: advantage > 0 ? clipHigh : Number.POSITIVE_INFINITY,
  }),
  inputs: clippedInputs,
  config: { clip_low_threshold: 0.8, clip_high_threshold: 1.2 },
};

export const losses: Readonly<Record<LossFnName, Loss>> = {
  cross_entropy: {
    value: ({ weight, logprob }) => -weight * logprob,
    slope: ({ weight }) => -weight,
    slopeTerms: ({ weight }) => ({ ...noSlope, constant: -weight }),
    inputs: {},
    config: {},
  },

  importance_sampling: {
    value: (position) => -position.weight * ratioOf(position) * position.advantage,
    slope: (position) => -position.weight * ratioOf(position) * position.advantage, // exp is its own derivative
    slopeTerms: ({ weight, advantage, samplingLogprob }) => ({
      ...noSlope,
      samplingLogprob,
      ratio: -weight * advantage,
      windowLow: Number.NEGATIVE_INFINITY,
      windowHigh: Number.POSITIVE_INFINITY,
    }),
    inputs: policyInputs,
    config: {},
  },

  ppo,
  gspo: { ...ppo, inputs: { ...clippedInputs, sequence_ratio_mask: true } },

  cispo: {
    value: (position) => {
      const { weight, advantage, logprob, clipLow, clipHigh } = position;
      return -weight * clip(ratioOf(position), clipLow, clipHigh) * logprob * advantage;
    },
    slope: (position) => {
      const { weight, advantage, clipLow, clipHigh } = position;
      return -weight * clip(ratioOf(position), clipLow, clipHigh) * advantage;
    },
    slopeTerms: ({ weight, advantage, samplingLogprob, clipLow, clipHigh }) => ({
      ...noSlope,
      samplingLogprob,
      clipped: -weight * advantage,
      clipLow,
      clipHigh,
    }),
    inputs: clippedInputs,
    config: { clip_low_threshold: 0, clip_high_threshold: 4 },
  },

  dro: {
    value: ({ weight, advantage, logprob, samplingLogprob, beta }) =>
      -weight * (logprob * advantage - 0.5 * beta * (logprob - samplingLogprob) ** 2),
    slope: ({ weight, advantage, logprob, samplingLogprob, beta }) =>
      -weight * (advantage - beta * (logprob - samplingLogprob)),
    slopeTerms: ({ weight, advantage, samplingLogprob, beta }) => ({
      ...noSlope,
      samplingLogprob,
      constant: -weight * advantage,
      gap: weight * beta,
    }),
    inputs: policyInputs,
    config: { beta: 0.05 },
  },
};
