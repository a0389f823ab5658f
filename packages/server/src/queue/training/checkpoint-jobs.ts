/**
 * The requests that save and load checkpoints. A save exports the adapter from the engine, writes it as an immutable folder, and stores
 * the checkpoint row in the transaction that stores the result. `findReadable` decides which tenant may read which checkpoint.
 */
import type { AdapterId, Engine } from "@tinklet/engine";
import {
  LoadWeightsRequest,
  ParsedCheckpointTinkerPath,
  SaveWeightsForSamplerRequest,
  SaveWeightsRequest,
} from "@tinklet/wire";
import { InvalidInputError } from "@tinklet/wire/errors";
import type { Sql } from "../../store/database.ts";
import { readAdapter, writeAdapter } from "../../store/files/adapter-files.ts";
import { newFolderId } from "../../store/files/file-store.ts";
import {
  addFiles,
  type CheckpointKind,
  type CheckpointRow,
  getCheckpoint,
  isLive,
  type Lora,
  putCheckpoint,
  tinkerPath,
} from "../../store/tables/models.ts";
import { addSampler, freeSamplerSeq } from "../../store/tables/sessions.ts";
import { addAudit, addUsage } from "../../store/tables/usage.ts";
import { jsonPayload } from "../engine-input.ts";
import { type Job, payloadOf, type QueueContext, UserError, untilStored } from "../job.ts";
import { jsonBytes, jsonOutcome, type Outcome } from "../outcome.ts";
import type { AdapterCache } from "../sampling/adapter-cache.ts";
import { checkpointNameProblem } from "./checkpoint-name.ts";
import type { ModelRunner } from "./model-runner.ts";

interface Parts {
  readonly context: QueueContext;
  readonly engine: Engine;
  readonly adapterCache: AdapterCache;
  readonly job: Job;
  readonly adapter: AdapterId;
  readonly model: ModelRunner;
}

/** @throws {@link UserError} */
export function checkName(name: string): string {
  const problem = checkpointNameProblem(name);
  if (problem !== undefined) throw new UserError(problem);
  return name;
}

/** Ten years. */
const maxTtlSeconds = 10 * 365 * 86_400;

/**
 * The expiry time for a `ttlSeconds`, in milliseconds since the epoch; `null` for never.
 *
 * @throws InvalidInputError naming `ttl_seconds`.
 */
export function expiryOf(ttlSeconds: unknown, now: number): number | null {
  if (ttlSeconds === undefined || ttlSeconds === null) return null;
  const ttl = ttlSeconds as number;
  if (!(Number.isSafeInteger(ttl) && ttl >= 1 && ttl <= maxTtlSeconds)) {
    throw new InvalidInputError("ttl_seconds", `must be an integer from 1 to ${maxTtlSeconds} (ten years)`);
  }
  return now + ttl * 1000;
}

export async function saveWeights(parts: Parts): Promise<Outcome> {
  const request = SaveWeightsRequest.decode(jsonPayload(payloadOf(parts.context, parts.job)));
  const name = checkName(request.path ?? `seq-${parts.job.seq ?? parts.job.id}`);
  const expiresAt = expiryOf(request.ttlSeconds, parts.context.clock.now());
  if (!request.overwrite) checkFree(parts, "weights", name, "Use another name, or set overwrite.");
  const saved = await writeState(parts, { optimizer: true });
  return namedOutcome(
    parts,
    { ...saved, kind: "weights", name, expiresAt, metadata: request.userMetadata },
    "save_weights",
  );
}

