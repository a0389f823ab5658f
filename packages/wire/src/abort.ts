/**
 * Cancellation: listeners of an abort signal, waiting for a promise until a signal aborts, deadlines as signals, and work shared by
 * several callers. Imports only the clock's type.
 */
import type { Clock } from "./clock.ts";

const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `run` once when the signal aborts. Returns a function that removes the callback. All callbacks of a signal share one event
 * listener: Node warns of a leak from the eleventh listener on, and a program may pass one signal to hundreds of calls.
 */
export function onAbort(signal: AbortSignal | undefined, run: () => void): () => void {
  if (signal === undefined || signal.aborted) return () => {};
  const known = listeners.get(signal);
  const all = known ?? new Set<() => void>();
  const own = () => run(); // a new function each time, so that the same `run` can be registered twice
  all.add(own);
  if (known === undefined) {
    listeners.set(signal, all);
    signal.addEventListener("abort", fire, { once: true });
  }
  return () => {
    if (!all.delete(own) || all.size > 0) return;
    listeners.delete(signal);
    signal.removeEventListener("abort", fire);
  };
}

function fire(event: Event): void {
  const signal = event.target as AbortSignal;
  const all = listeners.get(signal) ?? [];
  listeners.delete(signal);
  for (const run of all) run();
}

/** The promise's outcome, or `signal.reason` as soon as it aborts. */
export function untilAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    const forget = onAbort(signal, () => reject(signal.reason));
    promise.then(
      (value) => {
        forget();
        resolve(value);
      },
      (error: unknown) => {
        forget();
        reject(error);
      },
    );
  });
}

/** Limits of a call: the caller's signal, a timeout, or both. */
export interface Bounds {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/**
 * Runs work with a signal that aborts with the caller's signal or, after `timeoutMs`, with the error of `late`. The returned promise
 * rejects at that moment, also when `work` ignores the signal.
 */
export async function bounded<T>(
  clock: Clock,
  bounds: Bounds,
  late: (timeoutMs: number) => Error,
  work: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const { signal, timeoutMs } = bounds;
  signal?.throwIfAborted();
  if (timeoutMs === undefined) return untilAborted(work(signal), signal);
  const controller = new AbortController();
  const forget = onAbort(signal, () => controller.abort(signal?.reason));
  const cancel = clock.timer(timeoutMs, () => controller.abort(late(timeoutMs)));
  try {
    return await untilAborted(work(controller.signal), controller.signal);
  } finally {
    cancel();
    forget();
  }
}

/** Options of {@link Shared.get}. The retry limits apply when this call starts the work. */
export interface SharedOptions {
  readonly signal?: AbortSignal | undefined;
  readonly maxRetries?: number | undefined;
  /** How long a server that has never answered is retried, in milliseconds. */
  readonly firstContactMs?: number | undefined;
}

interface Running<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  readonly options: Omit<SharedOptions, "signal">;
  waiting: number;
}

/**
 * Work that runs once for all callers that wait for it. It is aborted when the last waiting caller aborts. After a failure the next
 * call starts it again.
 */
export class Shared<T> {
  readonly #work: (options: SharedOptions) => Promise<T>;
  #running: Running<T> | undefined;

  constructor(work: (options: SharedOptions) => Promise<T>) {
    this.#work = work;
  }

  /** Whether the work has started and has not failed. */
  get begun(): boolean {
    return this.#running !== undefined;
  }

  /** Forgets the result: the next call starts the work again. */
  reset(): void {
    this.#running = undefined;
  }

  /** Uses a promise of another caller as the work. */
  adopt(promise: Promise<T>): void {
    promise.catch(() => {});
    this.#running = { promise, controller: new AbortController(), options: {}, waiting: 1 };
  }

  /** The result. After a failure, a caller with higher retry limits than the caller that started the work starts it again. */
  async get(options: SharedOptions = {}): Promise<T> {
    options.signal?.throwIfAborted();
    const other = this.#running;
    if (other === undefined) return this.#wait(this.#start(options), options.signal);
    try {
      return await this.#wait(other, options.signal);
    } catch (error) {
      const begun = other.options;
      const harder =
        (options.maxRetries ?? Infinity) > (begun.maxRetries ?? Infinity) ||
        (options.firstContactMs ?? 0) > (begun.firstContactMs ?? 0);
      if (options.signal?.aborted || !harder) throw error;
      return this.#wait(this.#running ?? this.#start(options), options.signal);
    }
  }

  #start({ maxRetries, firstContactMs }: SharedOptions): Running<T> {
    const options = { maxRetries, firstContactMs };
    const controller = new AbortController();
    const promise = this.#work({ ...options, signal: controller.signal });
    const running: Running<T> = { promise, controller, options, waiting: 0 };
    this.#running = running;
    promise.catch(() => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }

  async #wait(running: Running<T>, signal: AbortSignal | undefined): Promise<T> {
    running.waiting++;
    try {
      return await untilAborted(running.promise, signal);
    } catch (error) {
      if (signal?.aborted && running.waiting === 1) {
        if (this.#running === running) this.#running = undefined;
        running.controller.abort(error);
      }
      throw error;
    } finally {
      running.waiting--;
    }
  }
}
