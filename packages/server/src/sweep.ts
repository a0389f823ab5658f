/** Maintenance once a minute: expires checkpoints and sessions, deletes samplers, unloads idle models. No request waits for it. */
import type { Clock } from "@tinklet/wire/clock";
import type { Limits } from "./limits.ts";
import type { Log } from "./log.ts";
import type { Queue } from "./queue/queue.ts";
import { readable } from "./queue/training/checkpoint-jobs.ts";
import type { StoredSessionActivity } from "./session-activity.ts";
import type { Store } from "./store/store.ts";
import { expireCheckpoints, tinkerPath } from "./store/tables/models.ts";
import { expireResponses } from "./store/tables/responses.ts";
import { releaseEnded } from "./store/tables/retention.ts";
import {
  dropSampler,
  expireSessions,
  getSession,
  type HeldSampler,
  heldSamplers,
  storeSeen,
} from "./store/tables/sessions.ts";
import { expireTraces } from "./store/tables/traces.ts";
import { addAudit } from "./store/tables/usage.ts";

interface SweepParts {
  readonly store: Store;
  readonly queue: Queue;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly sessionActivity: StoredSessionActivity;
}

const everyMs = 60_000;

/** Starts sweeping; returns a function that stops it. */
export function sweep(parts: SweepParts): () => void {
  const { clock, log } = parts;
  let stop: () => void = () => {};
  let stopped = false;
  const again = () => {
    stop = clock.timer(everyMs, () => {
      void sweepOnce(parts)
        .catch((error: unknown) => log.warn("sweep.failed", { error: String(error) }))
        .finally(() => {
          if (!stopped) again();
        });
    });
  };
  again();
  return () => {
    stopped = true;
    stop();
  };
}

/** Rows per transaction; other writers run between two transactions. */
const batch = 200;
/** Time after a start during which no session or sampler expires, so that clients can reconnect. */
const graceMs = 3_600_000;

/** Repeats `work` until it handles less than a full batch. Returns the total. */
async function inBatches(work: () => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const done = await work();
    total += done;
    if (done < batch) return total;
  }
}

export async function sweepOnce(parts: SweepParts): Promise<void> {
  const { store, queue, clock, log, limits, sessionActivity } = parts;
  const now = clock.now();
  const changes = sessionActivity.takeChanges();
  const expired = await inBatches(() =>
    store.db.write((sql) => {
      const rows = expireCheckpoints(sql, now, batch);
      for (const row of rows) {
        const { tenant, run_id: modelId } = row;
        addAudit(sql, { at: now, tenant, event: "checkpoint_expired", modelId, tinkerPath: tinkerPath(row) });
      }
      return rows.length;
    }),
  );
  if (expired > 0) log.info("checkpoints.expired", { count: expired });
  await store.db.write((sql) => expireResponses(sql, now));
  const old = await inBatches(() => store.db.write((sql) => expireTraces(sql, now - limits.traceTtlMs, batch).count));
  if (old > 0) log.info("traces.expired", { count: old });
  await queue.sweep();
  for (let at = 0; at < changes.length; at += batch) {
    await store.db.write((sql) => storeSeen(sql, changes.slice(at, at + batch)));
  }
  await dropSamplers(parts, now);
  if (now - sessionActivity.startedAt >= Math.min(graceMs, limits.sessionTtlMs)) {
    const silent = await inBatches(() =>
      store.db.write((sql) => expireSessions(sql, now - limits.sessionTtlMs, batch)),
    );
    if (silent > 0) log.info("sessions.expired", { count: silent });
  }
  const isFinished = (id: string) => (getSession(store.db.sql, id)?.finished_at ?? null) !== null;
  for (const engineQueue of queue.engineQueues.values()) {
    const evicted = await engineQueue.evictIdle((runner) => {
      const heard = Math.max(sessionActivity.lastSeen(runner.sessionId), runner.lastUsedAt);
      return now - heard > limits.staleSessionMs || isFinished(runner.sessionId);
    });
    if (evicted > 0) log.info("models.unloaded", { count: evicted, reason: "their sessions are idle or finished" });
  }
  const isLoaded = (id: string) => [...queue.engineQueues.values()].some(({ runners }) => runners.has(id));
  await releaseLeftovers({ ...parts, isLoaded });
}

/** Deletes what ended sessions leave behind, and the folders that are not used any more. */
export async function releaseLeftovers(
  parts: Pick<SweepParts, "store" | "clock" | "log"> & { readonly isLoaded: (modelId: string) => boolean },
): Promise<void> {
  const { store, clock, log, isLoaded } = parts;
  const released = await store.db.write((sql) => releaseEnded(sql, clock.now(), isLoaded));
  if (released.samplers + released.states > 0) log.info("sessions.released", { ...released });
  await store.collect();
}

/** Deletes samplers whose session is idle or finished for too long, or whose checkpoint the tenant may no longer read. */
async function dropSamplers({ store, limits, sessionActivity }: SweepParts, now: number): Promise<void> {
  const { sql } = store.db;
  const isOver = (sampler: HeldSampler): boolean => {
    const path = sampler.model_path;
    if (path !== null && readable(sql, path, [sampler.tenant], now) === undefined) return true;
    const heard = sessionActivity.heard(sampler.session_id) ?? sampler.silent_since;
    const silentSince = Math.min(heard, sampler.finished_at ?? Infinity);
    const waited = now - sessionActivity.startedAt > Math.min(graceMs, limits.samplerTtlMs);
    return waited && now - silentSince > limits.samplerTtlMs;
  };
  for (let after = ""; ; ) {
    const page = heldSamplers(sql, after, batch);
    const over = page.filter(isOver).map(({ id }) => id);
    if (over.length > 0) await store.db.write((tx) => over.forEach((id) => void dropSampler(tx, id)));
    if (page.length < batch) return;
    after = page.at(-1)!.id;
  }
}
