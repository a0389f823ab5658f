/** The default number of epochs: data of a few examples needs several to be learned. */

/** Small data are repeated until a run has `leastSteps` steps, for at most `maxEpochs` epochs. docs/cli.md has the figures behind both. */
const [leastSteps, maxEpochs] = [50, 10];

/** @param stepsPerEpoch - batches of the training data */
export const defaultEpochs = (stepsPerEpoch: number): number =>
  Math.min(maxEpochs, Math.max(1, Math.ceil(leastSteps / stepsPerEpoch)));
