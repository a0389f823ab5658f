/**
 * Sessions that each hold a copy of the weights, as on WebAssembly, where all of them share 4 GiB: as many are kept as fit, and the one
 * that was longest unused is released for a new one, to be made again when it is next wanted. Knows nothing of graphs or tensors.
 */

interface Releasable {
  release(): Promise<void>;
}

export interface SessionPlan<Session> {
  readonly open: () => Promise<Session>;
  /** What an open session holds. */
  readonly bytes: number;
  /** What opening takes, `bytes` included. */
  readonly openingBytes: number;
}

/** Where a program finds its session at each run. */
export interface SessionSource<Session> {
  session(): Promise<Session>;
  release(): Promise<void>;
}

/** Calls must not overlap: a session may be released as soon as another is asked for. The engine runs one program at a time. */
export class SessionPool<Session extends Releasable> {
  readonly #capacityBytes: number;
  /** The longest unused first. */
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
      this.#open.set(plan, held); // now the latest used
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
