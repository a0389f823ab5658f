/**
 * Models, and lines of samples, that wait for memory which others are using. Each tries again whenever something is over; one that has waited for long has
 * the engine to itself until it has its room, so that a busy neighbour cannot keep it out. Knows no engine: it says who may start.
 */
import type { Clock } from "@tinklet/wire/clock";

/** How long a model waits before the others are made to pause for it. */
const patienceMs = 10_000;

/** Thrown when an engine has no room now and others that hold some are in use. */
export class MemoryBusyError extends Error {
  override readonly name = "MemoryBusyError";
}

interface Waiting {
  /** Whether it is held back until something is over. */
  parked: boolean;
  readonly cancelTimer: () => void;
}

/** How often memory may have become free, when somebody looked. */
export type ReleaseCount = number;

export class MemoryWaitlist<R> {
  readonly #clock: Clock;
  readonly #wake: () => void;
  readonly #waiting = new Map<R, Waiting>();
  #reserved: R | undefined;
  #releases: ReleaseCount = 0;

  /** @param wake - called when somebody may try again who could not before. */
  constructor(clock: Clock, wake: () => void) {
    this.#clock = clock;
    this.#wake = wake;
  }

  /** Whether this one has the engine to itself. */
  isReserved(runner: R): boolean {
    return this.#reserved === runner;
  }

  mayStart(runner: R): boolean {
    const isTurn = this.#reserved === undefined || this.#reserved === runner;
    return isTurn && this.#waiting.get(runner)?.parked !== true;
  }

  /** How things are now; given back when the attempt that begins here is over. */
  releases(): ReleaseCount {
    return this.#releases;
  }

  /** It found no room: it waits until something is over, unless something was since it began. */
  park(runner: R, since: ReleaseCount): void {
    const parked = since === this.#releases;
    const known = this.#waiting.get(runner);
    if (known !== undefined) {
      known.parked = parked;
      return;
    }
    const cancelTimer = this.#clock.timer(patienceMs, () => {
      this.#reserved ??= runner;
      this.noteRelease();
      this.#wake();
    });
    this.#waiting.set(runner, { parked, cancelTimer });
  }

  /** A run of it ended, and not for want of room: it waits no more, and the others may try. */
  ended(runner: R): void {
    this.#waiting.get(runner)?.cancelTimer();
    this.#waiting.delete(runner);
    if (this.#reserved === runner) this.#reserved = undefined;
    this.noteRelease();
  }

  /** Memory may have become free. */
  noteRelease(): void {
    this.#releases++;
    for (const waiting of this.#waiting.values()) waiting.parked = false;
  }

  /** Forgets everybody: the engine is another one. */
  clear(): void {
    for (const { cancelTimer } of this.#waiting.values()) cancelTimer();
    this.#waiting.clear();
    this.#reserved = undefined;
  }
}
