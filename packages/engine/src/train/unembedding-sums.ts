/**
 * The sparse part of the gradient of the unembedding's B on a device: slope · z at the row of each target. Rows of equal targets are
 * gathered and summed, and each sum is written once, because the order of additions in a scatter depends on threads.
 */
import type { Graph, Tensor } from "../graph/graph.ts";
import { add, concat, gather, mul, reduceSum, squeeze } from "../graph/ops.ts";
import type { TrainingHead } from "../model/head.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import { type HeadRow, widthOf } from "./head-rows.ts";
import { type SumClass, sumClasses } from "./sum-classes.ts";

/** Maximum number of classes of targets with a similar number of occurrences. */
const classCount = 3;

/** The gradient of B including its sparse part. */
export const wholeUnembedding = (graph: Graph, { dB, slopes, inner }: NonNullable<TrainingHead["lora"]>): Tensor => {
  const rows = graph.input("unembed.rows", [slopes.shape[0]!], { dtype: "int32" });
  const products = mul(graph, gather(graph, inner, rows), slopes); // [slopes, rank]
  const laid = concat(graph, [products, graph.input("unembed.zero", [1, "rank"])], 0, "unembed.products");
  const sums = Array.from({ length: classCount }, (_, i) => {
    const table = graph.input(`unembed.sum${i}`, [`unembed.class${i}`, `unembed.times${i}`], { dtype: "int32" });
    return squeeze(graph, reduceSum(graph, gather(graph, laid, table), [1]), 1);
  });
  const targets = graph.input("unembed.targets", ["unembed.distinct"], { dtype: "int32" });
  const positions = graph.input("unembed.positions", ["unembed.distinct", 1], { dtype: "int64" });
  const sparse = concat(graph, sums, 0, "unembed.distinct");
  return graph.node("ScatterND", [dB, positions, add(graph, gather(graph, dB, targets), sparse)], dB.shape);
};

/** Inputs of `wholeUnembedding`, for the columns of weighted slots in the head's order. */
export const unembeddingInputs = (
  slots: readonly (readonly HeadRow[])[],
  { vocabSize, rank }: { readonly vocabSize: number; readonly rank: number },
): Record<string, Value> => {
  const columns = slots.reduce((sum, slot) => sum + slot.length * widthOf(slot), 0);
  const rows = new Int32Array(columns);
  const byTarget = new Map<number, number[]>();
  let [line, at] = [0, 0];
  for (const slot of slots) {
    const width = widthOf(slot);
    for (const { targets } of slot) {
      rows.fill(line++, at, at + width);
      targets.forEach((target, k) => {
        const known = byTarget.get(target);
        if (known) known.push(at + k);
        else byTarget.set(target, [at + k]);
      });
      at += width;
    }
  }
  const distinct = [...byTarget];
  const counts = distinct.map(([, members]) => members.length);
  const classes = withoutGaps(sumClasses(counts, classCount));
  const inputs: Record<string, Value> = {};
  const targets: number[] = [];
  const unused = unusedTargets(byTarget, vocabSize);
  for (const [index, { members, times }] of classes.entries()) {
    const table = new Int32Array(Math.max(1, members.length) * times).fill(columns);
    members.forEach((member, place) => {
      const [target, own] = distinct[member]!;
      targets.push(target);
      table.set(own, place * times);
    });
    // An empty class writes zeros to a row that no other class uses.
    if (members.length === 0) targets.push(unused.next().value);
    inputs[`unembed.sum${index}`] = i32(table, [table.length / times, times]);
  }
  const positions = Int32Array.from(targets);
  return {
    ...inputs,
    "unembed.rows": i32(rows, [columns]),
    "unembed.zero": f32(new Float32Array(rank), [1, rank]),
    "unembed.targets": i32(positions, [positions.length]),
    "unembed.positions": i32(positions, [positions.length, 1]),
  };
};

/**
 * Exactly as many classes as the graph has; if fewer are needed, members of others are moved to classes of their own. A class is empty only
 * if there are fewer targets than classes.
 */
const withoutGaps = (classes: readonly SumClass[]): SumClass[] => {
  const all = [...classes];
  while (all.length < classCount) {
    const from = all.findIndex(({ members }) => members.length > 1);
    if (from < 0) {
      all.push({ members: [], times: 1 });
      continue;
    }
    const { members, times } = all[from]!;
    all[from] = { members: members.slice(0, -1), times };
    all.push({ members: members.slice(-1), times });
  }
  return all;
};

/** Tokens that are not targets. */
function* unusedTargets(used: ReadonlyMap<number, unknown>, vocabSize: number): Generator<number, never> {
  for (let token = 0; token < vocabSize; token++) if (!used.has(token)) yield token;
  throw new RangeError("more classes of targets than tokens");
}
