/**
 * The clock of all timers and timestamps. Tests replace it by a `FakeClock` and never sleep.
 */
import { onAbort } from "./abort.ts";

/** Time and timers. */
export interface Clock {
  /** Milliseconds since the epoch; may jump when the machine's clock is set. For timestamps. */
  now(): number;
  /** Milliseconds on a clock that never jumps. For durations and deadlines. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with `signal.reason` when aborted. A pending sleep does not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `run` once after `ms`. Returns a function that cancels. A pending timer does not keep the process alive. */
  timer(ms: number, run: () => void): () => void;
}

/** The longest delay of `setTimeout`: with a longer one it fires at once. */
const longestTimeoutMs = 2 ** 31 - 1;

/** {@link Clock.sleep}, implemented with a clock's timer. */
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
 * The system clock.
 *
 * Timers are unreferenced where the runtime supports that, so that a heartbeat timer does not keep a script alive. With `ref: true`
 * they keep the process alive: for waits that the program awaits, during which Node would otherwise exit.
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
