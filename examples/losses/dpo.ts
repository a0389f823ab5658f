/**
 * Direct preference optimisation: raise the chosen answer above the rejected one, measured from where a frozen reference
 * stands. The batch holds pairs: chosen, rejected, chosen, rejected, …; `weights` mark the answer's tokens.
 */
import { autodiff, type CustomLossFn } from "tinklet";

export interface DpoOptions {
  /** Σ log-prob of each datum's answer under the reference, in the order of the batch (`computeLogprobs` gives them). */
  readonly reference: readonly number[];
  /** How hard to pull away from the reference. @defaultValue `0.1` */
  readonly beta?: number;
}

export const dpo =
  ({ reference, beta = 0.1 }: DpoOptions): CustomLossFn =>
  (data, logprobs) => {
    // β · (log π - log π_ref), summed over the answer: what DPO calls the implicit reward
    const rewards = logprobs.map((lp, i) => lp.dot(data[i]!.lossFnInputs.weights!).sub(reference[i]!).mul(beta));
    const chosen = autodiff.stack(rewards.filter((_, i) => i % 2 === 0));
    const rejected = autodiff.stack(rewards.filter((_, i) => i % 2 === 1));
    const margins = chosen.sub(rejected);
    return {
      loss: margins.logSigmoid().mean().neg(),
      metrics: {
        "dpo/accuracy": margins.data.filter((margin) => margin > 0).length / margins.size,
        "dpo/margin": margins.mean().item(),
        "dpo/chosen_reward": chosen.mean().item(),
        "dpo/rejected_reward": rejected.mean().item(),
      },
    };
  };
