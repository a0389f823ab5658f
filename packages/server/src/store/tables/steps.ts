/**
 * Rows of `steps`: loss, tokens and times of each optimizer step, for the loss curve of a run. Stored in the transaction of the step's
 * result. When a run has too many rows, every other one is deleted.
 */
import type { Sql } from "../database.ts";

export interface StepRow {
  readonly id: number;
  readonly model_id: string;
  readonly session_id: string;
  readonly tenant: string;
  /** Starts at 1. */
  readonly step: number;
  readonly at: number;
  /** Since the start of the run. */
  readonly tokens: number;
  readonly loss: number | null;
  readonly gradient_norm: number | null;
  readonly learning_rate: number | null;
  readonly queue_ms: number;
  readonly compute_ms: number;
}

/** A step to be stored; its number and its total of tokens are computed from the previous step. */
export type NewStep = Omit<StepRow, "id" | "step" | "tokens"> & {
  /** Of this step only. */
  readonly tokens: number;
};

/** The rows of a run are counted every so many steps. */
const countEvery = 256;

/** @param keep - maximum number of rows per run. */
export function addStep(sql: Sql, step: NewStep, keep: number): StepRow {
  const last = lastStep(sql, step.model_id);
  const row = { ...step, step: (last?.step ?? 0) + 1, tokens: (last?.tokens ?? 0) + step.tokens };
  const { lastInsertRowid: id } = sql.run(
    `INSERT INTO steps (model_id, session_id, tenant, step, at, tokens, loss, gradient_norm, learning_rate, queue_ms, compute_ms)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    row.model_id,
    row.session_id,
    row.tenant,
    row.step,
    row.at,
    row.tokens,
    row.loss,
    row.gradient_norm,
    row.learning_rate,
    row.queue_ms,
    row.compute_ms,
  );
  if (row.step % Math.min(countEvery, keep) === 0) thin(sql, row.model_id, keep);
  return { ...row, id: Number(id) };
}

function thin(sql: Sql, modelId: string, keep: number): void {
  const { n } = sql.get<{ n: number }>("SELECT COUNT(*) AS n FROM steps WHERE model_id = ?", modelId)!;
  if (n <= keep) return;
  sql.run(
    `DELETE FROM steps WHERE id IN (
       SELECT id FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS place FROM steps WHERE model_id = ?)
       WHERE place % 2 = 0)`,
    modelId,
  );
}

export const lastStep = (sql: Sql, modelId: string): StepRow | undefined =>
  sql.get<StepRow>("SELECT * FROM steps WHERE model_id = ? ORDER BY id DESC LIMIT 1", modelId);

/** A run's steps after step `after`, oldest first. */
export const stepsAfter = (sql: Sql, modelId: string, after: number, limit: number): StepRow[] =>
  sql.all<StepRow>("SELECT * FROM steps WHERE model_id = ? AND step > ? ORDER BY id LIMIT ?", modelId, after, limit);

/** A tenant's steps after an id, oldest first. */
export const tenantStepsAfter = (sql: Sql, tenant: string, after: number, limit: number): StepRow[] =>
  sql.all<StepRow>("SELECT * FROM steps WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?", tenant, after, limit);

/** The id of the latest step of all runs. */
export const latestStepId = (sql: Sql): number =>
  sql.get<{ id: number | null }>("SELECT MAX(id) AS id FROM steps")?.id ?? 0;

/** The loss of a run, sampled at even intervals to at most `count` values. */
export function lossOutline(sql: Sql, modelId: string, count: number): number[] {
  const { n } = sql.get<{ n: number }>("SELECT COUNT(*) AS n FROM steps WHERE model_id = ?", modelId)!;
  const every = Math.max(1, Math.ceil(n / count));
  return sql
    .all<{ loss: number | null }>(
      `SELECT loss FROM (SELECT loss, ROW_NUMBER() OVER (ORDER BY id DESC) AS place FROM steps WHERE model_id = ?)
       WHERE (place - 1) % ? = 0 AND loss IS NOT NULL ORDER BY place DESC`,
      modelId,
      every,
    )
    .map(({ loss }) => loss!);
}
