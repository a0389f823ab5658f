/** What is done once a minute: expire, forget, unload. Nothing here is needed for a request to finish. */
import type { Clock } from "tinklet";
import type { Presence } from "./http/api.ts";
import type { Limits } from "./limits.ts";
import type { Log } from "./log.ts";
import type { Queue } from "./queue/queue.ts";
import { type CheckpointRow, tinkerPath } from "./store/models.ts";
import { addAudit } from "./store/requests.ts";
import type { Store } from "./store/store.ts";

interface SweepParts {
  readonly store: Store;
  readonly queue: Queue;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly presence: Presence;
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

export async function sweepOnce({ store, queue, clock, log, limits, presence }: SweepParts): Promise<void> {
  const now = clock.now();
  const expired = await store.db.write((sql) => {
    const rows = sql.all<CheckpointRow>(
      "SELECT * FROM checkpoints WHERE expires_at IS NOT NULL AND expires_at <= ?",
      now,
    );
    for (const row of rows) {
      sql.run("DELETE FROM checkpoints WHERE run_id = ? AND kind = ? AND name = ?", row.run_id, row.kind, row.name);
      const path = tinkerPath(row);
      addAudit(sql, {
        at: now,
        tenant: row.tenant,
        event: "checkpoint_expired",
        modelId: row.run_id,
        tinkerPath: path,
      });
    }
    // Weights that were saved without a name live as long as their session does.
    const unnamed = sql.all<{ id: string; session_id: string; finished_at: number | null }>(
      `SELECT samplers.id, samplers.session_id, sessions.finished_at FROM samplers JOIN sessions ON sessions.id = samplers.session_id
       WHERE samplers.files_id IS NOT NULL AND samplers.model_path IS NULL
         AND NOT EXISTS (SELECT 1 FROM requests WHERE sampler_id = samplers.id AND state = 'pending')`,
    );
    for (const { id, session_id: session, finished_at: finished } of unnamed) {
      const silentSince = Math.min(presence.lastSeen(session), finished ?? Infinity);
      if (now - silentSince > limits.samplerTtlMs) sql.run("DELETE FROM samplers WHERE id = ?", id);
    }
    return rows.length;
  });
  if (expired > 0) log.info("checkpoints.expired", { count: expired });
  await queue.sweep();
  for (const lane of queue.lanes.values()) {
    const evicted = await lane.evictIdle((runner) => {
      const heard = Math.max(presence.lastSeen(runner.sessionId), runner.lastUsedAt);
      return now - heard > limits.staleSessionMs;
    });
    if (evicted > 0) log.info("models.unloaded", { count: evicted, reason: "their sessions fell silent" });
  }
  await store.collect();
}
