/** Rows of `sessions` and `samplers`. */
import { stringifyJson } from "@tinklet/wire";
import type { Sql } from "../database.ts";

export interface SessionRow {
  readonly id: string;
  readonly tenant: string;
  readonly tags: string;
  readonly user_metadata: string;
  readonly sdk_version: string;
  readonly project_id: string | null;
  readonly display_name: string | null;
  readonly created_at: number;
  readonly finished_at: number | null;
  readonly finish_reason: string | null;
  readonly seen_at: number | null;
}

export interface SamplerRow {
  readonly id: string;
  readonly session_id: string;
  readonly tenant: string;
  readonly sampler_seq: number;
  readonly base_model: string;
  readonly model_path: string | null;
  readonly files_id: string | null;
  readonly clients: number;
  readonly created_at: number;
}

/** A new session. */
export interface NewSession {
  readonly id: string;
  readonly tenant: string;
  /** The client's key for this call: a retry with the same key returns the same session. */
  readonly idempotencyKey: string | undefined;
  readonly tags: readonly string[];
  readonly userMetadata: unknown;
  readonly sdkVersion: string;
  readonly projectId: string | undefined;
  readonly displayName: string | undefined;
  readonly now: number;
}

/** Inserts a session, or returns the id of the one with the same idempotency key. */
export function addSession(sql: Sql, session: NewSession): string {
  if (session.idempotencyKey !== undefined) {
    const found = sql.get<{ id: string }>(
      "SELECT id FROM sessions WHERE tenant = ? AND idempotency_key = ?",
      session.tenant,
      session.idempotencyKey,
    );
    if (found !== undefined) return found.id;
  }
  sql.run(
    `INSERT INTO sessions (id, tenant, idempotency_key, tags, user_metadata, sdk_version, project_id, display_name, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    session.id,
    session.tenant,
    session.idempotencyKey ?? null,
    JSON.stringify(session.tags),
    stringifyJson(session.userMetadata ?? {}),
    session.sdkVersion,
    session.projectId ?? null,
    session.displayName ?? null,
    session.now,
  );
  return session.id;
}

export const getSession = (sql: Sql, id: string): SessionRow | undefined =>
  sql.get<SessionRow>("SELECT * FROM sessions WHERE id = ?", id);

export const listSessionIds = (sql: Sql, tenant: string, limit: number, offset: number): string[] =>
  sql
    .all<{ id: string }>(
      "SELECT id FROM sessions WHERE tenant = ? ORDER BY created_at DESC, id LIMIT ? OFFSET ?",
      tenant,
      limit,
      offset,
    )
    .map(({ id }) => id);

/** Ids of a session's models or samplers, in order of creation. */
export const sessionMembers = (sql: Sql, table: "models" | "samplers", sessionId: string): string[] =>
  sql
    .all<{ id: string }>(`SELECT id FROM ${table} WHERE session_id = ? ORDER BY created_at, id`, sessionId)
    .map(({ id }) => id);

export const setProject = (sql: Sql, sessionId: string, projectId: string | null): void =>
  void sql.run("UPDATE sessions SET project_id = ? WHERE id = ?", projectId, sessionId);

/** Finishes a session; keeps the first reason if it is finished already. */
export const finishSession = (sql: Sql, sessionId: string, reason: string, now: number): void =>
  void sql.run(
    "UPDATE sessions SET finished_at = ?, finish_reason = ? WHERE id = ? AND finished_at IS NULL",
    now,
    reason,
    sessionId,
  );

/** Adds a client to a sampler; returns the client's number. */
export function joinSampler(sql: Sql, id: string): number {
  sql.run("UPDATE samplers SET clients = clients + 1 WHERE id = ?", id);
  return sql.get<{ clients: number }>("SELECT clients FROM samplers WHERE id = ?", id)!.clients;
}

/** A tenant's sessions before a position, newest first. */
export const sessionsBefore = (
  sql: Sql,
  tenant: string,
  before: { readonly createdAt: number; readonly id: string },
  limit: number,
): SessionRow[] =>
  sql.all<SessionRow>(
    `SELECT * FROM sessions WHERE tenant = ? AND (created_at < ? OR (created_at = ? AND id < ?))
     ORDER BY created_at DESC, id DESC LIMIT ?`,
    tenant,
    before.createdAt,
    before.createdAt,
    before.id,
    limit,
  );

export const getSampler = (sql: Sql, id: string): SamplerRow | undefined =>
  sql.get<SamplerRow>("SELECT * FROM samplers WHERE id = ?", id);

export const samplerBySeq = (sql: Sql, sessionId: string, seq: number): SamplerRow | undefined =>
  sql.get<SamplerRow>("SELECT * FROM samplers WHERE session_id = ? AND sampler_seq = ?", sessionId, seq);

/** The number that the client chose if it is free, else one from 1,000,000, which clients do not use. */
export function freeSamplerSeq(sql: Sql, sessionId: string, wanted: number | undefined): number {
  if (wanted !== undefined && wanted >= 0 && samplerBySeq(sql, sessionId, wanted) === undefined) return wanted;
  const highest = sql.get<{ top: number | null }>(
    "SELECT MAX(sampler_seq) AS top FROM samplers WHERE session_id = ?",
    sessionId,
  );
  return Math.max(1_000_000, (highest?.top ?? 0) + 1);
}

export function addSampler(sql: Sql, sampler: Omit<SamplerRow, "clients">): void {
  sql.run(
    `INSERT INTO samplers (id, session_id, tenant, sampler_seq, base_model, model_path, files_id, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    sampler.id,
    sampler.session_id,
    sampler.tenant,
    sampler.sampler_seq,
    sampler.base_model,
    sampler.model_path,
    sampler.files_id,
    sampler.created_at,
  );
}

/** Stores the times of the sessions' last requests. */
export function storeSeen(sql: Sql, seen: Iterable<readonly [id: string, at: number]>): void {
  for (const [id, at] of seen) sql.run("UPDATE sessions SET seen_at = ? WHERE id = ?", at, id);
}

/** A sampler with files, and the stored time of its session's last request. */
export interface HeldSampler {
  readonly id: string;
  readonly tenant: string;
  readonly session_id: string;
  readonly model_path: string | null;
  readonly silent_since: number;
  readonly finished_at: number | null;
}

/** A page of the samplers with files and without a pending request, ordered by id. */
export const heldSamplers = (sql: Sql, after: string, limit: number): HeldSampler[] =>
  sql.all<HeldSampler>(
    `SELECT samplers.id, samplers.tenant, session_id, model_path, finished_at, COALESCE(seen_at, sessions.created_at) AS silent_since
     FROM samplers JOIN sessions ON sessions.id = session_id
     WHERE samplers.id > ? AND files_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM requests WHERE sampler_id = samplers.id AND state = 'pending')
     ORDER BY samplers.id LIMIT ?`,
    after,
    limit,
  );

/** Deletes a sampler unless it has a pending request. */
export const dropSampler = (sql: Sql, id: string): void =>
  void sql.run(
    "DELETE FROM samplers WHERE id = ? AND NOT EXISTS (SELECT 1 FROM requests WHERE sampler_id = ? AND state = 'pending')",
    id,
    id,
  );

/** Deletes sessions without a request since `before` that have no run, no checkpoint and no pending request. */
export function expireSessions(sql: Sql, before: number, limit: number): number {
  const over = sql.all<{ id: string }>(
    `SELECT id FROM sessions WHERE COALESCE(seen_at, created_at) < ?
       AND NOT EXISTS (SELECT 1 FROM models WHERE session_id = sessions.id)
       AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE session_id = sessions.id)
       AND NOT EXISTS (SELECT 1 FROM requests WHERE session_id = sessions.id AND state = 'pending')
     LIMIT ?`,
    before,
    limit,
  );
  for (const { id } of over) {
    sql.run("DELETE FROM samplers WHERE session_id = ?", id);
    sql.run("DELETE FROM custom_losses WHERE session_id = ?", id);
    sql.run("DELETE FROM sessions WHERE id = ?", id);
  }
  return over.length;
}
