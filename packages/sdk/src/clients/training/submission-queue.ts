/**
 * The queue of a training client's requests: one submission at a time, in the order of the calls, numbered when submitted. A call that
 * fails, is refused or is cancelled does not block the next one; docs/decisions/0005-client-order-and-retries.md describes what
 * happens to its number.
 */
import { untilAborted } from "@tinklet/wire/abort";
import { APIStatusError, InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";

/** Permission to send, held by one call at a time. */
export interface SubmitSlot {
  /** Draws the next `count` numbers and returns the first. */
  draw(count?: number): number;
  /** Returns every number from `first`, because no request was sent under them. */
  giveBack(first: number): void;
  /** Marks a number that the server may or may not have received: it is used up before the next call is submitted. */
  lost(seqId: number): void;
}

export class SubmissionQueue {
  #tail: Promise<unknown> = Promise.resolve();
  #nextSeqId = 1;
  #waiting = 0;
  readonly #lost = new Set<number>();
  readonly #fill: (seqId: number) => Promise<void>;

  /**
   * @param fill - uses up a number that the server may not have received. If it rejects, the next call fails with the same error and
   * draws no number.
   */
  constructor(fill: (seqId: number) => Promise<void>) {
    this.#fill = fill;
  }

  /** Number of calls that are waiting or being submitted. */
  get length(): number {
    return this.#waiting;
  }

  /**
   * Runs `send` when all earlier calls are submitted. A call aborted before that leaves the queue and draws no number. If it is aborted
   * later, the returned promise rejects but the submission completes, because a partially sent request would make the order unknown.
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
    this.#tail = turn.then(done, done); // one failure must not block the queue
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

  /** Submits one request under one number, which is returned if the request could not be sent. */
  submitOne<T>(send: (seqId: number) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.submit((slot) => numbered(slot, send), signal);
  }
}

/** Sends a request under the next number. */
export async function numbered<T>(slot: SubmitSlot, send: (seqId: number) => Promise<T>): Promise<T> {
  const seqId = slot.draw();
  try {
    return await send(seqId);
  } catch (error) {
    settleNumber(slot, seqId, error);
    throw error;
  }
}

/** Keeps, returns or marks the number of a failed request. */
export function settleNumber(slot: SubmitSlot, seqId: number, error: unknown): void {
  if (error instanceof InvalidInputError) slot.giveBack(seqId);
  else if (!isRefusal(error)) slot.lost(seqId);
}

/** Statuses after which the server may still expect the number. */
const unclearStatuses: readonly number[] = [402, 408, 409, 429];

/** Whether the number is certainly used up: the server has the request, or refused it and skips its number. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof ResponseValidationError) return true;
  return error instanceof APIStatusError && error.status < 500 && !unclearStatuses.includes(error.status);
}
