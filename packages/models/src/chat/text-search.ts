/**
 * Finds the first of several texts in a stream, and never lets out a piece of one: what may be the beginning of a wanted text waits until
 * it is known not to be. Time is linear in the stream for each wanted text, whatever they are (Knuth, Morris and Pratt).
 */

/** What one piece of the stream gave. */
export interface SearchStep {
  /** Certain to come before any wanted text. */
  readonly text: string;
  /** The wanted text that is now complete; it is not part of `text`. */
  readonly found?: string;
  /** What of the piece stands behind it. */
  readonly rest: string;
}

/** A search through a stream. It goes on after a find, from the beginning. */
export interface TextSearch {
  push(piece: string): SearchStep;
  /** What was held back, when nothing follows. */
  end(): string;
}

interface Wanted {
  readonly text: string;
  /** For each length of a match, the longest shorter one that is also a beginning. */
  readonly shorter: Int32Array;
  matched: number;
}

/** The first wanted text to be complete counts; of two that end together, the longer one. */
export function createTextSearch(texts: readonly string[]): TextSearch {
  const wanted: Wanted[] = [...new Set(texts)]
    .filter((text) => text !== "")
    .sort((a, b) => b.length - a.length)
    .map((text) => ({ text, shorter: shorterMatches(text), matched: 0 }));
  let held = "";
  return {
    push(piece) {
      const all = held + piece;
      for (let at = held.length; at < all.length; at++) {
        const found = advance(wanted, all.charCodeAt(at));
        if (found === undefined) continue;
        held = "";
        for (const one of wanted) one.matched = 0;
        return { text: all.slice(0, at + 1 - found.length), found, rest: all.slice(at + 1) };
      }
      const longest = wanted.reduce((most, { matched }) => Math.max(most, matched), 0);
      held = all.slice(all.length - longest);
      return { text: all.slice(0, all.length - longest), rest: "" };
    },
    end() {
      const left = held;
      held = "";
      for (const one of wanted) one.matched = 0;
      return left;
    },
  };
}

/** Takes one more character into every match; returns the text that it completes. */
function advance(wanted: readonly Wanted[], character: number): string | undefined {
  let found: string | undefined;
  for (const one of wanted) {
    while (one.matched > 0 && one.text.charCodeAt(one.matched) !== character) one.matched = one.shorter[one.matched]!;
    if (one.text.charCodeAt(one.matched) === character) one.matched++;
    if (one.matched === one.text.length) found ??= one.text;
  }
  return found;
}

function shorterMatches(text: string): Int32Array {
  const shorter = new Int32Array(text.length + 1);
  for (let length = 2, matched = 0; length <= text.length; length++) {
    const character = text.charCodeAt(length - 1);
    while (matched > 0 && text.charCodeAt(matched) !== character) matched = shorter[matched]!;
    if (text.charCodeAt(matched) === character) matched++;
    shorter[length] = matched;
  }
  return shorter;
}
