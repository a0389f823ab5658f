/** A training pass as named groups of values, to compare runtimes. */
import type { Adapter } from "../adapter/adapter.ts";
import type { LoadedModel } from "../model/load.ts";
import { Trainer, type TrainerOptions } from "../train/trainer.ts";
import type { LossRequest, LossResult } from "../types.ts";
import type { Compute, Groups } from "./rounding.ts";

/** A pass's log-probs, and its gradient by matrix. */
export const groupsOf = ({ layout, gradient }: Adapter, results: readonly LossResult[]): Groups => {
  const groups: Record<string, ArrayLike<number>> = {};
  const outputs = results.flatMap(({ lossFnOutputs }) => lossFnOutputs);
  for (const [index, { logprobs }] of outputs.entries()) groups[`logprobs ${index}`] = logprobs.data;
  for (const { name, offsetA, offsetB, outSize } of layout.modules) {
    groups[`${name} A`] = gradient!.subarray(offsetA, offsetB);
    groups[`${name} B`] = gradient!.subarray(offsetB, offsetB + outSize * layout.rank);
  }
  return groups;
};

/** The results of one pass on any runtime. */
export const passOf =
  (model: LoadedModel, request: LossRequest, options: TrainerOptions): Compute =>
  async (runtime, adapter) => {
    const trainer = new Trainer(model, runtime, options);
    const result = await trainer.forwardBackward(adapter, request);
    await trainer.dispose();
    return groupsOf(adapter, [result]);
  };
