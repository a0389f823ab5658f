/**
 * Finds the first of several patterns in a stream. Text that may be the start of a pattern is held back until the match succeeds or fails.
 * Time per pattern is linear in the length of the stream (Knuth-Morris-Pratt).
 */

/** The result of pushing one chunk. */
export interface SearchStep {
  /** Text that is certain to precede any match. */
  readonly text: string;
  /** The pattern that was matched; it is not part of `text`. */
  readonly found?: string;
  /** The part of the chunk after the match. */
  readonly rest: string;
}

/** A search through a stream. After a match it starts over. */
export interface TextSearch {
  push(piece: string): SearchStep;
  /** Call at the end of the stream; returns the text that was held back. */
  end(): string;
}

interface PatternState {
  readonly text: string;
  /** KMP failure function: for each matched length, the longest proper prefix that is also a suffix. */
  readonly failure: Int32Array;
  matched: number;
}

/** The pattern that ends first wins; of two that end at the same character, the longer one. */
export function createTextSearch(texts: readonly string[]): TextSearch {
  const patterns: PatternState[] = [...new Set(texts)]
    .filter((text) => text !== "")
    .sort((a, b) => b.length - a.length)
    .map((text) => ({ text, failure: failureTable(text), matched: 0 }));
  let held = "";
  return {
    push(piece) {
      const all = held + piece;
      for (let at = held.length; at < all.length; at++) {
        const found = advance(patterns, all.charCodeAt(at));
        if (found === undefined) continue;
        held = "";
        for (const one of patterns) one.matched = 0;
        return { text: all.slice(0, at + 1 - found.length), found, rest: all.slice(at + 1) };
      }
      const longest = patterns.reduce((most, { matched }) => Math.max(most, matched), 0);
      held = all.slice(all.length - longest);
      return { text: all.slice(0, all.length - longest), rest: "" };
    },
    end() {
      const left = held;
      held = "";
      for (const one of patterns) one.matched = 0;
      return left;
    },
  };
}

/** Advances every pattern by one character; returns the pattern that it completes. */
function advance(patterns: readonly PatternState[], character: number): string | undefined {
  let found: string | undefined;
  for (const one of patterns) {
    while (one.matched > 0 && one.text.charCodeAt(one.matched) !== character) one.matched = one.failure[one.matched]!;
    if (one.text.charCodeAt(one.matched) === character) one.matched++;
    if (one.matched === one.text.length) found ??= one.text;
  }
  return found;
}

function failureTable(text: string): Int32Array {
  const failure = new Int32Array(text.length + 1);
  for (let length = 2, matched = 0; length <= text.length; length++) {
    const character = text.charCodeAt(length - 1);
    while (matched > 0 && text.charCodeAt(matched) !== character) matched = failure[matched]!;
    if (text.charCodeAt(matched) === character) matched++;
    failure[length] = matched;
  }
  return failure;
}
