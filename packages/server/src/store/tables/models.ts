/** Rows of `models`, `checkpoints` and `files`. */
import type { LoraOptions } from "@tinklet/engine";
import { stringifyJson } from "@tinklet/wire";
import type { Sql } from "../database.ts";

/** The LoRA options of a model or a checkpoint, with defaults filled in. */
export type Lora = Required<LoraOptions>;

/**
 * `creating`: its first request has not finished; `failed`: its first request failed, so that all later requests fail; `unloaded`: its
 * client unloaded it, and unsaved weights are deleted.
 */
export type ModelState = "creating" | "ready" | "failed" | "unloaded";

export interface ModelRow {
  readonly id: string;
  readonly session_id: string;
  readonly tenant: string;
  readonly model_seq: number;
  readonly base_model: string;
  /** JSON of {@link Lora}. */
  readonly lora: string;
  readonly user_metadata: string | null;
  readonly created_at: number;
  readonly last_request_at: number;
  readonly state: ModelState;
  readonly error: string | null;
  readonly next_seq: number;
  readonly executed: number;
  readonly snapshot_files: string | null;
  readonly snapshot_executed: number;
  readonly snapshot_optimizer: number;
  /** `null` for imported adapters. */
  readonly name: string | null;
}

/** `external_weights` are exported adapters, whose files newer clients download one by one. */
export type CheckpointKind = "weights" | "sampler_weights" | "external_weights";

export interface CheckpointRow {
  readonly run_id: string;
  readonly kind: CheckpointKind;
  readonly name: string;
  readonly tenant: string;
  readonly session_id: string;
  readonly files_id: string;
  readonly base_model: string;
  readonly lora: string;
  readonly step: number;
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly public: number;
  readonly user_metadata: string | null;
}

/** Whether a checkpoint has not expired. The row of an expired one exists until the next sweep. */
export const isLive = ({ expires_at }: Pick<CheckpointRow, "expires_at">, now: number): boolean =>
  expires_at === null || expires_at > now;
/** The same condition in SQL; its parameter is the current time. */
export const isLiveSql = "(expires_at IS NULL OR expires_at > ?)";

export const getModel = (sql: Sql, id: string): ModelRow | undefined =>
  sql.get<ModelRow>("SELECT * FROM models WHERE id = ?", id);

/** The `sdk_version` of sessions of imported adapters. The run of such a session only holds a checkpoint and is not listed as a training run. */
export const importedBy = "import_adapter";

/** A page of the runs that a tenant may see, most recently used first, and their total number. */
export function listModels(
  sql: Sql,
  which: {
    readonly tenant: string;
    /** Includes runs of other tenants that have a public checkpoint. */
    readonly withPublic: boolean;
    readonly projectId: string | undefined;
    /** The current time: expired checkpoints do not count as public. */
    readonly now: number;
    readonly limit: number;
    readonly offset: number;
  },
): { readonly rows: ModelRow[]; readonly total: number } {
  const project = which.projectId ?? null;
  const from = `FROM models JOIN sessions ON sessions.id = models.session_id
    WHERE (models.tenant = ? OR (? AND EXISTS (SELECT 1 FROM checkpoints WHERE run_id = models.id AND public = 1
        AND ${isLiveSql})))
      AND (? IS NULL OR sessions.project_id = ?) AND sessions.sdk_version <> ?`;
  const params = [which.tenant, which.withPublic ? 1 : 0, which.now, project, project, importedBy];
  const total = sql.get<{ n: number }>(`SELECT COUNT(*) AS n ${from}`, ...params)!.n;
  const order = "ORDER BY models.last_request_at DESC, models.id LIMIT ? OFFSET ?";
  return { rows: sql.all<ModelRow>(`SELECT models.* ${from} ${order}`, ...params, which.limit, which.offset), total };
}

/** A model to be created. */
export interface NewModel {
  readonly id: string;
  readonly sessionId: string;
  readonly tenant: string;
  readonly modelSeq: number;
  readonly baseModel: string;
  readonly lora: Lora;
  readonly userMetadata: unknown;
  readonly now: number;
  /** The checkpoint that it starts from; absent for a new adapter. */
  readonly from?: { readonly filesId: string; readonly optimizer: boolean };
  /** Called in the transaction that stores the model. Absent for imported adapters, which have no name. */
  readonly nameIn?: ((sql: Sql) => string) | undefined;
}

