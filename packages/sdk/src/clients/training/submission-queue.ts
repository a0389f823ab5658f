/**
 * The order of a training client's requests: one submission at a time, in the order of the calls, numbered as they go out.
 * A call that fails, is refused, is cancelled or never arrives does not block the one behind it; what happens to its number is
 * decided in docs/decisions/0005-client-order-and-retries.md.
 */
import { untilAborted } from "@tinklet/wire/abort";
import { APIStatusError, InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";

/** The right to send, held by one call at a time. */
export interface SubmitSlot {
  /** Draws the next `count` numbers and returns the first. */
  draw(count?: number): number;
  /** Gives back every number from `first` on, because nothing was sent under them. */
  giveBack(first: number): void;
  /** Nobody knows whether the server has seen this number: it is used up before the next call goes out. */
  lost(seqId: number): void;
}

export class SubmissionQueue {
  #tail: Promise<unknown> = Promise.resolve();
  #nextSeqId = 1;
  #waiting = 0;
  readonly #lost = new Set<number>();
  readonly #fill: (seqId: number) => Promise<void>;

  /**
   * @param fill - uses up a number that the server may never have seen. Rejects when that is still unclear; then the call whose
   * turn it is fails with the same error, without having drawn a number.
   */
  constructor(fill: (seqId: number) => Promise<void> = async () => {}) {
    this.#fill = fill;
  }

  /** Calls that wait or are being submitted. */
  get length(): number {
    return this.#waiting;
  }

  /**
   * Runs `send` when it is this call's turn. Aborted while it waits: it leaves the line and draws no number. Aborted later:
   * the caller's waiting ends, the submission does not, for a half-sent request would leave the order unknown.
   */
  submit<T>(send: (slot: SubmitSlot) => Promise<T>, signal?: AbortSignal): Promise<T> {
    this.#waiting++;
    const turn = this.#tail.then(async () => {
      signal?.throwIfAborted();
      for (const seqId of this.#lost) {
        await this.#fill(seqId);
        this.#lost.delete(seqId);
      }
      signal?.throwIfAborted();
      return send(this.#slot());
    });
    const done = () => {
      this.#waiting--;
    };
    this.#tail = turn.then(done, done); // one failure must not block the line
    return untilAborted(turn, signal);
  }

  #slot(): SubmitSlot {
    return {
      draw: (count = 1) => {
        const first = this.#nextSeqId;
        this.#nextSeqId += count;
        return first;
      },
      giveBack: (first) => {
        this.#nextSeqId = Math.min(this.#nextSeqId, first);
      },
      lost: (seqId) => this.#lost.add(seqId),
    };
  }

  /** Submits one request under one number, which is given back when the request turns out not to be sendable. */
  submitOne<T>(send: (seqId: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.submit((slot) => numbered(slot, send), signal);
  }
}

/** Sends under the next number. */
export async function numbered<T>(slot: SubmitSlot, send: (seqId: number) => Promise<T>): Promise<T> {
  const seqId = slot.draw();
  try {
    return await send(seqId);
  } catch (error) {
    settleNumber(slot, seqId, error);
    throw error;
  }
}

/** Decides what becomes of the number of a request that failed. */
export function settleNumber(slot: SubmitSlot, seqId: number, error: unknown): void {
  if (error instanceof InvalidInputError) slot.giveBack(seqId);
  else if (!isRefusal(error)) slot.lost(seqId);
}

/** Statuses that do not say that the server will skip the number. */
const unclearStatuses: readonly number[] = [402, 408, 409, 429];

/** Whether the server has answered for certain: it has the request, or it refused it and skips its number. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof ResponseValidationError) return true;
  return error instanceof APIStatusError && error.status < 500 && !unclearStatuses.includes(error.status);
}
