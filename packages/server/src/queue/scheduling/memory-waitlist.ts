/**
 * Models and sample queues that wait for engine memory which others use. Each retries after every release of memory. The first that has
 * waited 10 s gets a reservation: no other starts until it has run, so that busy tenants cannot starve it. Decides who may start; does
 * not call the engine.
 */
import type { Clock } from "@tinklet/wire/clock";

/** How long a member waits before it gets a reservation. */
const reserveAfterMs = 10_000;

/** The engine is out of memory now, and others that hold memory are in use. */
export class MemoryBusyError extends Error {
  override readonly name = "MemoryBusyError";
}

interface Waiting {
  /** Whether it is held back until the next release of memory. */
  parked: boolean;
  readonly cancelTimer: () => void;
}

/** Version counter of memory releases. */
export type ReleaseCount = number;

export class MemoryWaitlist<R> {
  readonly #clock: Clock;
  readonly #wake: () => void;
  readonly #waiting = new Map<R, Waiting>();
  #reserved: R | undefined;
  #releases: ReleaseCount = 0;

  /** @param wake - called when a member that was held back may start. */
  constructor(clock: Clock, wake: () => void) {
    this.#clock = clock;
    this.#wake = wake;
  }

  /** Whether this member has the reservation. */
  isReserved(runner: R): boolean {
    return this.#reserved === runner;
  }

  mayStart(runner: R): boolean {
    const isAllowed = this.#reserved === undefined || this.#reserved === runner;
    return isAllowed && this.#waiting.get(runner)?.parked !== true;
  }

  /** The current version; read before an attempt and passed to {@link park} when the attempt fails. */
  releases(): ReleaseCount {
    return this.#releases;
  }

  /** An attempt found no memory: holds the member back until the next release, unless one happened since version `since`. */
  park(runner: R, since: ReleaseCount): void {
    const parked = since === this.#releases;
    const known = this.#waiting.get(runner);
    if (known !== undefined) {
      known.parked = parked;
      return;
    }
    const cancelTimer = this.#clock.timer(reserveAfterMs, () => {
      this.#reserved ??= runner;
      this.noteRelease();
      this.#wake();
    });
    this.#waiting.set(runner, { parked, cancelTimer });
  }

  /** An attempt did not fail for lack of memory, or the member has nothing left to run: removes it and lets the others retry. */
  ended(runner: R): void {
    this.#waiting.get(runner)?.cancelTimer();
    this.#waiting.delete(runner);
    if (this.#reserved === runner) this.#reserved = undefined;
    this.noteRelease();
  }

  /** Memory may have been released: all members may retry. */
  noteRelease(): void {
    this.#releases++;
    for (const waiting of this.#waiting.values()) waiting.parked = false;
  }

  /** Removes all members, after the engine was replaced. */
  clear(): void {
    for (const { cancelTimer } of this.#waiting.values()) cancelTimer();
    this.#waiting.clear();
    this.#reserved = undefined;
  }
}
