/** The runs and checkpoints of a storage, held in memory as records, and what the API says about them. */
import type { AdapterState } from "@tinklet/engine";
import { Refusal } from "@tinklet/server/portable";
import { type Checkpoint, ParsedCheckpointTinkerPath, type TrainingRun } from "@tinklet/wire";
import {
  type BrowserStorage,
  type CheckpointKind,
  type CheckpointRecord,
  type RunRecord,
  runStateKey,
} from "./storage/storage.ts";

/** The name under which the state after a run's last step can be loaded. No save may use it. */
export const lastStepName = "last-step";

/** A checkpoint, and the key of its stored state. */
export interface Found extends Omit<CheckpointRecord, "kind"> {
  readonly kind: CheckpointKind;
  readonly stateKey: string;
}

const pathOf = (runId: string, kind: CheckpointKind, name: string): string => `tinker://${runId}/${kind}/${name}`;

export class Checkpoints {
  readonly #storage: BrowserStorage;
  readonly #runs = new Map<string, RunRecord>();
  readonly #saved = new Map<string, CheckpointRecord>();

  private constructor(storage: BrowserStorage) {
    this.#storage = storage;
  }

  static async open(storage: BrowserStorage): Promise<Checkpoints> {
    const opened = new Checkpoints(storage);
    // A page that was closed without ending its session left the weights of its samplers.
    const left = await storage.samplerStateKeys();
    if (left.length > 0) await storage.commit({ deletedStates: left });
    const { runs, checkpoints } = await storage.records();
    for (const run of runs) opened.#runs.set(run.id, run);
    for (const checkpoint of checkpoints) opened.#saved.set(checkpoint.path, checkpoint);
    return opened;
  }

  /** Runs, the most recently changed first. */
  get runs(): readonly RunRecord[] {
    return [...this.#runs.values()].sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** Remembers the record of a run that was stored. */
  note(run: RunRecord): void {
    this.#runs.set(run.id, run);
  }

  /** @throws {@link Refusal} 404 */
  run(id: string): RunRecord {
    const run = this.#runs.get(id);
    if (run === undefined)
      throw new Refusal(404, "unknown_model", `There is no model ${JSON.stringify(id.slice(0, 200))} in this page.`);
    return run;
  }

  /** The saved checkpoints of a run, the newest first. */
  of(run: RunRecord): readonly Found[] {
    return [...this.#saved.values()]
      .filter(({ runId }) => runId === run.id)
      .map((record) => ({ ...record, stateKey: record.path }))
      .sort((one, other) => other.createdAt - one.createdAt);
  }

  /** The path of the state after a run's last step. */
  lastStepOf(runId: string): string {
    return lastStep(this.run(runId)).path;
  }

  /** @throws {@link Refusal} 404, InvalidInputError for a malformed path */
  find(path: string): Found {
    const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
    const run = this.#runs.get(trainingRunId);
    if (run !== undefined && checkpointId === `weights/${lastStepName}`) return lastStep(run);
    const record = this.#saved.get(path);
    if (record !== undefined) return { ...record, stateKey: path };
    throw new Refusal(
      404,
      "unknown_checkpoint",
      `There is no checkpoint ${JSON.stringify(path.slice(0, 300))} in this page.`,
    );
  }

  has(runId: string, kind: CheckpointKind, name: string): boolean {
    return this.#saved.has(pathOf(runId, kind, name));
  }

  /** Stores a checkpoint with its state. */
  async add(record: Omit<CheckpointRecord, "path">, state: AdapterState): Promise<string> {
    const path = pathOf(record.runId, record.kind, record.name);
    const checkpoint = { ...record, path };
    await this.#storage.commit({ checkpoints: [checkpoint], states: new Map([[path, state]]) });
    this.#saved.set(path, checkpoint);
    return path;
  }

  /** @throws {@link Refusal} 400 for the state of a run, which is deleted with its run */
  async delete(path: string): Promise<void> {
    if (this.find(path).stateKey !== path) {
      throw new Refusal(400, "last_step", `${path} is the state of its run; delete the run to delete it.`);
    }
    await this.#storage.commit({ deletedCheckpoints: [path], deletedStates: [path] });
    this.#saved.delete(path);
  }

  /** Deletes a run with its checkpoints; returns the keys of the deleted states. */
  async deleteRun(id: string): Promise<readonly string[]> {
    const paths = this.of(this.run(id)).map(({ path }) => path);
    const keys = [runStateKey(id), ...paths];
    await this.#storage.commit({ deletedRuns: [id], deletedCheckpoints: paths, deletedStates: keys });
    this.#runs.delete(id);
    for (const path of paths) this.#saved.delete(path);
    return keys;
  }
}

const lastStep = (run: RunRecord): Found => ({
  path: pathOf(run.id, "weights", lastStepName),
  runId: run.id,
  kind: "weights",
  name: lastStepName,
  baseModel: run.baseModel,
  lora: run.lora,
  step: run.step,
  bytes: run.bytes,
  createdAt: run.updatedAt,
  stateKey: runStateKey(run.id),
});

export const checkpointView = (found: Found): Checkpoint => ({
  checkpointId: `${found.kind}/${found.name}`,
  checkpointType: found.kind === "weights" ? "training" : "sampler",
  time: new Date(found.createdAt),
  tinkerPath: found.path,
  sizeBytes: found.bytes,
  public: false,
  ...(found.userMetadata && { userMetadata: found.userMetadata }),
});

export function runView(run: RunRecord, checkpoints: readonly Found[]): TrainingRun {
  const last = checkpoints.find(({ kind }) => kind === "weights");
  const lastSampler = checkpoints.find(({ kind }) => kind === "sampler_weights");
  return {
    trainingRunId: run.id,
    baseModel: run.baseModel,
    modelOwner: "this page",
    isLora: true,
    corrupted: false,
    loraRank: run.lora.rank,
    lastRequestTime: new Date(run.updatedAt),
    ...(last && { lastCheckpoint: checkpointView(last) }),
    ...(lastSampler && { lastSamplerCheckpoint: checkpointView(lastSampler) }),
    ...(run.userMetadata && { userMetadata: run.userMetadata }),
  };
}
