/**
 * Draws a token for each row of logits, like `chooseToken` with the same random number: temperature, top-k, top-p, min-p, then a search in running
 * sums. Sums are float32 here and double on the host, so a random number very close to a boundary may select the neighbouring token.
 */
import { product } from "../../graph/dims.ts";
import { Graph, type Tensor } from "../../graph/graph.ts";
import {
  add,
  gather,
  gatherElements,
  greater,
  minimum,
  mul,
  reduceMax,
  reduceSum,
  reshape,
  softmax,
  sub,
  topK,
  where,
} from "../../graph/ops.ts";

/** Maximum number of candidates for filters; if the nucleus is larger, the host draws. */
export const mostCandidates = 1024;

/** ONNX's code of int32. */
const int32Code = 6;

/** The largest float32 factor below 1 whose product with any number is less than that number. */
export const belowOne = 1 - 2 ** -23;

/** All ids as floats (0, 1, 2 …); a table kept on the device. */
export const idsInput = "draw.ids";
/** Ranks of candidates (1, 2, 3 …); a table kept on the device. */
export const ranksInput = "draw.ranks";

/** Row inputs of a draw, `[rows, 1]` each. */
export const drawInputs = {
  /** 1 / temperature. */
  coldness: "draw.coldness",
  /** 1 for rows that use the most likely token. */
  greedy: "draw.greedy",
  /** At most `belowOne`. */
  random: "draw.random",
} as const;

/** Additional inputs of rows with filters. */
export const filterInputs = {
  /** 1 for rows with any filter. */
  filtered: "draw.filtered",
  /** The number of candidates if top-k is off. */
  topK: "draw.topK",
  /** 1 if top-k is off. */
  topKOff: "draw.topKOff",
  /** 2 if top-p is off. */
  topP: "draw.topP",
  minP: "draw.minP",
} as const;

/** A divisor of the vocabulary size near its square root: sums are computed per block, then within one block. */
export const blockOf = (vocabSize: number): number => {
  let count = Math.floor(Math.sqrt(vocabSize));
  while (vocabSize % count !== 0) count--;
  return vocabSize / count;
};

/** Converts whole floats to indices. */
const asIndices = (graph: Graph, a: Tensor): Tensor =>
  graph.node("Cast", [a], a.shape, { dtype: "int32", attributes: { to: int32Code } });

/** Inclusive running sums of each row. */
const runningSum = (graph: Graph, a: Tensor): Tensor =>
  graph.node("CumSum", [a, graph.constant(Int32Array.of(1), [])], a.shape);

/** The first index at which a running sum exceeds the target, as a float; at most the last index. */
const placeOf = (graph: Graph, sums: Tensor, target: Tensor, places: Tensor): Tensor => {
  const [one, zero] = [graph.scalar(1), graph.scalar(0)];
  const before = reduceSum(graph, where(graph, greater(graph, sums, target), zero, one), [1]);
  return minimum(graph, before, sub(graph, places, one)); // a comparison with NaN sums is false, so the result is bounded
};

const rowInput = (graph: Graph, name: string): Tensor => graph.input(name, ["rows", 1]);

/** A token from the whole distribution, in the order of ids. */
const drawFromAll = (graph: Graph, probabilities: Tensor, random: Tensor, vocabSize: number): Tensor => {
  const size = blockOf(vocabSize);
  const count = vocabSize / size;
  const zero = graph.scalar(0);
  const sums = reshape(graph, reduceSum(graph, reshape(graph, probabilities, ["rows", count, size]), [2]), [
    "rows",
    count,
  ]);
  const running = runningSum(graph, sums);
  const target = mul(graph, random, reduceMax(graph, running));
  const block = placeOf(graph, running, target, graph.scalar(count));
  const before = reduceSum(graph, where(graph, greater(graph, running, target), zero, sums), [1]);
  // Indices into the blocks of all rows; the start of each row is an input from the host.
  const flat = reshape(graph, probabilities, [product(["rows", count]), size]);
  const rowOf = asIndices(graph, add(graph, rowInput(graph, "draw.firstBlock"), block));
  const own = reshape(graph, gather(graph, flat, rowOf), ["rows", size]);
  const ownRunning = runningSum(graph, own);
  // Rounding must neither select an index before the block's first weight nor after its last.
  const most = mul(graph, reduceMax(graph, ownRunning), graph.scalar(belowOne));
  const rest = sub(graph, target, before);
  const positive = where(graph, greater(graph, rest, zero), rest, zero);
  const place = placeOf(graph, ownRunning, minimum(graph, positive, most), graph.scalar(size));
  return add(graph, mul(graph, block, graph.scalar(size)), place);
};

