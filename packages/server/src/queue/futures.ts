/**
 * Long polls that wait for a request, and a bounded cache of recent results that answers a poll without reading the database. An evicted
 * result is read from the database.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { PayloadType } from "../store/tables/requests.ts";

/** The result of a finished request. */
export interface Settled {
  readonly tenant: string;
  readonly body: Uint8Array;
  readonly type: PayloadType;
  readonly timing?: Timing;
}

/** Where a request's time went, in milliseconds. */
export interface Timing {
  /** From acceptance until the engine started it. */
  readonly queueMs: number;
  /** From the start until the result. */
  readonly computeMs: number;
  /** Prompt tokens of a sample that came from the prefix cache. */
  readonly cachedTokens?: number;
}

/** Computed from wall-clock times; clamped at 0 because the clock may be set back in between. */
export function timingOf(acceptedAt: number, startedAt: number, finishedAt: number): Timing {
  return { queueMs: Math.max(0, startedAt - acceptedAt), computeMs: Math.max(0, finishedAt - startedAt) };
}

const cacheBytes = 32 * 1024 * 1024;

export class Futures {
  readonly #clock: Clock;
  readonly #waiters = new Map<number, Set<() => void>>();
  readonly #recent = new Map<number, Settled>();
  #recentBytes = 0;
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Requests that at least one open poll waits for. */
  get waiting(): number {
    return this.#waiters.size;
  }

  recent(id: number): Settled | undefined {
    return this.#recent.get(id);
  }

  /** Caches a result and wakes the polls that wait for it. Call only after it is durable. */
  settle(id: number, result: Settled): void {
    this.#recent.set(id, result);
    this.#recentBytes += result.body.byteLength;
    for (const [old, { body }] of this.#recent) {
      if (this.#recentBytes <= cacheBytes) break;
      this.#recent.delete(old);
      this.#recentBytes -= body.byteLength;
    }
    this.#wake(id);
  }

  /** Resolves when the request settles, after `timeoutMs`, or when the server closes. */
  wait(id: number, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#closed || signal?.aborted === true) return Promise.resolve();
    return new Promise((resolve) => {
      const waiters = this.#waiters.get(id) ?? new Set();
      this.#waiters.set(id, waiters);
      const done = () => {
        cancel();
        signal?.removeEventListener("abort", done);
        waiters.delete(done);
        if (waiters.size === 0) this.#waiters.delete(id);
        resolve();
      };
      const cancel = this.#clock.timer(timeoutMs, done);
      signal?.addEventListener("abort", done, { once: true });
      waiters.add(done);
    });
  }

  /** Empties the cache. */
  forget(): void {
    this.#recent.clear();
    this.#recentBytes = 0;
  }

  /** Ends all polls at shutdown. */
  close(): void {
    this.#closed = true;
    for (const id of [...this.#waiters.keys()]) this.#wake(id);
  }

  #wake(id: number): void {
    for (const done of [...(this.#waiters.get(id) ?? [])]) done();
  }
}
