/**
 * Two concurrency limits: a number of holders ({@link Semaphore}) and a number of bytes ({@link ByteBudget}). Both are first come, first
 * served; an aborted waiter leaves the queue.
 */
import { onAbort } from "@tinklet/wire/abort";

interface Waiter {
  readonly amount: number;
  readonly enter: () => void;
}

/** Releases what was acquired. Idempotent. */
export type Release = () => void;

abstract class Line {
  // In order of arrival; a Set, because an aborted waiter leaves from the middle.
  readonly #waiters = new Set<Waiter>();

  /** Whether the first waiter may proceed. */
  protected abstract hasRoom(): boolean;
  protected abstract take(amount: number): void;

  get waiting(): number {
    return this.#waiters.size;
  }

  protected enter(amount: number, signal?: AbortSignal): Promise<Release> | Release {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#waiters.size === 0 && this.hasRoom()) return this.#entered(amount);
    return new Promise((resolve, reject) => {
      const forget = onAbort(signal, () => {
        this.#waiters.delete(waiter);
        reject(signal?.reason);
        this.admit(); // the next waiter may fit although this one did not
      });
      const waiter: Waiter = {
        amount,
        enter: () => {
          forget();
          resolve(this.#entered(amount));
        },
      };
      this.#waiters.add(waiter);
    });
  }

  #entered(amount: number): Release {
    this.take(amount);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.take(-amount);
      this.admit();
    };
  }

  protected admit(): void {
    for (const waiter of this.#waiters) {
      if (!this.hasRoom()) return;
      this.#waiters.delete(waiter);
      waiter.enter();
    }
  }
}

/** At most `limit` concurrent holders. */
export class Semaphore extends Line {
  #limit: number;
  #held = 0;

  constructor(limit: number) {
    super();
    this.#limit = limit;
  }

  get held(): number {
    return this.#held;
  }

  set limit(limit: number) {
    this.#limit = limit;
    this.admit();
  }

  protected hasRoom(): boolean {
    return this.#held < this.#limit;
  }

  protected take(amount: number): void {
    this.#held += amount;
  }

  /** Acquires a slot immediately, or returns a promise of one. */
  acquire(signal?: AbortSignal): Promise<Release> | Release {
    return this.enter(1, signal);
  }
}

/**
 * A budget of bytes. A waiter waits only while the budget is overdrawn and then takes its full amount, so that a request larger than the
 * budget can proceed.
 */
export class ByteBudget extends Line {
  #left: number;
  #size: number;

  constructor(size: number) {
    super();
    this.#size = size;
    this.#left = size;
  }

  get left(): number {
    return this.#left;
  }

  /** Changes the size of the budget; bytes that are held stay held. */
  resize(size: number): void {
    this.#left += size - this.#size;
    this.#size = size;
    this.admit();
  }

  protected hasRoom(): boolean {
    return this.#left >= 0;
  }

  protected take(amount: number): void {
    this.#left -= amount;
  }

  acquire(bytes: number, signal?: AbortSignal): Promise<Release> | Release {
    return this.enter(bytes, signal);
  }
}
