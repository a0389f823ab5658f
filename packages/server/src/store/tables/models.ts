/** Rows of `models`, `checkpoints` and `files`: what can be trained, and what was saved of it. */
import type { LoraOptions } from "@tinklet/engine";
import { stringifyJson } from "@tinklet/wire";
import type { Sql } from "../database.ts";

/** The adapter of a model or a checkpoint, with everything that was left open filled in. */
export type Lora = Required<LoraOptions>;

/**
 * `creating`: its first request has not finished; `failed`: that request failed, and so does every later one; `unloaded`: its client
 * gave it up, and what was not saved of it is gone.
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
}

/** `external_weights` are adapters exported for use elsewhere, file by file; newer clients download by them. */
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

/** Whether a checkpoint is still there for its users: one past its end is, until the next sweep, but a row. */
export const isLive = ({ expires_at }: Pick<CheckpointRow, "expires_at">, now: number): boolean =>
  expires_at === null || expires_at > now;
/** The same in SQL, of the time that its parameter gives. */
const isLiveSql = "(expires_at IS NULL OR expires_at > ?)";

export const getModel = (sql: Sql, id: string): ModelRow | undefined =>
  sql.get<ModelRow>("SELECT * FROM models WHERE id = ?", id);

/** What made the session of an imported adapter; such a run only carries its checkpoint and is no training run. */
export const importedBy = "import_adapter";

