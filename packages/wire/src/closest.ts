/** Suggestions for misspelt words in messages. Imports nothing. */

/** The candidate with the smallest edit distance to the word, if the distance is at most a third of the word's length. */
export function closest(word: string, candidates: Iterable<string>): string | undefined {
  const limit = Math.ceil(word.length / 3);
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase().replaceAll("_", ""), candidate.toLowerCase(), limit);
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit || a.length > 64) return limit + 1;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
