/**
 * The priority of the engine's threads. They use every core for as long as a step takes; whoever waits for an answer, a token or a page
 * shares these cores with them, and must not wait for the end of a scheduler's slice, or for a collector's helper that does.
 */
import { constants, getPriority, setPriority } from "node:os";

/**
 * Lets others go before the thread that calls this and before all that it starts. Does nothing but on Linux, where a thread has a
 * priority of its own; elsewhere it would be the whole program's.
 */
export function lowerThreadPriority(): void {
  if (process.platform !== "linux") return;
  try {
    const { PRIORITY_BELOW_NORMAL: below, PRIORITY_LOW: lowest } = constants.priority;
    setPriority(0, Math.min(getPriority(0) + below, lowest));
  } catch {
    // a sandbox that forbids it: slower to answer, and nothing else
  }
}
