/**
 * Deletes what ended sessions leave behind and no client can use any more: weights that were saved for sampling without a name, and the
 * states of their models, from which training would have resumed. Named checkpoints are never touched.
 */
import type { Limits } from "../../limits.ts";
import type { Sql } from "../database.ts";
import { unloadModel } from "./models.ts";

const day = 86_400_000;
/** A session that its client did not finish has ended for its samplers after this time without a request, also if no server ran. */
export const samplerSilenceMs = 7 * day;
/** The same for the states of its models. */
export const stateSilenceMs = 30 * day;

/** Rows per call of a server, which does other work meanwhile; the next call handles the rest. */
const batch = 1000;

const hasEnded = "(sessions.finished_at IS NOT NULL OR COALESCE(sessions.seen_at, sessions.created_at) < ?)";

/** What a call has deleted. */
export interface Released {
  readonly samplers: number;
  readonly states: number;
}

/**
 * Deletes the leftovers of ended sessions, except what pending requests need. A finished session accepts no request, so its samplers and models
 * cannot be used again.
 *
 * @param isLoaded - whether the engine has a model in memory: its state is written when it is evicted, so it is skipped
 * @param limit - maximum of samplers, and of models
 */
export function releaseEnded(
  sql: Sql,
  now: number,
  isLoaded: (modelId: string) => boolean,
  limit: number = batch,
): Released {
  const samplers = sql.run(
    `DELETE FROM samplers WHERE id IN (
       SELECT samplers.id FROM samplers JOIN sessions ON sessions.id = session_id
       WHERE files_id IS NOT NULL AND model_path IS NULL AND ${hasEnded}
         AND NOT EXISTS (SELECT 1 FROM requests WHERE sampler_id = samplers.id AND requests.state = 'pending') LIMIT ?)`,
    now - samplerSilenceMs,
    limit,
  ).changes;
  const models = sql
    .all<{ id: string }>(
      `SELECT models.id FROM models JOIN sessions ON sessions.id = session_id
       WHERE models.state = 'ready' AND ${hasEnded}
         AND NOT EXISTS (SELECT 1 FROM requests WHERE model_id = models.id AND requests.state = 'pending') LIMIT ?`,
      now - stateSilenceMs,
      limit,
    )
    .filter(({ id }) => !isLoaded(id));
  for (const { id } of models) unloadModel(sql, id);
  return { samplers, states: models.length };
}

/** What a server deletes by itself, and when, for people. */
export function retentionText({
  samplerTtlMs,
  traceTtlMs,
  spansPerTenant,
}: Pick<Limits, "samplerTtlMs" | "traceTtlMs" | "spansPerTenant">): string {
  const days = (ms: number) => `${Number((ms / day).toPrecision(2))} day${ms === day ? "" : "s"}`;
  return (
    "Deleted without being asked: weights saved for sampling without a name and training states when their session ends " +
    `(or after ${days(samplerTtlMs)} and ${days(stateSilenceMs)} without a request), fetched results after 1 day, traces ` +
    `after ${days(traceTtlMs)} or beyond ${Math.round(spansPerTenant.bytes / 2 ** 20)} MiB of a key. Checkpoints stay.`
  );
}
