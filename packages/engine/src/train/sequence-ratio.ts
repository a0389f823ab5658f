/** The ratio of a whole sequence, for gspo: a constant for each token once the sequence has been scored. */
import type { CheckedDatum } from "./data.ts";

/** log s: the mean of l − q over the tokens that the mask marks. */
const logSequenceRatio = ({ ratioTargets, position }: CheckedDatum, logprobs: Float32Array): number => {
  let sum = 0;
  for (const i of ratioTargets) sum += logprobs[i]! - position(i).samplingLogprob;
  return sum / ratioTargets.length;
};

/** The datum with l − log s in place of each sampling log-prob, so that the ratio of every token is s. */
export const withSequenceRatio = (datum: CheckedDatum, logprobs: Float32Array): CheckedDatum => {
  const logRatio = logSequenceRatio(datum, logprobs);
  return {
    ...datum,
    position: (i) => ({ ...datum.position(i), samplingLogprob: logprobs[i]! - logRatio }),
  };
};
