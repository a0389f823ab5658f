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
 * Watches the turns of this thread's event loop (Linux only). What it waited for a core is taken off each: on a busy machine that is most
 * of a long turn, and not the program's. The scheduler counts it for each thread, but not while a hypervisor gives a core to others: that
 * is counted for each core ("steal"), in hundredths of a second and a moment late. It is taken off wherever it happened, since the thread
 * may wait for another that sits on the stolen core.
 */
export function watchTurns(): TurnWatch {
  const everyMs = 5;
  /** Looks after which the steal of a turn has been counted. */
  const lateBy = 4;
  const schedule = `/proc/self/task/${process.pid}/schedstat`;
  /** Milliseconds: now, on a core so far, waiting for one, and stolen from each. */
  const look = () => {
    const [ran, waited] = readFileSync(schedule, "utf8").split(" ");
    const cores = readFileSync("/proc/stat", "utf8").matchAll(/^cpu\d+(?: \d+){7} (\d+)/gm);
    const stolen = [...cores].map(([, hundredths]) => 10 * Number(hundredths));
    return { now: performance.now(), ran: Number(ran) / 1e6, waited: Number(waited) / 1e6, stolen };
  };
  const none: Turns = { turnMs: 0, turnWithStealMs: 0, turnWithWaitMs: 0, turnCpuMs: 0 };
  let longest = none;
  /** The last looks, the oldest first; a turn lies between two. */
  let looks = [look()];
  setInterval(() => {
    looks.push(look());
    if (looks.length < lateBy + 2) return;
    const [from, to] = looks as [ReturnType<typeof look>, ReturnType<typeof look>];
    const counted = looks.at(-1)!.stolen;
    looks.shift();
    const turn = Math.max(0, to.now - from.now - everyMs);
    const ready = turn - (to.waited - from.waited);
    const stolen = Math.max(...from.stolen.map((before, core) => (counted[core] ?? before) - before));
    longest = {
      turnMs: Math.max(longest.turnMs, ready - stolen),
      turnWithStealMs: Math.max(longest.turnWithStealMs, ready),
      turnWithWaitMs: Math.max(longest.turnWithWaitMs, turn),
      turnCpuMs: Math.max(longest.turnCpuMs, to.ran - from.ran - stolen),
    };
  }, everyMs).unref();
  return {
    look: () => {
      const seen = longest;
      longest = none;
      return seen;
    },
    restart: () => {
      looks = [look()];
    },
  };
}
