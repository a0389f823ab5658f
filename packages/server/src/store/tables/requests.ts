/** Rows of `requests`: the log of all asynchronous requests, from which the server recovers after a crash. */
import type { Sql } from "../database.ts";
import { bytesOf } from "../database.ts";

export type RequestKind =
  | "create_model"
  | "load_weights"
  | "forward"
  | "forward_backward"
  | "optim_step"
  | "save_weights"
  | "save_weights_for_sampler"
  | "save_weights_external"
  | "unload_model"
  | "create_custom_loss"
  | "sample";

/** `proto`: a `ForwardBackwardRequest`; `json`: the request body as received. */
export type PayloadType = "json" | "proto";
export type RequestState = "pending" | "done" | "failed";

export interface RequestRow {
  readonly id: number;
  readonly tenant: string;
  readonly session_id: string;
  readonly kind: RequestKind;
  readonly model_id: string | null;
  readonly sampler_id: string | null;
  readonly seq: number | null;
  readonly fingerprint: string;
  readonly state: RequestState;
  readonly payload: Uint8Array | undefined;
  readonly payload_type: PayloadType;
  /** JSON of `ResolvedParams`: what the server chose when it accepted the request, such as seeds. */
  readonly draws: string | null;
  readonly result: Uint8Array | undefined;
  readonly result_type: PayloadType | null;
  readonly position: number | null;
  readonly tokens: number;
  readonly accepted_at: number;
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly retrieved_at: number | null;
}

export interface NewRequest {
  readonly tenant: string;
  readonly sessionId: string;
  readonly kind: RequestKind;
  readonly modelId?: string;
  readonly samplerId?: string;
  readonly seq?: number | bigint;
  readonly fingerprint: string;
  readonly payload: Uint8Array;
  readonly payloadType: PayloadType;
  readonly resolvedParams?: Readonly<Record<string, string | number | boolean>>;
  /** The adapter files of a sample without a sampling session. */
  readonly filesId?: string;
  /** Prompt or training tokens, for limits and fair share. */
  readonly tokens: number;
  readonly now: number;
  /** Set for a request that is rejected: it is stored as failed, and its future returns this. */
  readonly failure?: Failure;
}

/** Why a request failed; the result of its future. */
export interface Failure {
  readonly error: string;
  readonly category: "user" | "server" | "unknown";
}

export const failureBytes = (failure: Failure): Uint8Array =>
  new TextEncoder().encode(JSON.stringify({ error: failure.error, category: failure.category }));

