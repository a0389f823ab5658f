/**
 * When each session was last heard of. Kept in memory and handed to the store once a minute, so that a restart neither forgets how long
 * a session has been silent nor takes its own absence for the client's.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { SessionActivity } from "./http/api.ts";

const maxSessions = 100_000;

/** A presence whose news can be taken out, to be stored. */
export interface StoredSessionActivity extends SessionActivity {
  readonly startedAt: number;
  /** What was heard since the last time, and not stored yet. */
  news(): readonly (readonly [id: string, at: number])[];
}

export function createSessionActivity(clock: Clock): StoredSessionActivity {
  const startedAt = clock.now();
  const seen = new Map<string, number>();
  let fresh = new Map<string, number>();
  return {
    startedAt,
    seen: (sessionId) => {
      const now = clock.now();
      seen.delete(sessionId);
      seen.set(sessionId, now);
      if (fresh.size < maxSessions) fresh.set(sessionId, now);
      if (seen.size > maxSessions) seen.delete(seen.keys().next().value!);
    },
    lastSeen: (sessionId) => seen.get(sessionId) ?? startedAt,
    heard: (sessionId) => seen.get(sessionId),
    news: () => {
      const news = [...fresh];
      fresh = new Map();
      return news;
    },
  };
}
