/**
 * Builds a tree of common prefixes from a request's sequences, by content alone, and divides it into pieces that are computed together.
 * Index arithmetic over token ids; the layout of a piece is in `pack-tree.ts`.
 */

/** Tokens `[start, end)`, equal in every sequence of the subtree. */
export interface PrefixNode {
  /** A sequence with these tokens. */
  readonly member: number;
  start: number;
  readonly end: number;
  /** Sequences that end here. */
  readonly endings: number[];
  readonly children: PrefixNode[];
}

/** Sequences that run together, and their number of distinct tokens. */
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
 * The tree of these members (indices into `sequences`) as a list of nodes, children before their parents. Nodes that start at 0 have no
 * common prefix. Trees may be as deep as sequences are long, so this module and its callers do not recurse per level.
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
  // The path to the last added sequence; in sorted order only its end changes.
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

/** Minimum share of tokens that a branch must save; less does not pay for tree attention. */
const worthwhileShare = 1 / 20;
/** A piece may exceed the usual size of a run if splitting it would repeat more than this share of it. */
const repeatedShare = 1 / 8;

export interface PieceLimits {
  /** Usual tokens of a run. */
  readonly maxTokens: number;
  /** Maximum tokens of a piece if splitting it would repeat many tokens. */
  readonly mostTokens: number;
}

/** Moves the smaller list into the larger one, so that the total time of merging stays near linear. */
const joined = (a: number[], b: readonly number[]): number[] => {
  const [large, small] = a.length < b.length ? [[...b], a] : [a, b];
  for (const member of small) large.push(member);
  return large;
};

/** Merges pieces that meet at a node, if it pays off. */
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
    // A sequence that is a prefix of another one in the piece adds no tokens.
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

/** Divides sequences into pieces, ordered by their first members. Without common prefixes each sequence is a piece of its own. */
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
    // A sequence that is a prefix within a piece with sharing costs nothing there; otherwise sharing must pay off.
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
