/**
 * Bradley-Terry: the probability that the first of two answers is preferred is the sigmoid of the difference of their
 * scores; here a score is the (length-normalised) log-prob of the answer. Pairs as in DPO, no reference needed.
 */
import { autodiff, type CustomLossFn } from "tinklet";

export interface BradleyTerryOptions {
  /** Divides the difference of scores. @defaultValue `1` */
  readonly temperature?: number;
}

export const bradleyTerry =
  ({ temperature = 1 }: BradleyTerryOptions = {}): CustomLossFn =>
  (data, logprobs) => {
    const scores = autodiff.stack(logprobs.map((lp, i) => lp.maskedMean(data[i]!.lossFnInputs.weights!)));
    const pairs = scores.reshape([scores.size / 2, 2]); // [pair, (preferred, other)]
    const difference = pairs.mul([1, -1]).sum(1).div(temperature);
    return {
      loss: difference.logSigmoid().mean().neg(),
      metrics: { "bt/accuracy": difference.data.filter((value) => value > 0).length / difference.size },
    };
  };
