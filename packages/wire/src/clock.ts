/**
 * The seam through which every timer goes: tests drive a `FakeClock` and never sleep.
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

/** {@link Clock.sleep} by means of a clock's timer. */
export function sleepOn(clock: Pick<Clock, "timer">, ms: number, signal?: AbortSignal): Promise<void> {
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
