/**
 * Deletes runs from the database, by name or by age, with their data. Published checkpoints stay, and with them the row of their run; runs
 * with unfinished requests are not changed. Only for a store that no server uses, because a server may have the models in memory.
 */
import type { Sql } from "./database.ts";
import {
  type CheckpointRow,
  changeCheckpoint,
  deleteModel,
  importedBy,
  isBusy,
  type ModelRow,
  tinkerPath,
  unloadModel,
  unusedBytes,
} from "./tables/models.ts";
import { dropSampler } from "./tables/sessions.ts";
import { addAudit } from "./tables/usage.ts";

/** What to delete: one run, or the runs and samplers that were not used since a time. */
export type PrunedRows = { readonly run: string } | { readonly unusedSince: number };

/** A run that is deleted, or of which only the published checkpoints stay. */
export interface PrunedRun {
  readonly runId: string;
  readonly lastUsedAt: number;
  /** Number of deleted checkpoints. */
  readonly checkpoints: number;
  /** Number of published checkpoints, which stay. */
  readonly published: number;
}

export interface PruneOutcome {
  readonly runs: readonly PrunedRun[];
  /** Number of deleted unnamed samplers, with their weights. */
  readonly samplers: number;
  /** Runs that stay because they have unfinished requests. */
  readonly busy: readonly string[];
  /** Freed bytes: folders that are no longer used, and requests. */
  readonly bytes: number;
}

/** Deletes rows within a transaction; `collect` of the store then removes the folders. */
export function pruneRows(sql: Sql, which: PrunedRows, now: number): PruneOutcome {
  const runs: PrunedRun[] = [];
  const busy: string[] = [];
  let requestBytes = 0;
  for (const model of chosenModels(sql, which, now)) {
    if (isBusy(sql, model.id)) {
      busy.push(model.id);
      continue;
    }
    const kept = requestsOf(sql, model.id);
    const run = pruneRun(sql, model, kept.count > 0, now);
    if (run === undefined) continue;
    requestBytes += kept.bytes;
    runs.push(run);
  }
  const samplers = "run" in which ? 0 : pruneSamplers(sql, which.unusedSince);
  return { runs, samplers, busy, bytes: requestBytes + unusedBytes(sql) };
}

function chosenModels(sql: Sql, which: PrunedRows, now: number): ModelRow[] {
  if ("run" in which) return sql.all<ModelRow>("SELECT * FROM models WHERE id = ?", which.run);
  // An imported adapter expires by its own time to live, not by its age.
  return sql.all<ModelRow>(
    `SELECT models.* FROM models JOIN sessions ON sessions.id = session_id WHERE last_request_at < ?
       AND NOT (sdk_version = ? AND EXISTS (SELECT 1 FROM checkpoints WHERE run_id = models.id AND expires_at > ?))
     ORDER BY last_request_at, models.id`,
    which.unusedSince,
    importedBy,
    now,
  );
}

const requestsOf = (sql: Sql, run: string): { readonly count: number; readonly bytes: number } =>
  sql.get<{ count: number; bytes: number }>(
    `SELECT COUNT(*) AS count, COALESCE(SUM(COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(result), 0)), 0) AS bytes
     FROM requests WHERE model_id = ?`,
    run,
  )!;

/** @returns `undefined` when only published checkpoints are left of the run. */
function pruneRun(sql: Sql, model: ModelRow, hasRequests: boolean, now: number): PrunedRun | undefined {
  const { id: runId, tenant, last_request_at: lastUsedAt } = model;
  const all = sql.all<CheckpointRow>("SELECT * FROM checkpoints WHERE run_id = ?", runId);
  const gone = all.filter((row) => row.public === 0);
  const published = all.length - gone.length;
  if (published > 0 && gone.length === 0 && model.snapshot_files === null && !hasRequests) return undefined;
  if (published === 0) {
    deleteModel(sql, runId);
    addAudit(sql, { at: now, tenant, event: "run_deleted", modelId: runId });
  } else {
    for (const row of gone) {
      changeCheckpoint(sql, row, "delete");
      addAudit(sql, { at: now, tenant, event: "checkpoint_deleted", modelId: runId, tinkerPath: tinkerPath(row) });
    }
    unloadModel(sql, runId);
  }
  sql.run("DELETE FROM requests WHERE model_id = ?", runId);
  for (const { files_id } of gone) dropReaders(sql, files_id);
  return { runId, lastUsedAt, checkpoints: gone.length, published };
}

/** Deletes samplers whose checkpoint was deleted, as a running server does. A sampler with a pending request stays. */
function dropReaders(sql: Sql, filesId: string): void {
  const readers = sql.all<{ id: string }>(
    `SELECT id FROM samplers WHERE files_id = ? AND model_path IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.files_id = samplers.files_id)`,
    filesId,
  );
  for (const { id } of readers) dropSampler(sql, id);
}

/** Deletes unnamed samplers whose session had no request since that time. */
function pruneSamplers(sql: Sql, unusedSince: number): number {
  return sql.run(
    `DELETE FROM samplers WHERE files_id IS NOT NULL AND model_path IS NULL AND created_at < ?
       AND EXISTS (SELECT 1 FROM sessions WHERE id = session_id AND COALESCE(seen_at, sessions.created_at) < ?)
       AND NOT EXISTS (SELECT 1 FROM requests WHERE sampler_id = samplers.id AND state = 'pending')`,
    unusedSince,
    unusedSince,
  ).changes;
}
