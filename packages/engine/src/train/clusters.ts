/**
 * Divides a prefix tree into clusters for attention. A segment is a sequence of tokens without a branch; a cluster is one or several
 * neighbouring segments whose tokens are queries of one product. Its keys are the path from the root to the cluster and its own tokens.
 * Each token is a query in exactly one cluster, but a key in every cluster below it; so small trees are best kept whole and large ones
 * divided.
 */
import { type PrefixNode, prefixTree } from "./prefix-tree.ts";

/** Tokens `[start, end)` of the sequence `member`, shared by all sequences below. */
export interface Segment {
  readonly member: number;
  start: number;
  readonly end: number;
  readonly children: readonly Segment[];
  parent: Segment | undefined;
  /** Packed row of the first token; the others follow. */
  row: number;
}

export interface Cluster {
  /** Parents before their children. */
  readonly segments: readonly Segment[];
  readonly queries: number;
  /** Length of the path from the root to this segment. */
  readonly depth: number;
}

/** Additional cost of a key, in scores: it is gathered and its gradient summed, both as key and as value. */
const cellsPerKey = 24;
/** Cost of an additional cluster, in scores: it has its own products. */
const cellsPerCluster = 400;

const costOf = (queries: number, depth: number): number =>
  queries * (depth + queries) + cellsPerKey * (depth + queries) + cellsPerCluster;

/**
 * The number of queries at which a cluster below this depth costs least per query: the minimum of (queries + constant) · keys / queries.
 */
const bestQueries = (depth: number): number => Math.sqrt(cellsPerKey * depth + cellsPerCluster);

/** Number of keys of a cluster. */
export const keysOf = ({ queries, depth }: Cluster): number => depth + queries;

/** Segments of these members, children before their parents, and the last segment of each member. */
export const segmentsOf = (
  sequences: readonly Int32Array[],
  members: readonly number[],
): { segments: Segment[]; last: Map<number, Segment> } => {
  const segments: Segment[] = [];
  const last = new Map<number, Segment>();
  const ofNode = new Map<PrefixNode, Segment>();
  for (const node of prefixTree(sequences, members)) {
    const children = node.children.map((child) => ofNode.get(child)!);
    const [only] = children;
    let segment: Segment;
    if (only && children.length === 1) {
      // A sequence that ends where a single other one continues makes no branch.
      segment = only;
      segment.start = node.start;
    } else {
      segment = { member: node.member, start: node.start, end: node.end, children, parent: undefined, row: 0 };
      for (const child of children) child.parent = segment;
      segments.push(segment);
    }
    ofNode.set(node, segment);
    for (const member of node.endings) last.set(member, segment);
  }
  return { segments, last };
};

/** The cheapest clusters found, for segments given children before parents; together they contain each segment once. */
export const planClusters = (segments: readonly Segment[]): Cluster[] => {
  interface Plan {
    readonly tokens: number;
    readonly cost: number;
    readonly clusters: readonly Cluster[];
  }
  const plans = new Map<Segment, Plan>();
  const subtree = (segment: Segment): Segment[] => {
    const all = [segment];
    for (let i = 0; i < all.length; i++) for (const child of all[i]!.children) all.push(child);
    return all;
  };
  for (const segment of segments) {
    const { start, end, children } = segment;
    const length = end - start;
    const tokens = children.reduce((sum, child) => sum + plans.get(child)!.tokens, length);
    const clusters: Cluster[] = [];
    let cost = 0;
    let open: Cluster | undefined; // whole children that share a cluster
    for (const child of children) {
      const plan = plans.get(child)!;
      const together = open ? costOf(open.queries + plan.tokens, end) : Number.POSITIVE_INFINITY;
      const small = open !== undefined && open.queries < bestQueries(end);
      if (open && small && together <= costOf(open.queries, end) + plan.cost) {
        cost += together - costOf(open.queries, end);
        open = { segments: [...open.segments, ...subtree(child)], queries: open.queries + plan.tokens, depth: end };
      } else {
        if (open) clusters.push(open);
        open = plan.clusters.length === 1 ? plan.clusters[0] : undefined;
        if (!open) clusters.push(...plan.clusters);
        cost += plan.cost;
      }
    }
    if (open) clusters.push(open);
    const divided = cost + costOf(length, start);
    const whole = costOf(tokens, start);
    plans.set(
      segment,
      whole <= divided
        ? { tokens, cost: whole, clusters: [{ segments: subtree(segment), queries: tokens, depth: start }] }
        : { tokens, cost: divided, clusters: [{ segments: [segment], queries: length, depth: start }, ...clusters] },
    );
  }
  return segments.filter(({ parent }) => !parent).flatMap((segment) => plans.get(segment)!.clusters);
};
