/**
 * The seam through which every timer goes: tests drive a {@link FakeClock} and never sleep.
 */
import { onAbort } from "./abort.ts";

/** Time, and waiting for it. */
export interface Clock {
  /** Milliseconds since the epoch; may jump when the machine's clock is set. For timestamps. */
  now(): number;
  /** Milliseconds on a clock that never jumps. For measuring how long something took and for deadlines. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with `signal.reason` when aborted. Never keeps the process alive by itself. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` once after `ms`. Returns a function that cancels. Never keeps the process alive by itself. */
  timer(ms: number, run: () => void): () => void;
}

/** `setTimeout` cannot wait longer: beyond this it fires at once. */
const longestTimeoutMs = 2 ** 31 - 1;

function sleepOn(clock: Pick<Clock, "timer">, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const forget = onAbort(signal, () => {
      cancel();
      reject(signal?.reason);
    });
    const cancel = clock.timer(ms, () => {
      forget();
      resolve();
    });
  });
}

/**
 * The machine's clock.
 *
 * Timers are unreferenced where the runtime has that notion, so that a forgotten heartbeat never keeps a script alive;
 * a wait that somebody awaits needs `ref: true`, or Node would exit in the middle of it.
 */
export function systemClock({ ref = false }: { readonly ref?: boolean } = {}): Clock {
  const timer = (ms: number, run: () => void) => {
    const handle: unknown = setTimeout(run, Math.min(Math.max(ms, 0), longestTimeoutMs));
    if (!ref && typeof handle === "object" && handle !== null && "unref" in handle)
      (handle as { unref(): void }).unref();
    return () => clearTimeout(handle as number);
  };
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    timer,
    sleep: (ms, signal) => sleepOn({ timer }, ms, signal),
  };
}

/** A clock that stands still until {@link FakeClock.advance} moves it. For tests. */
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

  /** How many waits are pending. */
  get pending(): number {
    return this.#timers.size;
  }

  /** Milliseconds until the next pending timer, or `undefined`. */
  get nextDueMs(): number | undefined {
    const dues = [...this.#timers.values()].map((timer) => timer.due - this.#elapsed);
    return dues.length === 0 ? undefined : Math.min(...dues);
  }

  /** Moves time on, running what falls due in order and letting promises settle in between. */
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

  /** Sets the wall clock, as an administrator or a time server would; the monotonic clock does not notice. */
  jump(ms: number): void {
    this.#now += ms;
  }
}

/** Lets everything that is ready run: microtasks and the macrotasks they queue. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise<void>((resolve) => setTimeout(resolve, 0));
}
