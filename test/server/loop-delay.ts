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

/** The longest turns of the loop since the last look. */
export interface Turns {
  /** Without the wait for a core: neither in the system's run queue, nor for the hypervisor's. */
  readonly turnMs: number;
  /** Without the wait in the run queue. */
  readonly turnWithStealMs: number;
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
 * Watches the turns of this thread's event loop (Linux only). What the thread waited for a core is taken off each: on a busy machine that
 * is most of a long turn, and not the program's. The scheduler counts it for each thread, but not while a hypervisor gives the whole core
 * to others; that is counted for each core ("steal"), in hundredths of a second.
 */
export function watchTurns(): TurnWatch {
  const everyMs = 5;
  const thread = `/proc/self/task/${process.pid}`;
  /** Milliseconds: now, on a core so far, waiting for one, and stolen from each; and the core that it is on. */
  const look = () => {
    const [ran, waited] = readFileSync(`${thread}/schedstat`, "utf8").split(" ");
    const core = Number(readFileSync(`${thread}/stat`, "utf8").split(") ")[1]?.split(" ")[36]);
    const cores = readFileSync("/proc/stat", "utf8").matchAll(/^cpu\d+(?: \d+){7} (\d+)/gm);
    const stolen = [...cores].map(([, hundredths]) => 10 * Number(hundredths));
    return { now: performance.now(), ran: Number(ran) / 1e6, waited: Number(waited) / 1e6, core, stolen };
  };
  type Look = ReturnType<typeof look>;
  /** From the cores that it was on. */
  const stolen = (from: Look, to: Look) =>
    Math.max(...[from.core, to.core].map((core) => (to.stolen[core] ?? 0) - (from.stolen[core] ?? 0)));
  const none: Turns = { turnMs: 0, turnWithStealMs: 0, turnWithWaitMs: 0, turnCpuMs: 0 };
  let longest = none;
  let last = look();
  setInterval(() => {
    const next = look();
    const turn = Math.max(0, next.now - last.now - everyMs);
    const ready = turn - (next.waited - last.waited);
    longest = {
      turnMs: Math.max(longest.turnMs, ready - stolen(last, next)),
      turnWithStealMs: Math.max(longest.turnWithStealMs, ready),
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
