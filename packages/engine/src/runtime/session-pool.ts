/**
 * Sessions that each hold a copy of the weights and share a memory limit (WebAssembly's 4 GiB). Keeps as many open as fit; the least
 * recently used one is released for a new one and opened again when needed.
 */

interface Releasable {
  release(): Promise<void>;
}

export interface SessionPlan<Session> {
  readonly open: () => Promise<Session>;
  /** Memory of an open session, in bytes. */
  readonly bytes: number;
  /** Peak memory while opening, including `bytes`. */
  readonly openingBytes: number;
}

/** Returns the program's session; called at each run. */
export interface SessionSource<Session> {
  session(): Promise<Session>;
  release(): Promise<void>;
}

/** Calls must not overlap, because a session may be released when another one is requested. The engine runs one program at a time. */
export class SessionPool<Session extends Releasable> {
  readonly #capacityBytes: number;
  /** Least recently used first. */
  readonly #open = new Map<SessionPlan<Session>, Session>();

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes;
  }

  add(plan: SessionPlan<Session>): SessionSource<Session> {
    return { session: () => this.#session(plan), release: () => this.#release(plan) };
  }

  async #session(plan: SessionPlan<Session>): Promise<Session> {
    const held = this.#open.get(plan);
    if (held) {
      this.#open.delete(plan);
      this.#open.set(plan, held); // moves it to the end: most recently used
      return held;
    }
    for (const other of this.#open.keys()) {
      if (this.#heldBytes() + plan.openingBytes <= this.#capacityBytes) break;
      await this.#release(other);
    }
    const opened = await plan.open();
    this.#open.set(plan, opened);
    return opened;
  }

  #heldBytes(): number {
    let sum = 0;
    for (const { bytes } of this.#open.keys()) sum += bytes;
    return sum;
  }

  async #release(plan: SessionPlan<Session>): Promise<void> {
    const held = this.#open.get(plan);
    this.#open.delete(plan);
    await held?.release();
  }
}
