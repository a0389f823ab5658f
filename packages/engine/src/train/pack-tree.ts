/**
 * Lays out pieces of a prefix tree for one run: the distinct tokens on one axis, their clusters in a few rectangles for attention, and the
 * indices that sum the gradients of repeated keys. Index arithmetic only; the graph is `treeAttention`.
 */

import type { ModelConfig } from "@tinklet/models/config";
import { keyGradientClasses, masked } from "../model/attention.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import { type Cluster, keysOf, planClusters, type Segment, segmentsOf } from "./clusters.ts";
import { groupCounts } from "./pack.ts";
import { partition } from "./partition.ts";
import { sumClasses } from "./sum-classes.ts";

export interface PackedTree {
  readonly tokenCount: number;
  /** By sequence index: the row of each of the sequence's tokens on the packed axis. */
  readonly rows: ReadonlyMap<number, Int32Array>;
  readonly groupCount: number;
  readonly longest: number;
  /** Scores per head, padding included. */
  readonly cells: number;
  /** Gathered key rows, padding included. */
  readonly keys: number;
  /** All inputs that `treeInputs` declares, except the rotary tables. */
  readonly inputs: () => Record<string, Value>;
}

/** Clusters that share a rectangle, which has the size of the largest of them. */
interface Rectangle {
  readonly clusters: readonly Cluster[];
  readonly queries: number;
  readonly keys: number;
}

const planRectangles = (clusters: readonly Cluster[]): Rectangle[] => {
  const sorted = clusters.toSorted((a, b) => keysOf(b) - keysOf(a) || b.queries - a.queries);
  let most = 0;
  const ends = partition(sorted.length, {
    limit: groupCounts.at(-1)!,
    work: (start, end) => {
      most = Math.max(start === end - 1 ? 0 : most, sorted[start]!.queries);
      return (end - start) * most * keysOf(sorted[start]!);
    },
  });
  return ends.map((end, index) => {
    const members = sorted.slice(ends[index - 1] ?? 0, end);
    return {
      clusters: members,
      queries: Math.max(...members.map(({ queries }) => queries)),
      keys: keysOf(members[0]!),
    };
  });
};

/** Rows of the path from the root to `segment` inclusive, `length` of them. */
const pathRows = (segment: Segment | undefined, length: number): Int32Array => {
  const rows = new Int32Array(length);
  for (let at = segment; at; at = at.parent) {
    for (let t = at.start; t < Math.min(at.end, length); t++) rows[t] = at.row + t - at.start;
  }
  return rows;
};

/** Rows and mask of one cluster in a rectangle. `keys` are its rows, in the order of the mask's columns. */
const layCluster = (
  { segments, queries, depth }: Cluster,
  { width, mask }: { width: number; mask: Float32Array },
): { queries: Int32Array; keys: Int32Array } => {
  const own = new Int32Array(queries);
  const first = new Map<Segment, number>();
  let at = 0;
  for (const segment of segments) {
    const { start, end, row, parent } = segment;
    first.set(segment, at);
    const above = parent && first.get(parent);
    for (let t = 0; t < end - start; t++, at++) {
      own[at] = row + t;
      const line = at * width;
      // Attends to the keys of the previous token, and to itself.
      if (t > 0) mask.copyWithin(line, line - width, line);
      else if (parent && above !== undefined) {
        const before = (above + parent.end - parent.start - 1) * width;
        mask.copyWithin(line, before, before + width);
      } else mask.fill(0, line, line + depth);
      mask[line + depth + at] = 0;
    }
  }
  const keys = new Int32Array(depth + queries);
  keys.set(pathRows(segments[0]!.parent, depth));
  keys.set(own, depth);
  return { queries: own, keys };
};

/** Rows of each head, `[batch, heads, time]`; lines of `rows` shorter than `time` are padded with their first row. */
const headIndex = (lines: readonly Int32Array[], heads: number, time: number): Int32Array => {
  const index = new Int32Array(lines.length * heads * time);
  lines.forEach((rows, line) => {
    for (let head = 0; head < heads; head++) {
      const at = (line * heads + head) * time;
      for (let t = 0; t < time; t++) index[at + t] = (rows[t] ?? rows[0]!) * heads + head;
    }
  });
  return index;
};

/** Location of a token's keys in the rectangles: the row of its first head, and the step to the next head. */
interface Occurrence {
  readonly row: number;
  readonly stride: number;
}

