/**
 * The sequences of a request as a tree of common prefixes, found by content alone, and its division into pieces that are worth
 * computing together. Pure index arithmetic over token ids; how a piece is laid out is `pack-tree.ts`.
 */

/** Tokens `[start, end)` of every sequence in the subtree. */
export interface PrefixNode {
  /** A sequence that holds these tokens. */
  readonly member: number;
  start: number;
  readonly end: number;
  /** Sequences that end here. */
  readonly endings: number[];
  readonly children: PrefixNode[];
}

/** Sequences that run together, and how many distinct tokens they have. */
export interface ArrayChunk {
  members: number[];
  tokens: number;
}

const compare = (a: Int32Array, b: Int32Array): number => {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
};

const commonLength = (a: Int32Array, b: Int32Array): number => {
  const length = Math.min(a.length, b.length);
  let i = 0;
  while (i < length && a[i] === b[i]) i++;
  return i;
};

/**
 * The tree of these members (indices into `sequences`), as its nodes, children before their parents. Those that start at 0 have
 * nothing in common. Trees may be as deep as sequences are long, so that nothing here or behind calls itself for each level.
 */
export const prefixTree = (sequences: readonly Int32Array[], members: readonly number[]): PrefixNode[] => {
  const order = [...members].sort((a, b) => compare(sequences[a]!, sequences[b]!) || a - b);
  const nodeAt = (member: number, end: number): PrefixNode => ({ member, start: 0, end, endings: [], children: [] });
  const adopt = (parent: PrefixNode, child: PrefixNode): void => {
    child.start = parent.end;
    parent.children.push(child);
    nodes.push(child);
  };
  const nodes: PrefixNode[] = [];
  // The path to the sequence that was added last; in sorted order only its end changes.
  const path = [nodeAt(order[0] ?? 0, 0)];
  order.forEach((member, index) => {
    const sequence = sequences[member]!;
    const common = index === 0 ? 0 : commonLength(sequences[order[index - 1]!]!, sequence);
    while (path.at(-1)!.end > common) {
      const left = path.pop()!;
      const parent = path.at(-1)!;
      if (parent.end < common) {
        const branch = nodeAt(left.member, common);
        adopt(branch, left);
        path.push(branch);
      } else adopt(parent, left);
    }
    if (sequence.length > common) path.push(nodeAt(member, sequence.length));
    path.at(-1)!.endings.push(member);
  });
  for (let left = path.pop()!; path.length > 0; left = path.pop()!) adopt(path.at(-1)!, left);
  return nodes;
};

/** A branch is used where it saves this share of the tokens below it; less would not pay for another layout of attention. */
const worthwhileShare = 1 / 20;
/** A piece may exceed the usual size of a run as long as cutting it would repeat more than this share of it. */
const repeatedShare = 1 / 8;

export interface PieceLimits {
  /** Tokens that a run usually has. */
  readonly maxTokens: number;
  /** Tokens that a piece may have where cutting it would repeat much. */
  readonly mostTokens: number;
}

/** The smaller list goes into the larger, so that all merging together stays fast. */
const joined = (a: number[], b: readonly number[]): number[] => {
  const [large, small] = a.length < b.length ? [[...b], a] : [a, b];
  for (const member of small) large.push(member);
  return large;
};

/** Pieces that meet at a node, merged where that is worthwhile. */
const mergeAt = (
  depth: number,
  pieces: readonly ArrayChunk[],
  { maxTokens, mostTokens }: PieceLimits,
): readonly ArrayChunk[] => {
  const total = pieces.reduce((sum, { tokens }) => sum + tokens, 0);
  const saved = depth * (pieces.length - 1);
  if (saved === 0 || saved < worthwhileShare * (total - saved)) return pieces;
  const limit = Math.min(mostTokens, Math.max(maxTokens, depth / repeatedShare));
  const merged: ArrayChunk[] = [];
  for (const piece of pieces) {
    // What ends within another sequence of a piece adds nothing to it, however long that is.
    const fits = ({ tokens }: ArrayChunk): boolean =>
      tokens + piece.tokens - depth <= Math.max(limit, tokens, piece.tokens);
    const room = merged.find(fits);
    if (room) {
      room.members = joined(room.members, piece.members);
      room.tokens += piece.tokens - depth;
    } else merged.push({ ...piece });
  }
  return merged;
};

/** Sequences divided into pieces, ordered by their first members. Without common prefixes each is a piece of its own. */
export const planPieces = (sequences: readonly Int32Array[], limits: PieceLimits): ArrayChunk[] => {
  const nodes = prefixTree(
    sequences,
    sequences.map((_, index) => index),
  );
  const below = new Map<PrefixNode, readonly ArrayChunk[]>();
  const collect = ({ children, endings, end }: PrefixNode): ArrayChunk[] => {
    const pieces: ArrayChunk[] = [];
    for (const child of children) {
      for (const piece of below.get(child)!) pieces.push(piece);
      below.delete(child);
    }
    // What ends within a piece that shares anyway costs nothing there; elsewhere it has to be worthwhile.
    const host = endings.length > 0 && pieces.find(({ members }) => members.length > 1);
    if (host) host.members = joined(host.members, endings);
    else if (endings.length > 0) pieces.unshift({ members: [...endings], tokens: end });
    return pieces;
  };
  for (const node of nodes) below.set(node, mergeAt(node.end, collect(node), limits));
  const pieces = [...below.values()].flat();
  for (const { members } of pieces) members.sort((a, b) => a - b);
  return pieces.sort((a, b) => a.members[0]! - b.members[0]!);
};