/** A page of the runs that a tenant may see, the one that was used last first, and how many there are in all. */
export function listModels(
  sql: Sql,
  which: {
    readonly tenant: string;
    /** Also those of others that have a public checkpoint. */
    readonly withPublic: boolean;
    readonly projectId: string | undefined;
    /** Checkpoints that have expired by then are not public any more. */
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

/** A model as its first request asks for it. */
export interface NewModel {
  readonly id: string;
  readonly sessionId: string;
  readonly tenant: string;
  readonly modelSeq: number;
  readonly baseModel: string;
  readonly lora: Lora;
  readonly userMetadata: unknown;
  readonly now: number;
  /** Where it starts from; absent for a fresh adapter. */
  readonly from?: { readonly filesId: string; readonly optimizer: boolean };
}

export function addModel(sql: Sql, model: NewModel): void {
  sql.run(
    `INSERT INTO models (id, session_id, tenant, model_seq, base_model, lora, user_metadata, created_at,
       last_request_at, state, snapshot_files, snapshot_optimizer)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'creating', ?, ?)`,
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
  );
}

export const readyModel = (sql: Sql, id: string): void =>
  void sql.run("UPDATE models SET state = 'ready' WHERE id = ?", id);

/** Its creation failed, and so does everything after it. */
export const failModel = (sql: Sql, id: string, error: string): void =>
  void sql.run("UPDATE models SET state = 'failed', error = ? WHERE id = ?", error, id);

/** A request of the model has run: it is the `executed`-th, and numbers below `nextSeq` are over. */
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

/** Numbers below `nextSeq` were given up as lost. */
export const skipNumbers = (sql: Sql, id: string, nextSeq: number): void =>
  void sql.run("UPDATE models SET next_seq = MAX(next_seq, ?) WHERE id = ?", nextSeq, id);

/** Points a model at new files and forgets the requests that they cover. */
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

/** Marks a model that can never be trained. Number 0, its creation, will not come, and nothing must wait for it. */
export const closeModel = (sql: Sql, id: string, error: string): void =>
  void sql.run("UPDATE models SET state = 'failed', next_seq = 1, error = ? WHERE id = ?", error, id);

/** Gives a model up: what is kept to bring it back goes, its checkpoints stay. */
export function unloadModel(sql: Sql, id: string): void {
  sql.run("UPDATE models SET state = 'unloaded', snapshot_files = NULL WHERE id = ?", id);
  sql.run("UPDATE requests SET payload = NULL WHERE model_id = ? AND payload IS NOT NULL AND state <> 'pending'", id);
}

/** Whether requests of a model are under way. */
export const isBusy = (sql: Sql, id: string): boolean =>
  sql.get("SELECT 1 FROM requests WHERE model_id = ? AND state = 'pending'", id) !== undefined;

/** The checkpoint of an adapter that was imported before under this key; its end may move away, never nearer. */
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

/** Forgets a model and its checkpoints. What it used stays in the bill. @returns how many checkpoints there were */
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

/** The weights for sampling that a run has, the newest first; of two at the same moment, the one that listings name later. */
export const samplersOfRun = (sql: Sql, run: string, now: number): CheckpointRow[] =>
  sql.all<CheckpointRow>(
    `SELECT * FROM checkpoints WHERE run_id = ? AND kind = 'sampler_weights' AND (expires_at IS NULL OR expires_at > ?)
     ORDER BY created_at DESC, name`,
    run,
    now,
  );

/** A tenant's newest weights for sampling, of all its training runs. */
export const latestSampler = (sql: Sql, tenant: string, now: number): CheckpointRow | undefined =>
  sql.get<CheckpointRow>(
    `SELECT checkpoints.* FROM checkpoints JOIN sessions ON sessions.id = checkpoints.session_id
     WHERE checkpoints.tenant = ? AND kind = 'sampler_weights' AND (expires_at IS NULL OR expires_at > ?)
       AND sessions.sdk_version <> ? ORDER BY checkpoints.created_at DESC, run_id DESC, name DESC LIMIT 1`,
    tenant,
    now,
    importedBy,
  );

/** A page of a tenant's checkpoints that have not expired, newest first, and how many there are in all. */
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

/** What can be done to a checkpoint that is there. */
export type CheckpointChange = "delete" | { readonly isPublic: boolean } | { readonly expiresAt: number | null };

export function changeCheckpoint(
  sql: Sql,
  { run_id, kind, name }: Pick<CheckpointRow, "run_id" | "kind" | "name">,
  how: CheckpointChange,
): void {
  const which = "WHERE run_id = ? AND kind = ? AND name = ?";
  if (how === "delete") sql.run(`DELETE FROM checkpoints ${which}`, run_id, kind, name);
  else if ("isPublic" in how)
    sql.run(`UPDATE checkpoints SET public = ? ${which}`, how.isPublic ? 1 : 0, run_id, kind, name);
  else sql.run(`UPDATE checkpoints SET expires_at = ? ${which}`, how.expiresAt, run_id, kind, name);
}

export const tenantCheckpoints = (sql: Sql, tenant: string): CheckpointRow[] =>
  sql.all<CheckpointRow>("SELECT * FROM checkpoints WHERE tenant = ?", tenant);

/** How many checkpoints a session has, and their size. */
export const checkpointTotals = (sql: Sql, sessionId: string): { readonly count: number; readonly bytes: number } =>
  sql.get<{ count: number; bytes: number }>(
    "SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM checkpoints WHERE session_id = ?",
    sessionId,
  )!;

/** What a tenant's checkpoints take up, by project. */
export const projectStorage = (
  sql: Sql,
  tenant: string,
): { readonly project: string | null; readonly count: number; readonly bytes: number }[] =>
  sql.all(
    `SELECT sessions.project_id AS project, COUNT(*) AS count, SUM(bytes) AS bytes FROM checkpoints
     JOIN sessions ON sessions.id = checkpoints.session_id WHERE checkpoints.tenant = ? GROUP BY sessions.project_id`,
    tenant,
  );

/** Forgets the checkpoints whose time is over, at most `limit` of them, and returns them. */
export function expireCheckpoints(sql: Sql, now: number, limit: number): CheckpointRow[] {
  const rows = sql.all<CheckpointRow>(
    "SELECT * FROM checkpoints WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT ?",
    now,
    limit,
  );
  for (const row of rows) changeCheckpoint(sql, row, "delete");
  return rows;
}

/** Whether a folder is still known: between reading its name and using it, its last owner may have been deleted. */
export const hasFiles = (sql: Sql, id: string): boolean =>
  sql.get("SELECT 1 FROM files WHERE id = ?", id) !== undefined;

export const addFiles = (sql: Sql, id: string, bytes: number, now: number): void =>
  void sql.run("INSERT INTO files (id, bytes, created_at) VALUES (?, ?, ?)", id, bytes, now);

const unused = `NOT EXISTS (SELECT 1 FROM checkpoints WHERE files_id = files.id)
  AND NOT EXISTS (SELECT 1 FROM samplers WHERE files_id = files.id)
  AND NOT EXISTS (SELECT 1 FROM models WHERE snapshot_files = files.id)
  AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.files_id = files.id AND state = 'pending')`;

/** The folders that nothing refers to any more. */
export const unusedFiles = (sql: Sql): string[] =>
  sql.all<{ id: string }>(`SELECT id FROM files WHERE ${unused}`).map(({ id }) => id);

/** What the folders take up that nothing refers to any more. */
export const unusedBytes = (sql: Sql): number =>
  sql.get<{ n: number }>(`SELECT COALESCE(SUM(bytes), 0) AS n FROM files WHERE ${unused}`)!.n;

/** Forgets those of these folders that nothing refers to, and names them; their files may then be removed. */
export function dropUnusedFiles(
  sql: Sql,
  candidates: readonly string[],
  isPinned: (id: string) => boolean,
): { dropped: string[]; kept: string[] } {
  const dropped: string[] = [];
  const kept: string[] = [];
  for (const id of candidates) {
    const gone = !isPinned(id) && sql.run(`DELETE FROM files WHERE id = ? AND ${unused}`, id).changes > 0;
    (gone ? dropped : kept).push(id);
  }
  return { dropped, kept };
}

export const tinkerPath = (row: Pick<CheckpointRow, "run_id" | "kind" | "name">): string =>
  `tinker://${row.run_id}/${row.kind}/${row.name}`;