export async function saveForSampler(parts: Parts): Promise<Outcome> {
  const { context, engine, job, adapter, model, adapterCache } = parts;
  const request = SaveWeightsForSamplerRequest.decode(jsonPayload(payloadOf(context, job)));
  const name = request.path === undefined ? undefined : checkName(request.path);
  const expiresAt = expiryOf(request.ttlSeconds, context.clock.now());
  if (name !== undefined) {
    checkFree(parts, "sampler_weights", name, "Sampler weights cannot be overwritten: use another name.");
  }
  const [saved, snapshot] = await Promise.all([
    writeState(parts, { optimizer: false }),
    engine.snapshot(adapter).catch(() => undefined), // only saves a later load, so that a full engine must not fail the save
  ]);
  const { filesId, bytes } = saved;
  if (snapshot !== undefined) adapterCache.adopt(filesId, snapshot);
  if (name !== undefined) {
    const as = { ...saved, kind: "sampler_weights", name, expiresAt, metadata: request.userMetadata } as const;
    return namedOutcome(parts, as, "save_weights_for_sampler");
  }
  // The number is chosen in the transaction, because another save or a new sampling session may use it before.
  const store = (sql: Sql) => {
    const now = context.clock.now();
    const seq = freeSamplerSeq(sql, model.sessionId, request.samplingSessionSeqId);
    const samplerId = `${model.sessionId}:sample:${seq}`;
    addFiles(sql, filesId, bytes, now);
    addSampler(sql, {
      id: samplerId,
      session_id: model.sessionId,
      tenant: model.tenant,
      sampler_seq: seq,
      base_model: model.baseModel,
      model_path: null,
      files_id: filesId,
      created_at: now,
    });
    return jsonBytes({ sampling_session_id: samplerId, type: "save_weights_for_sampler" });
  };
  return jsonOutcome({}, store, filesId);
}

/** Exports the adapter for use outside of this server: the same files, each with a download link. */
export async function saveExternal(parts: Parts): Promise<Outcome> {
  const body = jsonPayload(payloadOf(parts.context, parts.job)) as Record<string, unknown>;
  const name = checkName(String(body["path"]));
  const expiresAt = expiryOf(body["ttl_seconds"], parts.context.clock.now());
  checkFree(parts, "external_weights", name, "Use another name.");
  const saved = await writeState(parts, { optimizer: false });
  const as = { ...saved, kind: "external_weights", name, expiresAt, metadata: undefined } as const;
  return namedOutcome(parts, as, "save_weights_external", { size_bytes: saved.bytes });
}

/** @throws {@link UserError} when the name is in use. */
function checkFree({ context, model }: Parts, kind: CheckpointKind, name: string, fix: string): void {
  if (getCheckpoint(context.store.db.sql, model.id, kind, name) === undefined) return;
  throw new UserError(`The checkpoint ${kind}/${name} already exists. ${fix}`);
}

/** A written folder that no row refers to yet. */
interface Saved {
  readonly filesId: string;
  readonly bytes: number;
  readonly step: number;
}

/** Exports the adapter's state from the engine and writes it as a folder. */
async function writeState(parts: Parts, options: { optimizer: boolean }): Promise<Saved> {
  const { context, engine, job, adapter, model } = parts;
  context.onPoint?.("save.before");
  const state = await engine.exportState(adapter, options);
  const filesId = newFolderId();
  const bytes = await untilStored(context, job, () =>
    writeAdapter(context.store.files, filesId, state, model.baseModel),
  );
  context.onPoint?.("save.written");
  return { filesId, bytes, step: state.step };
}

