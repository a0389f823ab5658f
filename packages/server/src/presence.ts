/** When each session was last heard of. In memory only: after a restart every session counts as just seen. */
import type { Clock } from "tinklet";
import type { Presence } from "./http/api.ts";

const maxSessions = 100_000;

export function createPresence(clock: Clock): Presence {
  const startedAt = clock.now();
  const seen = new Map<string, number>();
  return {
    seen: (sessionId) => {
      seen.delete(sessionId);
      seen.set(sessionId, clock.now());
      if (seen.size > maxSessions) seen.delete(seen.keys().next().value!);
    },
    lastSeen: (sessionId) => seen.get(sessionId) ?? startedAt,
  };
}
