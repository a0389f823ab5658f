/** A clock for tests. */
import { type Clock, sleepOn } from "../clock.ts";

/** A clock that changes only when a test calls {@link FakeClock.advance}. */
export class FakeClock implements Clock {
  #now: number;
  #elapsed = 0;
  #next = 0;
  readonly #timers = new Map<number, { due: number; run: () => void }>();

  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  timer(ms: number, run: () => void): () => void {
    const id = this.#next++;
    this.#timers.set(id, { due: this.#elapsed + Math.max(ms, 0), run });
    return () => this.#timers.delete(id);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepOn(this, ms, signal);
  }

  /** Number of pending timers. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Milliseconds until the next pending timer, or `undefined`. */
  get nextDueMs(): number | undefined {
    const dues = [...this.#timers.values()].map((timer) => timer.due - this.#elapsed);
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  /** Advances the time, runs the timers that are due in order, and lets promises settle after each. */
  async advance(ms: number): Promise<void> {
    const target = this.#elapsed + ms;
    await settle();
    for (;;) {
      const due = [...this.#timers]
        .filter(([, timer]) => timer.due <= target)
        .sort((a, b) => a[1].due - b[1].due || a[0] - b[0])[0];
      if (due === undefined) break;
      const [id, { due: at, run }] = due;
      this.#timers.delete(id);
      this.#now += Math.max(at - this.#elapsed, 0);
      this.#elapsed = Math.max(at, this.#elapsed);
      run();
      await settle();
    }
    this.#now += target - this.#elapsed;
    this.#elapsed = target;
    await settle();
  }

  /** Changes the wall clock, as a time server does; the monotonic clock does not change. */
  jump(ms: number): void {
    this.#now += ms;
  }
}

/** Runs all pending microtasks and the macrotasks they queue. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise<void>((resolve) => setTimeout(resolve, 0));
}
