/**
 * Lowers the priority of the engine's threads (Linux only). They use every core for the length of a step; at a lower priority, the server's
 * threads answer requests without waiting for a scheduler slice.
 */
import { constants, getPriority, setPriority } from "node:os";

/**
 * Lowers the priority of the calling thread and of the threads that it starts later. Linux only: on other systems the priority belongs to
 * the whole process.
 */
export function lowerThreadPriority(): void {
  if (process.platform !== "linux") return;
  try {
    const { PRIORITY_BELOW_NORMAL: below, PRIORITY_LOW: lowest } = constants.priority;
    setPriority(0, Math.min(getPriority(0) + below, lowest));
  } catch {
    // not permitted in this sandbox: answers may be slower, results are equal
  }
}