/** Gathers each key's gradients. Keys with a similar number of occurrences are in one class, so that little is padded. */
const sumInputs = (occurrences: readonly Occurrence[][], kvHeads: number, zeroRow: number): Record<string, Value> => {
  const classes = sumClasses(
    occurrences.map(({ length }) => length),
    keyGradientClasses,
  );
  const inputs: Record<string, Value> = {};
  const unpack = new Int32Array(occurrences.length * kvHeads);
  let row = 0;
  for (let index = 0; index < keyGradientClasses; index++) {
    const { members, times } = classes[index] ?? { members: [], times: 1 };
    const table = new Int32Array(Math.max(1, members.length * kvHeads) * times).fill(zeroRow);
    members.forEach((token, place) => {
      for (let head = 0; head < kvHeads; head++) {
        unpack[token * kvHeads + head] = row + place * kvHeads + head;
        const line = (place * kvHeads + head) * times;
        for (const [i, at] of occurrences[token]!.entries()) table[line + i] = at.row + head * at.stride;
      }
    });
    inputs[`sum${index}.kv`] = i32(table, [table.length / times, times]);
    row += table.length / times;
  }
  inputs["unpack.kv"] = i32(unpack, [unpack.length]);
  return inputs;
};

const rectangleInputs = (
  { heads, kvHeads }: ModelConfig,
  { rectangles, groupCount, tokenCount }: { rectangles: readonly Rectangle[]; groupCount: number; tokenCount: number },
): Record<string, Value> => {
  const inputs: Record<string, Value> = {};
  const unpack = new Int32Array(tokenCount * heads);
  const occurrences = Array.from({ length: tokenCount }, (): Occurrence[] => []);
  const base = { q: 0, kv: 0 };
  for (let index = 0; index < groupCount; index++) {
    // A program with more rectangles than needed computes one score in each of the others; its result is not used.
    const { clusters, queries, keys } = rectangles[index] ?? { clusters: [], queries: 1, keys: 1 };
    const batch = Math.max(1, clusters.length);
    const mask = new Float32Array(batch * queries * keys).fill(masked);
    const valid = new Float32Array(batch * queries);
    const lines = clusters.map((cluster, line) => {
      valid.fill(1, line * queries, line * queries + cluster.queries);
      const plane = mask.subarray(line * queries * keys, (line + 1) * queries * keys);
      return layCluster(cluster, { width: keys, mask: plane });
    });
    lines.forEach((line, b) => {
      line.queries.forEach((row, t) => {
        for (let head = 0; head < heads; head++) {
          unpack[row * heads + head] = base.q + (b * heads + head) * queries + t;
        }
      });
      line.keys.forEach((row, t) => {
        occurrences[row]!.push({ row: base.kv + b * kvHeads * keys + t, stride: keys });
      });
    });
    const rowsOf = (side: "queries" | "keys"): Int32Array[] =>
      lines.length > 0 ? lines.map((line) => line[side]) : [new Int32Array(1)];
    inputs[`group${index}.q`] = i32(headIndex(rowsOf("queries"), heads, queries), [batch, heads, queries]);
    inputs[`group${index}.kv`] = i32(headIndex(rowsOf("keys"), kvHeads, keys), [batch, kvHeads, keys]);
    inputs[`group${index}.mask`] = f32(mask, [batch, 1, queries, keys]);
    inputs[`group${index}.valid`] = f32(valid, [batch, 1, queries, 1]);
    base.q += batch * heads * queries;
    base.kv += batch * kvHeads * keys;
  }
  inputs["unpack.q"] = i32(unpack, [unpack.length]);
  return Object.assign(inputs, sumInputs(occurrences, kvHeads, base.kv));
};

/** Lays out pieces, each a list of indices into `sequences`; sequences of different pieces share nothing. */
export const packTree = (
  config: ModelConfig,
  sequences: readonly Int32Array[],
  pieces: readonly (readonly number[])[],
): PackedTree => {
  const rows = new Map<number, Int32Array>();
  const all: Segment[] = [];
  const clusters: Cluster[] = [];
  let tokenCount = 0;
  for (const members of pieces) {
    const { segments, last } = segmentsOf(sequences, members);
    // Parents come before their children.
    for (const segment of segments.toReversed()) {
      segment.row = tokenCount;
      tokenCount += segment.end - segment.start;
    }
    for (const member of members) rows.set(member, pathRows(last.get(member), sequences[member]!.length));
    for (const segment of segments) all.push(segment);
    for (const cluster of planClusters(segments)) clusters.push(cluster);
  }
  const rectangles = planRectangles(clusters);
  const groupCount = groupCounts.find((size) => size >= rectangles.length)!;
  const sizes = rectangles.map((rectangle) => ({ ...rectangle, batch: rectangle.clusters.length }));
  return {
    tokenCount,
    rows,
    groupCount,
    longest: Math.max(...all.map(({ end }) => end)),
    cells: sizes.reduce((sum, { batch, queries, keys }) => sum + batch * queries * keys, 0),
    keys: sizes.reduce((sum, { batch, keys }) => sum + batch * keys, 0),
    inputs: () => {
      const tokens = new Int32Array(tokenCount);
      const positions = new Int32Array(tokenCount);
      for (const { member, start, end, row } of all) {
        tokens.set(sequences[member]!.subarray(start, end), row);
        for (let t = start; t < end; t++) positions[row + t - start] = t;
      }
      return {
        tokens: i32(tokens, [tokenCount]),
        positions: i32(positions, [tokenCount, 1]),
        ...rectangleInputs(config, { rectangles, groupCount, tokenCount }),
      };
    },
  };
};
