/**
 * Submits the chunks of one batch in the contract's order, and leaves no gap in the sequence numbers when a chunk fails
 * (docs/decisions/0005-client-order-and-retries.md). A {@link ChunkSender} sends the requests.
 */

import type { Datum } from "@tinklet/wire/client";
import {
  APIConnectionError,
  APIStatusError,
  APITimeoutError,
  type HintPart,
  InvalidInputError,
  statusError,
} from "@tinklet/wire/errors";
import type { DataChunk } from "./batching.ts";
import { type SubmitSlot, settleNumber } from "./submission-queue.ts";
import type { Accepted } from "./submit-request.ts";

/** Sends chunks. */
export interface ChunkSender<Chunk extends DataChunk = DataChunk> {
  send(chunk: Chunk, seqId: number): Promise<Accepted>;
  /** Uses up a number with a forward-only pass over one datum, which changes nothing. */
  fill(datum: Datum, seqId: number): Promise<void>;
  /** Called when a number could not be used up. */
  gap(seqId: number, error: unknown): void;
}

/** @returns the accepted chunks in the order of the batch. */
export function submitChunks<Chunk extends DataChunk>(
  slot: SubmitSlot,
  chunks: readonly Chunk[],
  sender: ChunkSender<Chunk>,
  options: { readonly parallel: boolean },
): Promise<Accepted[]> {
  return options.parallel && chunks.length > 1 ? inParallel(slot, chunks, sender) : oneByOne(slot, chunks, sender);
}

async function oneByOne<Chunk extends DataChunk>(
  slot: SubmitSlot,
  chunks: readonly Chunk[],
  sender: ChunkSender<Chunk>,
): Promise<Accepted[]> {
  const accepted: Accepted[] = [];
  for (const chunk of chunks) {
    const seqId = slot.draw();
    try {
      accepted.push(await sender.send(chunk, seqId));
    } catch (error) {
      settleNumber(slot, seqId, error);
      throw partly(error, accepted.length, chunks.length);
    }
  }
  return accepted;
}

async function inParallel<Chunk extends DataChunk>(
  slot: SubmitSlot,
  chunks: readonly Chunk[],
  sender: ChunkSender<Chunk>,
): Promise<Accepted[]> {
  const first = slot.draw(chunks.length);
  const outcomes = new Array<Accepted | undefined>(chunks.length);
  const failures: unknown[] = [];
  const send = async (i: number) => {
    try {
      outcomes[i] = await sender.send(chunks[i]!, first + i);
    } catch (error) {
      failures.push(error);
    }
  };
  await Promise.all(chunks.slice(1).map((_, i) => send(i + 1)));
  if (failures.length === 0) await send(0); // the server starts with this chunk
  if (failures.length === 0) return outcomes as Accepted[];

  const accepted = outcomes.filter((outcome) => outcome !== undefined).length;
  if (accepted === 0 && failures.every((error) => error instanceof InvalidInputError)) {
    slot.giveBack(first); // no request was sent
  } else {
    // Fill with a datum that the server has just accepted.
    const known = outcomes.findIndex((outcome) => outcome !== undefined);
    const datum = chunks[Math.max(known, 0)]!.data[0]!;
    const holes = [...outcomes.keys()].filter((i) => outcomes[i] === undefined);
    await Promise.all(
      holes.map((i) =>
        sender.fill(datum, first + i).catch((error: unknown) => {
          settleNumber(slot, first + i, error);
          sender.gap(first + i, error);
        }),
      ),
    );
  }
  throw partly(failures[0], accepted, chunks.length);
}

/** Adds a hint about the accepted chunks to a chunk's error. */
function partly(error: unknown, accepted: number, total: number): unknown {
  if (accepted === 0 || !(error instanceof APIStatusError || error instanceof APIConnectionError)) return error;
  const own: readonly HintPart[] = error.hint === undefined ? [] : [...error.hintParts, " "];
  const counts = `${accepted} of ${total} chunks of this batch were accepted; their gradients count in the next optimizer step unless weights are loaded again.`;
  const hint = [...own, counts];
  if (error instanceof APIStatusError) return statusError(error.message, { ...error, hint, cause: error });
  if (error instanceof APITimeoutError) return new APITimeoutError(error.message, { hint, cause: error });
  return new APIConnectionError(error.message, { code: error.code, hint, cause: error });
}
