/**
 * SentencePiece's BPE in terms of merges. It joins, at each step, the neighbours whose union has the best score in the vocabulary;
 * with one merge for every way to cut a token in two known tokens, ranked by score, ordinary BPE does the same.
 */

/**
 * Merges, best first.
 * @param isPiece Whether a token (by id) takes part: control, unknown and lone-byte tokens do not.
 */
export function mergesFromScores(
  tokens: readonly string[],
  scores: ArrayLike<number>,
  isPiece: (id: number) => boolean,
): [string, string][] {
  const ids = new Map<string, number>();
  tokens.forEach((token, id) => {
    if (isPiece(id) && !ids.has(token)) ids.set(token, id);
  });
  const merges: { left: string; right: string; id: number; score: number }[] = [];
  for (const [token, id] of ids) {
    const score = scores[id] as number;
    for (let cut = 1; cut < token.length; cut++) {
      if (isLowSurrogate(token.charCodeAt(cut))) continue; // not between two halves of one character
      const left = token.slice(0, cut);
      const right = token.slice(cut);
      if (ids.has(left) && ids.has(right)) merges.push({ left, right, id, score });
    }
  }
  merges.sort((a, b) => b.score - a.score || a.id - b.id || b.left.length - a.left.length);
  return merges.map(({ left, right }) => [left, right]);
}

const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
