/**
 * The time of each session's last request. Kept in memory and written to the store once a minute, so that after a restart the server knows
 * how long a session has been idle and does not count its own downtime.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { SessionActivity } from "./http/api.ts";

const maxSessions = 100_000;

/** Session activity with the changes that the store does not have yet. */
export interface StoredSessionActivity extends SessionActivity {
  readonly startedAt: number;
  /** Sessions with activity since the last call, with its time. */
  takeChanges(): readonly (readonly [id: string, at: number])[];
}

export function createSessionActivity(clock: Clock): StoredSessionActivity {
  const startedAt = clock.now();
  const seen = new Map<string, number>();
  let changed = new Map<string, number>();
  return {
    startedAt,
    seen: (sessionId) => {
      const now = clock.now();
      seen.delete(sessionId);
      seen.set(sessionId, now);
      if (changed.size < maxSessions) changed.set(sessionId, now);
      if (seen.size > maxSessions) seen.delete(seen.keys().next().value!);
    },
    lastSeen: (sessionId) => seen.get(sessionId) ?? startedAt,
    heard: (sessionId) => seen.get(sessionId),
    takeChanges: () => {
      const changes = [...changed];
      changed = new Map();
      return changes;
    },
  };
}
