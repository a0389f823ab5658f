/**
 * Two limits on how much is under way at once: a number of holders ({@link Semaphore}) and an amount of bytes
 * ({@link ByteBudget}). Both are first come, first served, and a waiter that is aborted leaves the line.
 */
import { onAbort } from "@tinklet/wire/abort";

interface Waiter {
  readonly amount: number;
  readonly enter: () => void;
}

/** Gives back what was taken. Calling it again does nothing. */
export type Release = () => void;

abstract class Line {
  // Waiters in order; a Set because one may leave from the middle.
  readonly #waiters = new Set<Waiter>();

  /** Whether the first in line may enter. */
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
        this.admit(); // the next one may fit where this one did not
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

/** At most `limit` holders at once. */
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

  /** Enters at once or waits for a place. */
  acquire(signal?: AbortSignal): Promise<Release> | Release {
    return this.enter(1, signal);
  }
}

/**
 * A budget of bytes. A waiter waits only while the budget is overdrawn and then takes its whole amount, so that one request
 * larger than the budget still passes.
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

  /** Changes the size of the budget; what is held stays held. */
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
