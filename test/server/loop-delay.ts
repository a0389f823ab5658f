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
  const waitedMs = () => Number(readFileSync(file, "utf8").split(" ")[1]) / 1e6;
  let longest = { turnMs: 0, turnWithWaitMs: 0 };
  let [at, waited] = [performance.now(), waitedMs()];
  setInterval(() => {
    const [now, nextWaited] = [performance.now(), waitedMs()];
    const turn = Math.max(0, now - at - everyMs);
    longest = {
      turnMs: Math.max(longest.turnMs, turn - (nextWaited - waited)),
      turnWithWaitMs: Math.max(longest.turnWithWaitMs, turn),
    };
    [at, waited] = [now, nextWaited];
  }, everyMs).unref();
  return {
    look: () => {
      const seen = longest;
      longest = { turnMs: 0, turnWithWaitMs: 0 };
      return seen;
    },
    restart: () => {
      [at, waited] = [performance.now(), waitedMs()];
    },
  };
}
