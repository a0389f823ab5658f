/**
 * Deletes runs from the database, by name or by age, with their data, or only the checkpoints that loops saved on the way to a final one.
 * Published checkpoints stay, and with them the row of their run; runs with unfinished requests are not changed. Only for a store that no
 * server uses, because a server may have the models in memory.
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
import { releaseEnded } from "./tables/retention.ts";
import { dropSampler } from "./tables/sessions.ts";
import { addAudit } from "./tables/usage.ts";

/**
 * What to delete: one run, by id or name; the runs and samplers that were not used since a time; or, with `steps`, what no longer serves
 * anything: checkpoints of steps of runs that have a final one, and the leftovers of ended sessions.
 */
export type PrunedRows = { readonly run: string } | { readonly unusedSince: number } | { readonly steps: true };

/** A checkpoint of a step that is deleted. */
export interface PrunedStep {
  readonly runId: string;
  /** Absent for a run without a name. */
  readonly runName?: string;
  readonly checkpoint: string;
  /** 2 for training state and sampler weights. */
  readonly files: number;
}

/** A run that is deleted, or of which only the published checkpoints stay. */
export interface PrunedRun {
  readonly runId: string;
  /** Absent for a run without a name. */
  readonly name?: string;
  readonly lastUsedAt: number;
  /** Number of deleted checkpoints. */
  readonly checkpoints: number;
  /** Number of published checkpoints, which stay. */
  readonly published: number;
}

export interface PruneOutcome {
  readonly runs: readonly PrunedRun[];
  /** Checkpoints of steps; only with `steps`. */
  readonly steps: readonly PrunedStep[];
  /** Number of deleted unnamed samplers, with their weights. */
  readonly samplers: number;
  /** Number of deleted states of models whose session has ended; only with `steps`. */
  readonly states: number;
  /** Runs that stay because they have unfinished requests. */
  readonly busy: readonly string[];
  /** Freed bytes: folders that are no longer used, and requests. */
  readonly bytes: number;
}

/** Deletes rows within a transaction; `collect` of the store then removes the folders. */
export function pruneRows(sql: Sql, which: PrunedRows, now: number): PruneOutcome {
  if ("steps" in which) {
    const steps = pruneSteps(sql, now);
    const { samplers, states } = releaseEnded(sql, now, () => false, Number.MAX_SAFE_INTEGER);
    return { runs: [], steps, samplers, states, busy: [], bytes: unusedBytes(sql) };
  }
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
  return { runs, steps: [], samplers, states: 0, busy, bytes: requestBytes + unusedBytes(sql) };
}

/** The condition for one run of a folder, by its id, or by its name if only one tenant has a run with it. Three times the same parameter. */
const isRun = "(id = ? OR name = ? AND (SELECT COUNT(DISTINCT tenant) FROM models WHERE name = ?) = 1)";

export const hasRun = (sql: Sql, run: string): boolean =>
  sql.get(`SELECT 1 FROM models WHERE ${isRun}`, run, run, run) !== undefined;

/**
 * Deletes the checkpoints that loops save on the way (`000020`) of runs that have a later `final` one. Checkpoints with any other name stay, and
 * so do published ones, those that a sampler reads, and those of a run whose session may still train. Steps after the final one belong to a run
 * that was continued under the same name: they may be all that is left of it.
 */
function pruneSteps(sql: Sql, now: number): PrunedStep[] {
  const rows = sql.all<CheckpointRow & { readonly run_name: string | null }>(
    `SELECT checkpoints.*, models.name AS run_name FROM checkpoints JOIN models ON models.id = run_id
       JOIN sessions ON sessions.id = models.session_id
     WHERE checkpoints.name GLOB '[0-9][0-9][0-9][0-9][0-9][0-9]' AND public = 0 AND kind <> 'external_weights'
       AND (sessions.finished_at IS NOT NULL OR COALESCE(sessions.seen_at, sessions.created_at) < ?)
       AND NOT EXISTS (SELECT 1 FROM samplers WHERE samplers.files_id = checkpoints.files_id)
       AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.model_id = run_id AND state = 'pending')
       AND EXISTS (SELECT 1 FROM models AS other JOIN checkpoints AS last ON last.run_id = other.id
         WHERE other.tenant = models.tenant AND (other.id = models.id OR other.name = models.name) AND last.name = 'final'
           AND last.kind = checkpoints.kind AND last.created_at >= checkpoints.created_at)
     ORDER BY run_id, checkpoints.name`,
    now - endedSessionMs,
  );
  const steps = new Map<string, PrunedStep>();
  for (const row of rows) {
    const { run_id: runId, name: checkpoint, run_name: runName, tenant } = row;
    changeCheckpoint(sql, row, "delete");
    addAudit(sql, { at: now, tenant, event: "checkpoint_deleted", modelId: runId, tinkerPath: tinkerPath(row) });
    const key = `${runId}/${checkpoint}`;
    const files = (steps.get(key)?.files ?? 0) + 1;
    steps.set(key, { runId, checkpoint, files, ...(runName === null ? {} : { runName }) });
  }
  return [...steps.values()];
}

/** Time without a request after which a session that its client did not finish is not expected to train on. */
const endedSessionMs = 86_400_000;

function chosenModels(sql: Sql, which: Exclude<PrunedRows, { readonly steps: true }>, now: number): ModelRow[] {
  if ("run" in which) return sql.all<ModelRow>(`SELECT * FROM models WHERE ${isRun}`, which.run, which.run, which.run);
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
  const name = model.name === null ? {} : { name: model.name };
  return { runId, ...name, lastUsedAt, checkpoints: gone.length, published };
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