export function addModel(sql: Sql, model: NewModel): void {
  sql.run(
    `INSERT INTO models (id, session_id, tenant, model_seq, base_model, lora, user_metadata, created_at,
       last_request_at, state, snapshot_files, snapshot_optimizer, name)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'creating', ?, ?, ?)`,
    model.id,
    model.sessionId,
    model.tenant,
    model.modelSeq,
    model.baseModel,
    JSON.stringify(model.lora),
    model.userMetadata === undefined ? null : stringifyJson(model.userMetadata),
    model.now,
    model.now,
    model.from?.filesId ?? null,
    model.from === undefined || model.from.optimizer ? 1 : 0,
    model.nameIn?.(sql) ?? null,
  );
}

export const readyModel = (sql: Sql, id: string): void =>
  void sql.run("UPDATE models SET state = 'ready' WHERE id = ?", id);

/** The creation failed, so that all later requests of the model fail. */
export const failModel = (sql: Sql, id: string, error: string): void =>
  void sql.run("UPDATE models SET state = 'failed', error = ? WHERE id = ?", error, id);

/** A request of the model has finished at position `executed`; seq_ids below `nextSeq` have finished or were skipped. */
export const advanceModel = (
  sql: Sql,
  id: string,
  to: { readonly executed: number; readonly nextSeq: number; readonly now: number },
): void =>
  void sql.run(
    "UPDATE models SET executed = ?, next_seq = MAX(next_seq, ?), last_request_at = ? WHERE id = ?",
    to.executed,
    to.nextSeq,
    to.now,
    id,
  );

/** Missing seq_ids below `nextSeq` were skipped. */
export const skipNumbers = (sql: Sql, id: string, nextSeq: number): void =>
  void sql.run("UPDATE models SET next_seq = MAX(next_seq, ?) WHERE id = ?", nextSeq, id);

/** Stores new snapshot files of a model and deletes the payloads that they cover. */
export function moveSnapshot(
  sql: Sql,
  id: string,
  to: { readonly filesId: string; readonly executed: number; readonly optimizer: boolean },
): void {
  sql.run(
    "UPDATE models SET snapshot_files = ?, snapshot_executed = ?, snapshot_optimizer = ? WHERE id = ?",
    to.filesId,
    to.executed,
    to.optimizer ? 1 : 0,
    id,
  );
  sql.run(
    "UPDATE requests SET payload = NULL WHERE model_id = ? AND payload IS NOT NULL AND position <= ?",
    id,
    to.executed,
  );
}

/** Marks a model that can never be trained. seq_id 0, its creation, will not arrive, so it is skipped. */
export const closeModel = (sql: Sql, id: string, error: string): void =>
  void sql.run("UPDATE models SET state = 'failed', next_seq = 1, error = ? WHERE id = ?", error, id);

/** Unloads a model: deletes its snapshot and payloads, keeps its checkpoints. */
export function unloadModel(sql: Sql, id: string): void {
  sql.run("UPDATE models SET state = 'unloaded', snapshot_files = NULL WHERE id = ?", id);
  sql.run("UPDATE requests SET payload = NULL WHERE model_id = ? AND payload IS NOT NULL AND state <> 'pending'", id);
}

/** Whether a model has unfinished requests. */
export const isBusy = (sql: Sql, id: string): boolean =>
  sql.get("SELECT 1 FROM requests WHERE model_id = ? AND state = 'pending'", id) !== undefined;

