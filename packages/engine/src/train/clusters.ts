/**
 * Divides a prefix tree for attention. A segment is a stretch of tokens without a branch; a cluster is one segment or several neighbouring ones
 * whose tokens are queries together. Its keys are the path from the root to it and its own tokens. Every token is a query in exactly one
 * cluster, but a key in each cluster below it, so that small trees are best kept whole and large ones best divided.
 */
import { type PrefixNode, prefixTree } from "./prefix-tree.ts";

/** Tokens `[start, end)` of the sequence `member`, and of every other one below. */
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
  /** Length of the path above, from the root. */
  readonly depth: number;
}

/** What else a key costs, in scores: it is gathered and its gradient summed, twice (key and value). */
const cellsPerKey = 24;
/** What a further cluster costs, in scores: products of its own. */
const cellsPerCluster = 400;

const costOf = (queries: number, depth: number): number =>
  queries * (depth + queries) + cellsPerKey * (depth + queries) + cellsPerCluster;

/** Queries at which a cluster below this depth costs least per query: where (queries + constant) · keys / queries has its minimum. */
const bestQueries = (depth: number): number => Math.sqrt(cellsPerKey * depth + cellsPerCluster);

/** Keys of a cluster. */
export const keysOf = ({ queries, depth }: Cluster): number => depth + queries;

/** Segments of these members, children before their parents, and the one that each member ends in. */
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
      // A sequence that ends where only one goes on makes no branch.
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

/** The cheapest clusters found for segments given children before parents; together they hold each segment once. */
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
