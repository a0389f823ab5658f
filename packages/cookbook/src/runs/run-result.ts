/** How a call of a training loop ended. */
import type { CheckpointRecord } from "./run-folder.ts";

export interface RunResult {
  /** The step that would come next; `totalSteps` when the run is complete. */
  readonly nextStep: number;
  readonly totalSteps: number;
  /** `interrupted` by the signal, or what `beforeStep` or `stopWhen` said. Absent: complete. */
  readonly stopped?: string;
  /** The last checkpoint of the run, also where this call had nothing to do. */
  readonly checkpoint?: CheckpointRecord;
}