export function addRequest(sql: Sql, request: NewRequest): number {
  const { failure } = request;
  return sql.run(
    `INSERT INTO requests (tenant, session_id, kind, model_id, sampler_id, seq, fingerprint, state, payload, payload_type, draws,
       files_id, tokens, accepted_at, result, result_type, finished_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    request.tenant,
    request.sessionId,
    request.kind,
    request.modelId ?? null,
    request.samplerId ?? null,
    request.seq ?? null,
    request.fingerprint,
    failure === undefined ? "pending" : "failed",
    failure === undefined ? request.payload : null,
    request.payloadType,
    request.resolvedParams === undefined ? null : JSON.stringify(request.resolvedParams),
    request.filesId ?? null,
    request.tokens,
    request.now,
    failure === undefined ? null : failureBytes(failure),
    failure === undefined ? null : "json",
    failure === undefined ? null : request.now,
  ).lastInsertRowid;
}

// seq is read as NULL for samples, because it may exceed the precision of a double and is not used.
const plain = `id, tenant, session_id, kind, model_id, sampler_id, CASE WHEN model_id IS NULL THEN NULL ELSE seq END AS seq,
  fingerprint, state, payload_type, draws, result_type, position, tokens, accepted_at, started_at, finished_at, retrieved_at`;
const columns = `${plain}, payload, result`;

const typed = (row: RequestRow): RequestRow => ({
  ...row,
  payload: bytesOf(row.payload),
  result: bytesOf(row.result),
});

export function getRequest(sql: Sql, id: number): RequestRow | undefined {
  const row = sql.get<RequestRow>(`SELECT ${columns} FROM requests WHERE id = ?`, id);
  return row && typed(row);
}

export interface KnownRequest {
  readonly id: number;
  readonly fingerprint: string;
}

/** The stored request with this seq_id in its model or sampling session. */
export const findRequest = (sql: Sql, of: "model_id" | "sampler_id", id: string, seq: number | bigint) =>
  sql.get<KnownRequest>(`SELECT id, fingerprint FROM requests WHERE ${of} = ? AND seq = ?`, id, seq);

/** seq_ids per client of a sampling session, as the protocol defines. */
export const seqsPerClient = 1_000_000_000n;

/** The finished samples of one client of a sampling session whose results were not retrieved. */
export const finishedSamples = (
  sql: Sql,
  { samplerId, client }: { readonly samplerId: string; readonly client: number },
): { id: number; state: "done" | "failed"; bytes: number }[] =>
  sql.all(
    `SELECT id, state, LENGTH(result) AS bytes FROM requests
     WHERE sampler_id = ? AND seq >= ? AND seq < ? AND state <> 'pending' AND result IS NOT NULL AND retrieved_at IS NULL
     ORDER BY finished_at, id`,
    samplerId,
    BigInt(client) * seqsPerClient,
    (BigInt(client) + 1n) * seqsPerClient,
  );

/** A request without its payload and result. */
export type RequestHead = Omit<RequestRow, "payload" | "result"> & {
  readonly payload_bytes: number;
  /** How often a process crashed or was killed while it ran this request. */
  readonly starts: number;
};

/** The unfinished requests, without payloads: together they may exceed the memory. */
export const pendingRequests = (sql: Sql): RequestHead[] =>
  sql.all<RequestHead>(
    `SELECT ${plain}, starts, COALESCE(LENGTH(payload), 0) AS payload_bytes FROM requests WHERE state = 'pending' ORDER BY id`,
  );

/** Counts a crash for these requests, except those that have finished. */
export function countDeaths(sql: Sql, ids: Iterable<number>): void {
  for (const id of ids) sql.run("UPDATE requests SET starts = starts + 1 WHERE id = ? AND state = 'pending'", id);
}

/**
 * The finished requests of a model after position `after`, in order of execution. They are read one at a time, because together they may
 * exceed the memory.
 */
export function* replayRequests(sql: Sql, modelId: string, after: number): Iterable<RequestRow> {
  const ids = sql.all<{ id: number }>(
    `SELECT id FROM requests WHERE model_id = ? AND position > ? AND payload IS NOT NULL AND state = 'done' ORDER BY position`,
    modelId,
    after,
  );
  for (const { id } of ids) yield getRequest(sql, id)!;
}

/** The seq_ids of a model from `next` that have finished or were rejected. */
export const finishedSeqs = (sql: Sql, modelId: string, next: number): number[] =>
  sql
    .all<{ seq: number }>(
      "SELECT seq FROM requests WHERE model_id = ? AND seq >= ? AND state <> 'pending'",
      modelId,
      next,
    )
    .map(({ seq }) => seq);

/** A request in a trace. */
export interface TraceRow {
  readonly id: number;
  readonly kind: string;
  readonly owner: string | null;
  readonly state: string;
  readonly tokens: number;
  readonly accepted_at: number;
  readonly started_at: number | null;
  readonly finished_at: number | null;
}

/** A page of a session's requests after request `after`. */
export const tracePage = (sql: Sql, sessionId: string, after: number, limit: number): TraceRow[] =>
  sql.all<TraceRow>(
    `SELECT id, kind, COALESCE(model_id, sampler_id) AS owner, state, tokens, accepted_at, started_at, finished_at
     FROM requests WHERE session_id = ? AND id > ? ORDER BY id LIMIT ?`,
    sessionId,
    after,
    limit,
  );

/** Stores that results were retrieved. */
export function storeRetrieved(sql: Sql, ids: Iterable<number>, now: number): void {
  for (const id of ids) {
    sql.run("UPDATE requests SET retrieved_at = ? WHERE id = ? AND retrieved_at IS NULL", now, id);
  }
}

export interface Finish {
  readonly id: number;
  readonly state: "done" | "failed";
  readonly result: Uint8Array;
  readonly resultType: PayloadType;
  /** Keep the payload, because the request runs again when its model is restored. */
  readonly keepPayload: boolean;
  readonly position: number | null;
  readonly startedAt: number;
  readonly finishedAt: number;
}

export function finishRequest(sql: Sql, finish: Finish): void {
  sql.run(
    `UPDATE requests SET state = ?, result = ?, result_type = ?, position = ?, started_at = ?, finished_at = ?,
       payload = CASE WHEN ? THEN payload ELSE NULL END WHERE id = ?`,
    finish.state,
    finish.result,
    finish.resultType,
    finish.position,
    finish.startedAt,
    finish.finishedAt,
    finish.keepPayload ? 1 : 0,
    finish.id,
  );
}

const day = 86_400_000;

/**
 * Deletes expired results: one day after they were retrieved, or seven days after they were stored; at most `limit` of each, found by
 * index. Returns the larger of the two numbers.
 */
export function expireResults(sql: Sql, now: number, limit: number): number {
  const made = sql.run(
    `UPDATE requests SET result = NULL
     WHERE id IN (SELECT id FROM requests WHERE result IS NOT NULL AND finished_at < ? ORDER BY finished_at LIMIT ?)`,
    now - 7 * day,
    limit,
  );
  const fetched = sql.run(
    `UPDATE requests SET result = NULL
     WHERE id IN (SELECT id FROM requests WHERE result IS NOT NULL AND retrieved_at IS NOT NULL AND retrieved_at < ? LIMIT ?)`,
    now - day,
    limit,
  );
  return Math.max(made.changes, fetched.changes);
}

/**
 * Deletes the rows after id `after` whose result has expired; examines at most `limit` rows. A row is kept while a replay needs its payload,
 * or while its seq_id is not below `next_seq` of its model.
 *
 * @returns the last examined id, or `undefined` at the end of the table.
 */
export function deleteSpent(sql: Sql, after: number, limit: number): number | undefined {
  const rows = sql.all<{ id: number }>(
    `SELECT id FROM requests WHERE result IS NULL AND payload IS NULL AND finished_at IS NOT NULL AND id > ? ORDER BY id LIMIT ?`,
    after,
    limit,
  );
  for (const { id } of rows) {
    sql.run(
      `DELETE FROM requests WHERE id = ?
         AND (model_id IS NULL OR seq IS NULL OR seq < (SELECT next_seq FROM models WHERE id = requests.model_id))`,
      id,
    );
  }
  return rows.length < limit ? undefined : rows.at(-1)!.id;
}

/** The latest failed requests of a model, with their errors. */
export function failedRequests(
  sql: Sql,
  modelId: string,
  limit: number,
): { readonly kind: string; readonly refused: boolean; readonly finishedAt: number; readonly error: string }[] {
  const rows = sql.all<{ kind: string; refused: number; finished_at: number; result: unknown }>(
    `SELECT kind, fingerprint LIKE 'refused %' AS refused, finished_at, result FROM requests
     WHERE model_id = ? AND state = 'failed' AND result IS NOT NULL AND finished_at IS NOT NULL ORDER BY id DESC LIMIT ?`,
    modelId,
    limit,
  );
  return rows.map(({ kind, refused, finished_at, result }) => {
    const { error } = JSON.parse(new TextDecoder().decode(bytesOf(result))) as { error?: string };
    return { kind, refused: refused !== 0, finishedAt: finished_at, error: error ?? "" };
  });
}