/** The checkpoint of an adapter that was imported before with this key. Extends its expiry to `expiresAt` if that is later. */
export function keepImport(
  sql: Sql,
  at: { readonly tenant: string; readonly key: string; readonly name: string; readonly now: number },
  expiresAt: number | null,
): CheckpointRow | undefined {
  const session = sql.get<{ id: string }>(
    "SELECT id FROM sessions WHERE tenant = ? AND idempotency_key = ?",
    at.tenant,
    `${importedBy} ${at.key}`,
  );
  const row = session && getCheckpoint(sql, `${session.id}:train:0`, "sampler_weights", at.name);
  if (row === undefined || !isLive(row, at.now)) return undefined;
  const end = expiresAt === null || row.expires_at === null ? null : Math.max(expiresAt, row.expires_at);
  sql.run("UPDATE checkpoints SET expires_at = ? WHERE run_id = ? AND name = ?", end, row.run_id, at.name);
  return row;
}

/** Deletes a model and its checkpoints. Its recorded usage stays. @returns the number of deleted checkpoints */
export function deleteModel(sql: Sql, id: string): number {
  const { n } = sql.get<{ n: number }>("SELECT COUNT(*) AS n FROM checkpoints WHERE run_id = ?", id)!;
  sql.run("DELETE FROM checkpoints WHERE run_id = ?", id);
  sql.run("UPDATE requests SET payload = NULL WHERE model_id = ? AND payload IS NOT NULL", id);
  sql.run("DELETE FROM steps WHERE model_id = ?", id);
  sql.run("DELETE FROM models WHERE id = ?", id);
  return n;
}

export const getCheckpoint = (sql: Sql, run: string, kind: string, name: string): CheckpointRow | undefined =>
  sql.get<CheckpointRow>("SELECT * FROM checkpoints WHERE run_id = ? AND kind = ? AND name = ?", run, kind, name);

