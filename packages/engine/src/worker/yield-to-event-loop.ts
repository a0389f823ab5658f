/**
 * Yields to the event loop between chunks of long work. Immediates that wait together run in one turn, so several chunked jobs could still
 * block the loop; here each chunk gets its own turn.
 */

import { nextTurn } from "../next-turn.ts";

let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a turn of the event loop that no other caller of this function shares.
 *
 * @example
 * for (const piece of pieces) {
 *   await yieldToEventLoop();
 *   hash.update(piece);
 * }
 */
export function yieldToEventLoop(): Promise<void> {
  last = last.then(nextTurn);
  return last;
}
