/**
 * Converts SentencePiece BPE scores to BPE merges. SentencePiece joins, at each step, the adjacent pieces whose concatenation has the best
 * score. Ordinary BPE does the same if it has one merge for every split of a token into two tokens, ranked by score.
 */

/**
 * Returns the merges, best first.
 * @param isPiece Whether a token id takes part in merges; control, unknown and byte tokens do not.
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
      if (isLowSurrogate(token.charCodeAt(cut))) continue; // not inside a surrogate pair
      const left = token.slice(0, cut);
      const right = token.slice(cut);
      if (ids.has(left) && ids.has(right)) merges.push({ left, right, id, score });
    }
  }
  merges.sort((a, b) => b.score - a.score || a.id - b.id || b.left.length - a.left.length);
  return merges.map(({ left, right }) => [left, right]);
}

const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