export function putCheckpoint(sql: Sql, row: CheckpointRow): void {
  sql.run(
    `INSERT OR REPLACE INTO checkpoints (run_id, kind, name, tenant, session_id, files_id, base_model, lora, step, bytes,
       created_at, expires_at, public, user_metadata)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.run_id,
    row.kind,
    row.name,
    row.tenant,
    row.session_id,
    row.files_id,
    row.base_model,
    row.lora,
    row.step,
    row.bytes,
    row.created_at,
    row.expires_at,
    row.public,
    row.user_metadata,
  );
}

/** Checkpoints that have not expired, newest first. */
export const liveCheckpoints = (sql: Sql, run: string, now: number): CheckpointRow[] =>
  sql.all<CheckpointRow>(
    `SELECT * FROM checkpoints WHERE run_id = ? AND ${isLiveSql} ORDER BY created_at DESC, name DESC`,
    run,
    now,
  );

/** The newest sampler weights of all training runs of a tenant. */
export const latestSampler = (sql: Sql, tenant: string, now: number): CheckpointRow | undefined =>
  sql.get<CheckpointRow>(
    `SELECT checkpoints.* FROM checkpoints JOIN sessions ON sessions.id = checkpoints.session_id
     WHERE checkpoints.tenant = ? AND kind = 'sampler_weights' AND (expires_at IS NULL OR expires_at > ?)
       AND sessions.sdk_version <> ? ORDER BY checkpoints.created_at DESC, run_id DESC, name DESC LIMIT 1`,
    tenant,
    now,
    importedBy,
  );

/** A page of a tenant's checkpoints that have not expired, newest first, and their total number. */
export function listTenantCheckpoints(
  sql: Sql,
  tenant: string,
  { now, limit, offset }: { readonly now: number; readonly limit: number; readonly offset: number },
): { readonly rows: CheckpointRow[]; readonly total: number } {
  const from = `FROM checkpoints WHERE tenant = ? AND ${isLiveSql}`;
  const total = sql.get<{ n: number }>(`SELECT COUNT(*) AS n ${from}`, tenant, now)!.n;
  const order = "ORDER BY created_at DESC, run_id, kind, name LIMIT ? OFFSET ?";
  return { rows: sql.all<CheckpointRow>(`SELECT * ${from} ${order}`, tenant, now, limit, offset), total };
}

/** A change of an existing checkpoint. */
export type CheckpointChange = "delete" | { readonly isPublic: boolean } | { readonly expiresAt: number | null };

export function changeCheckpoint(
  sql: Sql,
  { run_id, kind, name }: Pick<CheckpointRow, "run_id" | "kind" | "name">,
  change: CheckpointChange,
): void {
  const which = "WHERE run_id = ? AND kind = ? AND name = ?";
  if (change === "delete") sql.run(`DELETE FROM checkpoints ${which}`, run_id, kind, name);
  else if ("isPublic" in change)
    sql.run(`UPDATE checkpoints SET public = ? ${which}`, change.isPublic ? 1 : 0, run_id, kind, name);
  else sql.run(`UPDATE checkpoints SET expires_at = ? ${which}`, change.expiresAt, run_id, kind, name);
}

export const tenantCheckpoints = (sql: Sql, tenant: string): CheckpointRow[] =>
  sql.all<CheckpointRow>("SELECT * FROM checkpoints WHERE tenant = ?", tenant);

/** The number and the total size of a session's checkpoints. */
export const checkpointTotals = (sql: Sql, sessionId: string): { readonly count: number; readonly bytes: number } =>
  sql.get<{ count: number; bytes: number }>(
    "SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM checkpoints WHERE session_id = ?",
    sessionId,
  )!;

/** The number and the total size of a tenant's checkpoints, by project. */
export const projectStorage = (
  sql: Sql,
  tenant: string,
): { readonly project: string | null; readonly count: number; readonly bytes: number }[] =>
  sql.all(
    `SELECT sessions.project_id AS project, COUNT(*) AS count, SUM(bytes) AS bytes FROM checkpoints
     JOIN sessions ON sessions.id = checkpoints.session_id WHERE checkpoints.tenant = ? GROUP BY sessions.project_id`,
    tenant,
  );

/** Deletes and returns at most `limit` expired checkpoints. */
export function expireCheckpoints(sql: Sql, now: number, limit: number): CheckpointRow[] {
  const rows = sql.all<CheckpointRow>(
    "SELECT * FROM checkpoints WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?",
    now,
    limit,
  );
  for (const row of rows) changeCheckpoint(sql, row, "delete");
  return rows;
}

/** Whether the row of a folder exists: the last row that refers to it may have been deleted since its id was read. */
export const hasFiles = (sql: Sql, id: string): boolean =>
  sql.get("SELECT 1 FROM files WHERE id = ?", id) !== undefined;

export const addFiles = (sql: Sql, id: string, bytes: number, now: number): void =>
  void sql.run("INSERT INTO files (id, bytes, created_at) VALUES (?, ?, ?)", id, bytes, now);

const unused = `NOT EXISTS (SELECT 1 FROM checkpoints WHERE files_id = files.id)
  AND NOT EXISTS (SELECT 1 FROM samplers WHERE files_id = files.id)
  AND NOT EXISTS (SELECT 1 FROM models WHERE snapshot_files = files.id)
  AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.files_id = files.id AND state = 'pending')`;

/** Ids of the folders that no row refers to. */
export const unusedFiles = (sql: Sql): string[] =>
  sql.all<{ id: string }>(`SELECT id FROM files WHERE ${unused}`).map(({ id }) => id);

/** Total size of the folders that no row refers to. */
export const unusedBytes = (sql: Sql): number =>
  sql.get<{ n: number }>(`SELECT COALESCE(SUM(bytes), 0) AS n FROM files WHERE ${unused}`)!.n;

/**
 * Deletes the rows of those candidates that no row refers to and that are not pinned; the files of `dropped` may then be removed. A row that
 * is gone already, because two calls ran at once, is in neither list: the other call removes its files.
 */
export function dropUnusedFiles(
  sql: Sql,
  candidates: readonly string[],
  isPinned: (id: string) => boolean,
): { dropped: string[]; kept: string[] } {
  const dropped: string[] = [];
  const kept: string[] = [];
  for (const id of candidates) {
    const gone = !isPinned(id) && sql.run(`DELETE FROM files WHERE id = ? AND ${unused}`, id).changes > 0;
    if (gone) dropped.push(id);
    else if (hasFiles(sql, id)) kept.push(id);
  }
  return { dropped, kept };
}

export const tinkerPath = (row: Pick<CheckpointRow, "run_id" | "kind" | "name">): string =>
  `tinker://${row.run_id}/${row.kind}/${row.name}`;
