/** Checkpoints as users see them: what was saved of a run under one name, with its files (training state, weights for sampling). */
import type { Checkpoint } from "@tinklet/wire";

/** The files of one name of one run. At least one is present. */
export interface SavedCheckpoint {
  readonly key: string;
  readonly runId: string;
  /** What it was saved as, or the short form of it: `step-40` for `000040`. */
  readonly name: string;
  /** The name by which commands and endpoints find it, such as `bike@step-40`; without one the path of its weights. */
  readonly reference: string;
  /** Weights and optimizer, from which training resumes. */
  readonly training: Checkpoint | undefined;
  /** Weights for sampling. */
  readonly sampler: Checkpoint | undefined;
  /** Weights that were made for another server. */
  readonly external: Checkpoint | undefined;
  readonly files: readonly Checkpoint[];
  readonly time: number;
}

/** The checkpoints of a run; of all runs with one name, which resumed each other. */
export interface CheckpointGroup {
  readonly key: string;
  /** The run of the latest checkpoint. */
  readonly runId: string;
  readonly runName: string | undefined;
  readonly checkpoints: readonly SavedCheckpoint[];
}

/** Parses the run id and the checkpoint id of a path `tinker://RUN/KIND/NAME`. */
export function placeOf(path: string): { readonly trainingRunId: string; readonly checkpointId: string } {
  const [run = "", ...rest] = path.replace(/^tinker:\/\//, "").split("/");
  return { trainingRunId: run, checkpointId: rest.join("/") };
}

/** The groups in the order of their latest checkpoint, and the checkpoints of each latest first. */
export function groupCheckpoints(found: readonly Checkpoint[]): CheckpointGroup[] {
  const runs = new Map<string, Map<string, Checkpoint[]>>();
  for (const one of found) {
    const { trainingRunId, checkpointId } = placeOf(one.tinkerPath);
    const runKey = one.runName === undefined ? trainingRunId : `name ${one.runName}`;
    const key = one.reference ?? `${trainingRunId} ${checkpointId.slice(checkpointId.indexOf("/") + 1)}`;
    const own = runs.get(runKey) ?? new Map<string, Checkpoint[]>();
    own.set(key, [...(own.get(key) ?? []), one]);
    runs.set(runKey, own);
  }
  const groups = [...runs].map(([runKey, own]): CheckpointGroup => {
    const checkpoints = [...own].map(([key, files]) => savedOf(key, files)).sort((a, b) => b.time - a.time);
    const [{ runId, files }] = checkpoints as [SavedCheckpoint];
    return { key: runKey, runId, runName: files[0]!.runName, checkpoints };
  });
  return groups.sort((a, b) => b.checkpoints[0]!.time - a.checkpoints[0]!.time);
}

/** @param files - at least one */
function savedOf(key: string, files: readonly Checkpoint[]): SavedCheckpoint {
  const of = (type: string) => files.find(({ checkpointType }) => checkpointType === type);
  const [first] = files as readonly [Checkpoint];
  const { trainingRunId: runId, checkpointId } = placeOf(first.tinkerPath);
  const [training, sampler, external] = [of("training"), of("sampler"), of("external")];
  const name = first.reference?.split("@").at(-1) ?? checkpointId.slice(checkpointId.indexOf("/") + 1);
  const reference = first.reference ?? (sampler ?? training ?? first).tinkerPath;
  const time = Math.max(...files.map((file) => file.time.getTime()));
  return { key, runId, name, reference, files, time, training, sampler, external };
}
