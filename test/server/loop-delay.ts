/** How long a process's event loop was held up: what a poll or a heartbeat would have had to wait. */
import { readFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

/** Starts watching; the function returned tells the longest and the 99th percentile so far, in milliseconds. */
export function watchLoop(): () => { readonly maxMs: number; readonly p99Ms: number } {
  const resolution = 5;
  const watch = monitorEventLoopDelay({ resolution });
  watch.enable();
  // the histogram holds the time between two looks; what exceeds their distance is delay
  const delay = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - resolution);
  return () => ({ maxMs: delay(watch.max), p99Ms: delay(watch.percentile(99)) });
}

/** The longest turn of the loop since the last look: its own time, and what it waited for a core besides. */
export interface Turns {
  readonly turnMs: number;
  readonly turnWithWaitMs: number;
  /** The most that a turn was on a core; the rest of a longer one it waited for the disk. */
  readonly turnCpuMs: number;
}

/** Turns as they are watched. */
export interface TurnWatch {
  /** The longest since the last look. */
  look(): Turns;
  /** Forgets the turn that is under way, up to here. */
  restart(): void;
}

/**
 * Watches the turns of this thread's event loop (Linux only). What the thread waited for a core, as the scheduler counts it, is taken
 * off each: on a busy machine that is most of a long turn, and not the program's.
 */
export function watchTurns(): TurnWatch {
  const everyMs = 5;
  const file = `/proc/self/task/${process.pid}/schedstat`;
  /** Milliseconds: now, on a core so far, and waiting for one. */
  const look = () => {
    const [ran, waited] = readFileSync(file, "utf8").split(" ");
    return { now: performance.now(), ran: Number(ran) / 1e6, waited: Number(waited) / 1e6 };
  };
  const none: Turns = { turnMs: 0, turnWithWaitMs: 0, turnCpuMs: 0 };
  let longest = none;
  let last = look();
  setInterval(() => {
    const next = look();
    const turn = Math.max(0, next.now - last.now - everyMs);
    longest = {
      turnMs: Math.max(longest.turnMs, turn - (next.waited - last.waited)),
      turnWithWaitMs: Math.max(longest.turnWithWaitMs, turn),
      turnCpuMs: Math.max(longest.turnCpuMs, next.ran - last.ran),
    };
    last = next;
  }, everyMs).unref();
  return {
    look: () => {
      const seen = longest;
      longest = none;
      return seen;
    },
    restart: () => {
      last = look();
    },
  };
}
