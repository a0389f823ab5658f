/**
 * Losses over pairs of answers. A batch holds pairs: chosen, rejected, chosen, rejected, …; `weights` mark the tokens of the
 * answer.
 */
import { autodiff, type CustomLossFn, type Datum } from "@tinklet/sdk";

/** Options of {@link dpo}. */
export interface DpoOptions {
  /** Σ log-prob of each datum's answer under the reference, in the order of the batch ({@link scoreAnswers} gives them). */
  readonly reference: readonly number[];
  /** Weight of the log-ratio to the reference. @defaultValue `0.1` */
  readonly beta?: number;
}

/** Direct preference optimisation: raises the log-prob of the chosen answer over the rejected one, each relative to a frozen reference. */
export const dpo =
  ({ reference, beta = 0.1 }: DpoOptions): CustomLossFn =>
  (data, logprobs) => {
    // β · (log π - log π_ref), summed over the answer: what DPO calls the implicit reward
    const rewards = logprobs.map((lp, i) =>
      lp
        .dot(weightsOf(data, i))
        .sub(reference[i] as number)
        .mul(beta),
    );
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

/** Options of {@link bradleyTerry}. */
export interface BradleyTerryOptions {
  /** Divides the difference of scores. @defaultValue `1` */
  readonly temperature?: number;
}

/**
 * Bradley-Terry: the probability that the first of two answers is preferred is the sigmoid of the difference of their scores; a score
 * is the mean log-prob of the marked tokens. No reference needed. With a verdict as the marked token it trains a reward model.
 */
export const bradleyTerry =
  ({ temperature = 1 }: BradleyTerryOptions = {}): CustomLossFn =>
  (data, logprobs) => {
    const scores = autodiff.stack(logprobs.map((lp, i) => lp.maskedMean(weightsOf(data, i))));
    const pairs = scores.reshape([scores.size / 2, 2]); // [pair, (preferred, other)]
    const difference = pairs.mul([1, -1]).sum(1).div(temperature);
    return {
      loss: difference.logSigmoid().mean().neg(),
      metrics: { "bt/accuracy": difference.data.filter((value) => value > 0).length / difference.size },
    };
  };

const weightsOf = (data: readonly Datum[], i: number) => data[i]!.lossFnInputs["weights"]!;