/** A token from the filtered candidates, most likely first, and whether the candidates include all that the filters keep. */
const drawFiltered = (
  graph: Graph,
  probabilities: Tensor,
  random: Tensor,
  ids: Tensor,
): { readonly token: Tensor; readonly complete: Tensor } => {
  const [one, zero] = [graph.scalar(1), graph.scalar(0)];
  const [k, off, p, minP] = [filterInputs.topK, filterInputs.topKOff, filterInputs.topP, filterInputs.minP].map(
    (name) => rowInput(graph, name),
  ) as [Tensor, Tensor, Tensor, Tensor];
  const candidates = graph.input("draw.candidates", [1], { dtype: "int64" });
  const ranks = graph.input(ranksInput, [1, "k"]);
  const { values, indices } = topK(graph, probabilities, candidates);
  const best = where(graph, greater(graph, ranks, k), zero, values); // [rows, k]
  const sums = runningSum(graph, best);
  const held = reduceMax(graph, sums);
  const all = where(graph, greater(graph, off, zero), reduceSum(graph, probabilities, [1]), held);
  const enough = mul(graph, p, all);
  // Kept while the sum of the preceding probabilities is below top-p.
  const nucleus = where(graph, greater(graph, enough, sub(graph, sums, best)), best, zero);
  const least = mul(graph, minP, reduceMax(graph, values));
  const weights = where(graph, greater(graph, least, nucleus), zero, nucleus);
  const running = runningSum(graph, weights);
  const target = mul(graph, random, reduceMax(graph, running));
  const place = placeOf(graph, running, target, reduceMax(graph, ranks));
  const token = gatherElements(graph, gather(graph, ids, indices), asIndices(graph, place));
  const last = sub(graph, zero, reduceMax(graph, sub(graph, zero, values))); // the least likely candidate
  const whole = (condition: Tensor): Tensor => where(graph, condition, one, zero);
  const complete = add(
    graph,
    sub(graph, one, off),
    add(graph, whole(greater(graph, held, enough)), whole(greater(graph, least, last))),
  );
  return { token, complete };
};

/**
 * Adds the draw for `logits` `[rows, vocabulary]`. Outputs, `[rows, 1]` each: `token` (as a float), its `logit`, and `complete`, which is 0
 * if the host must draw instead.
 */
export const drawTokens = (
  graph: Graph,
  logits: Tensor,
  { vocabSize, filtered }: { readonly vocabSize: number; readonly filtered: boolean },
): void => {
  const [one, zero] = [graph.scalar(1), graph.scalar(0)];
  const random = rowInput(graph, drawInputs.random);
  const probabilities = softmax(graph, mul(graph, logits, rowInput(graph, drawInputs.coldness)));
  // WebGPU cannot convert int64, so ids are looked up in a float table.
  const ids = graph.input(idsInput, [vocabSize]);
  const place = graph.node("ArgMax", [logits], ["rows", 1], { dtype: "int64", attributes: { axis: 1, keepdims: 1 } });
  const likeliest = gather(graph, ids, place);
  const isGreedy = greater(graph, rowInput(graph, drawInputs.greedy), zero);
  let token = drawFromAll(graph, probabilities, random, vocabSize);
  // Logits that overflow at this temperature give NaN probabilities.
  let complete = where(graph, greater(graph, reduceMax(graph, probabilities), zero), one, zero);
  if (filtered) {
    const isFiltered = greater(graph, rowInput(graph, filterInputs.filtered), zero);
    const own = drawFiltered(graph, probabilities, random, ids);
    token = where(graph, isFiltered, own.token, token);
    complete = mul(graph, complete, where(graph, isFiltered, own.complete, one));
  }
  const drawn = where(graph, isGreedy, likeliest, token);
  graph.output("token", drawn);
  graph.output("complete", where(graph, isGreedy, one, complete));
  graph.output("logit", gatherElements(graph, logits, asIndices(graph, drawn)));
};

/** The draw alone, for given logits; tests compare it with `chooseToken`. */
export const drawGraph = (vocabSize: number, filtered: boolean): Graph => {
  const graph = new Graph();
  drawTokens(graph, graph.input("logits", ["rows", vocabSize]), { vocabSize, filtered });
  return graph;
};
