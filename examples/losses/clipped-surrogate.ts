/**
 * The clipped surrogate of PPO: follow the advantage, but stop pushing a token once the policy has moved by more than ε
 * from the one that sampled it. The server has this loss as `ppo`; written out here it is a starting point for variants.
 */
import { autodiff, type CustomLossFn } from "tinklet";

export interface ClippedSurrogateOptions {
  /** Per datum, the log-probs that the tokens were sampled with, [T]. */
  readonly sampling: readonly ArrayLike<number>[];
  /** Per datum, the advantage of each token, [T]. */
  readonly advantages: readonly ArrayLike<number>[];
  /** @defaultValue `0.2` */
  readonly epsilon?: number;
}

export const clippedSurrogate =
  ({ sampling, advantages, epsilon = 0.2 }: ClippedSurrogateOptions): CustomLossFn =>
  (data, logprobs) => {
    let [clipped, counted] = [0, 0];
    const perDatum = logprobs.map((lp, i) => {
      const mask = data[i]!.lossFnInputs.weights!;
      const ratio = lp.sub(sampling[i]!).exp(); // π / π_sampling
      const bounded = ratio.clamp({ min: 1 - epsilon, max: 1 + epsilon });
      const gain = ratio.mul(advantages[i]!).min(bounded.mul(advantages[i]!));
      ratio.data.forEach((value, t) => {
        if (Number(mask.values[t]) === 0) return;
        counted++;
        if (Math.abs(value - 1) > epsilon) clipped++;
      });
      return gain.maskedSum(mask).neg();
    });
    return { loss: autodiff.stack(perDatum).sum(), metrics: { "ppo/clip_fraction": clipped / Math.max(counted, 1) } };
  };
