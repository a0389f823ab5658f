/** The steps of a supervised run: how many there are, and the data of each. */
import type { BatchedDataset } from "../data/dataset.ts";
import type { SupervisedDatum } from "../data/render.ts";
import type { CheckpointRecord } from "./run-folder.ts";

/** What determines the steps of a run. */
export interface Plan {
  readonly dataset: BatchedDataset<SupervisedDatum>;
  /** @defaultValue 1 */
  readonly epochs?: number;
  /** Ends sooner than the epochs would. */
  readonly maxSteps?: number | undefined;
  /** Held-out data, whose loss is `test/nll`. */
  readonly testData?: readonly SupervisedDatum[];
  /** Evaluate before every so many steps, and after the last one. 0: never. @defaultValue 10 */
  readonly evalEvery?: number;
}

/** How many steps a run has. */
export function totalStepsOf(plan: Pick<Plan, "dataset" | "epochs" | "maxSteps">): number {
  const { dataset, epochs = 1, maxSteps = Number.POSITIVE_INFINITY } = plan;
  return Math.min(dataset.batchesPerEpoch * epochs, maxSteps);
}

/** The step that follows a checkpoint. */
export function nextStepOf(record: CheckpointRecord, batchesPerEpoch: number): number {
  return (record.epoch ?? 0) * batchesPerEpoch + (record.batch ?? 0);
}

/** What a step trains on. */
export const batchOf = ({ dataset }: Plan, step: number): SupervisedDatum[] =>
  dataset.batch(Math.floor(step / dataset.batchesPerEpoch), step % dataset.batchesPerEpoch);

/** Whether the held-out data is evaluated before a step; after the last step it is evaluated once more. */
export const evaluatesBefore = ({ evalEvery = 10, testData = [] }: Plan, step: number): boolean =>
  evalEvery > 0 && testData.length > 0 && step % evalEvery === 0;
