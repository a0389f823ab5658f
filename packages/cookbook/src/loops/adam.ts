/** The optimizer of the training loops: the official cookbook's Adam, whose epsilon differs from that of the SDK. */
import type { AdamParamsInput } from "@tinklet/sdk";

/** Optimizer settings besides the learning rate. */
export type AdamOptions = Omit<AdamParamsInput, "learningRate">;

/** Epsilon of the loops; `AdamParams` of the SDK has 1e-12. */
export const adamEps = 1e-8;

/** The parameters of one optimizer step. */
export const adamParams = (adam: AdamOptions | undefined, learningRate: number): AdamParamsInput => ({
  eps: adamEps,
  ...adam,
  learningRate,
});
