/**
 * Turns of the event loop for work that is cut into pieces. Immediates that wait together run in one turn, so that many such works, each
 * of short pieces, would still hold up everybody else; here each piece has a turn of its own.
 */

let last: Promise<void> = Promise.resolve();

/**
 * Resolves in a turn of the event loop that nobody else got from here.
 *
 * @example
 * for (const piece of pieces) {
 *   await yieldToEventLoop();
 *   hash.update(piece);
 * }
 */
export function yieldToEventLoop(): Promise<void> {
  last = last.then(() => new Promise<void>((resume) => setImmediate(resume)));
  return last;
}
