/**
 * Who waits for which request, and the results that were just made: a poll that arrives right after its request finished is
 * answered from memory. The database remains the truth; this forgets freely.
 */
import type { Clock } from "@tinklet/wire/clock";
import type { PayloadType } from "../store/tables/requests.ts";

/** What a finished request answers. */
export interface Settled {
  readonly tenant: string;
  readonly body: Uint8Array;
  readonly type: PayloadType;
  readonly timing?: Timing;
}

/** Where a request's time went, in milliseconds. */
export interface Timing {
  /** From its acceptance until the engine turned to it. */
  readonly queueMs: number;
  /** From there to its result. */
  readonly computeMs: number;
  /** Of a sample: tokens of its prompt that were not computed again. */
  readonly cachedTokens?: number;
}

/** From wall-clock times; a clock that was set back in between must not show as a negative time. */
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

  /** Polls that are being held open. */
  get waiting(): number {
    return this.#waiters.size;
  }

  recent(id: number): Settled | undefined {
    return this.#recent.get(id);
  }

  /** Keeps a result at hand and wakes everybody who waits for it. Call only once it is durable. */
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

  /** Forgets the results at hand; the database has them for as long as they are kept. */
  forget(): void {
    this.#recent.clear();
    this.#recentBytes = 0;
  }

  /** Lets every poll go: the server is shutting down. */
  close(): void {
    this.#closed = true;
    for (const id of [...this.#waiters.keys()]) this.#wake(id);
  }

  #wake(id: number): void {
    for (const done of [...(this.#waiters.get(id) ?? [])]) done();
  }
}