interface NamedSave extends Saved {
  readonly kind: CheckpointKind;
  readonly name: string;
  readonly expiresAt: number | null;
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

/** The outcome of a save with a name; its effects store the checkpoint. */
function namedOutcome(parts: Parts, save: NamedSave, type: string, more: Record<string, unknown> = {}): Outcome {
  const row = checkpointRow(parts, save);
  return jsonOutcome({ path: tinkerPath(row), ...more, type }, (sql) => storeCheckpoint(sql, row), save.filesId);
}

/**
 * Replaces the weights of a loaded model by those of a checkpoint. The checkpoint's files become the model's snapshot, so they stay pinned
 * until `unpin` is called, even if the checkpoint is deleted in the meantime.
 */
export async function loadWeights(
  parts: Parts,
): Promise<{ outcome: Outcome; from: { filesId: string; optimizer: boolean }; unpin: () => void }> {
  const { context, engine, job, adapter, model } = parts;
  const request = LoadWeightsRequest.decode(jsonPayload(payloadOf(context, job)));
  const row = findReadable(
    context.store.db.sql,
    request.path,
    [job.tenant, job.resolvedParams.accessTenant],
    context.clock.now(),
  );
  checkOptimizer(row, request.optimizer);
  checkFits(row, model);
  const unpin = context.store.pin(row.files_id);
  try {
    const state = await readAdapter(context.store.files, row.files_id, { optimizer: request.optimizer });
    await engine.loadState(adapter, state);
  } catch (error) {
    unpin();
    throw error;
  }
  return {
    outcome: jsonOutcome({ path: request.path, model_id: model.id, type: "load_weights" }),
    from: { filesId: row.files_id, optimizer: request.optimizer },
    unpin,
  };
}

/** @throws {@link UserError} when `optimizer` is set for sampler weights. */
export function checkOptimizer(row: CheckpointRow, optimizer: boolean): void {
  if (optimizer && row.kind !== "weights") {
    throw new UserError(
      `${tinkerPath(row)} contains sampler weights, which have no optimizer state. Load it without the optimizer, or load a checkpoint made by save_state.`,
    );
  }
}

function checkFits(row: CheckpointRow, model: ModelRunner): void {
  if (row.base_model !== model.baseModel) {
    throw new UserError(
      `${tinkerPath(row)} was trained on ${row.base_model}, and the base model of ${model.id} is ${model.baseModel}.`,
    );
  }
  const lora = JSON.parse(row.lora) as Lora;
  for (const key of ["rank", "alpha", "trainAttn", "trainMlp", "trainUnembed"] as const) {
    if (lora[key] !== model.lora[key]) {
      throw new UserError(
        `${tinkerPath(row)} has ${key} ${lora[key]}, and the model ${model.id} has ${model.lora[key]}. Create the model with the checkpoint's configuration (create_training_client_from_state does).`,
      );
    }
  }
}

/**
 * The checkpoint at a path, if one of these tenants may read it. A checkpoint is readable by its owner, and by every tenant once it is
 * published. The error for an unreadable checkpoint is the same as for one that does not exist.
 *
 * @throws {@link UserError}
 */
export function findReadable(
  sql: Sql,
  path: string,
  tenants: readonly (string | undefined)[],
  now: number,
): CheckpointRow {
  const row = readable(sql, path, tenants, now);
  if (row === undefined) throw unreadable(path);
  return row;
}

/** Like {@link findReadable}, but returns `undefined` instead. @throws {@link UserError} when the path is malformed. */
export function readable(
  sql: Sql,
  path: string,
  tenants: readonly (string | undefined)[],
  now: number,
): CheckpointRow | undefined {
  const parsed = parsePath(path);
  const row = getCheckpoint(sql, parsed.run, parsed.kind, parsed.name);
  const allowed = row !== undefined && (row.public === 1 || tenants.includes(row.tenant));
  return allowed && isLive(row, now) ? row : undefined;
}

export const unreadable = (path: string): UserError =>
  new UserError(`There is no checkpoint ${JSON.stringify(path.slice(0, 300))} that this key may read.`);

/** @throws {@link UserError} */
export function parsePath(path: string): { run: string; kind: CheckpointKind; name: string } {
  try {
    const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
    const [kind, name] = checkpointId.split("/") as [CheckpointKind, string];
    return { run: trainingRunId, kind, name };
  } catch (error) {
    throw new UserError((error as Error).message);
  }
}

function checkpointRow({ context, model, job }: Parts, saved: NamedSave): CheckpointRow {
  const now = context.clock.now();
  return {
    run_id: model.id,
    kind: saved.kind,
    name: saved.name,
    tenant: job.tenant,
    session_id: model.sessionId,
    files_id: saved.filesId,
    base_model: model.baseModel,
    lora: JSON.stringify(model.lora),
    step: saved.step,
    bytes: saved.bytes,
    created_at: now,
    expires_at: saved.expiresAt,
    public: 0,
    user_metadata: saved.metadata === undefined ? null : JSON.stringify(saved.metadata),
  };
}

function storeCheckpoint(sql: Sql, row: CheckpointRow): void {
  addFiles(sql, row.files_id, row.bytes, row.created_at);
  putCheckpoint(sql, row);
  const { tenant, session_id: sessionId, base_model: baseModel, created_at: now } = row;
  addUsage(sql, { tenant, sessionId, baseModel, now }, { checkpoint: 1 });
  addAudit(sql, { at: now, tenant, event: "checkpoint_created", modelId: row.run_id, tinkerPath: tinkerPath(row) });
}
