/**
 * The order of a training client's requests: one submission at a time, in the order of the calls, numbered as they go out.
 * A call that fails, is refused or is cancelled never blocks the one behind it; what happens to its number is decided in
 * docs/decisions/0005-client-order-and-retries.md.
 */
import { untilAborted } from "../abort.ts";
import { InvalidInputError } from "../errors.ts";

/** The right to send, held by one call at a time. */
export interface Turn {
  /** Draws the next `count` numbers and returns the first. */
  draw(count?: number): number;
  /** Gives back every number from `first` on, because nothing was sent under them. */
  giveBack(first: number): void;
}

export class SubmissionQueue {
  #tail: Promise<unknown> = Promise.resolve();
  #nextSeqId = 1;
  #waiting = 0;

  /** Calls that wait or are being submitted. */
  get length(): number {
    return this.#waiting;
  }

  /**
   * Runs `send` when it is this call's turn. Aborted while it waits: it leaves the line and draws no number. Aborted later:
   * the caller's waiting ends, the submission does not, for a half-sent request would leave the order unknown.
   */
  submit<T>(send: (turn: Turn) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#waiting++;
    const turn = this.#tail.then(async () => {
      signal?.throwIfAborted();
      return send(this.#turn());
    });
    const done = () => {
      this.#waiting--;
    };
    this.#tail = turn.then(done, done); // one failure must not block the line
    return untilAborted(turn, signal);
  }

  #turn(): Turn {
    return {
      draw: (count = 1) => {
        const first = this.#nextSeqId;
        this.#nextSeqId += count;
        return first;
      },
      giveBack: (first) => {
        this.#nextSeqId = Math.min(this.#nextSeqId, first);
      },
    };
  }

  /** Submits one request under one number, which is given back when the request turns out not to be sendable. */
  submitOne<T>(send: (seqId: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.submit((turn) => numbered(turn, send), signal);
  }
}

/** Sends under the next number. */
export async function numbered<T>(turn: Turn, send: (seqId: number) => Promise<T>): Promise<T> {
  const seqId = turn.draw();
  try {
    return await send(seqId);
  } catch (error) {
    if (error instanceof InvalidInputError) turn.giveBack(seqId);
    throw error;
  }
}
