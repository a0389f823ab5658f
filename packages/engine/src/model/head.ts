/**
 * The vocabulary projection (LM head), computed in slots (chunks of rows): final hidden states to log-probs of targets and, for
 * positions with a weight, back to the gradient of the hidden states. A slot's `[rows, vocabulary]` matrix is freed before the next
 * slot's is computed, so the full logits never exist. Positions without weight use slots without a backward pass.
 *
 * The gradient does not materialise d loss / d logits. With s the slope of each target and P the softmax of a row, d logits = Σₖ sₖ
 * (onehot(tₖ) − P), so d x = Σₖ sₖ E[tₖ] − (Σₖ sₖ) · P·E: one product with P, the size of the forward pass, and a few gathered
 * rows.
 */

import type { ModelConfig } from "@tinklet/models/config";
import type { Graph, Tensor } from "../graph/graph.ts";
import {
  add,
  concat,
  exp,
  flatten,
  gather,
  gatherElements,
  greater,
  log,
  matmul,
  maximum,
  minimum,
  mul,
  reduceMax,
  reduceSum,
  softmax,
  squeeze,
  sub,
  unsqueeze,
  where,
} from "../graph/ops.ts";
import { type SlopeTerms, slopeTerms } from "../train/losses.ts";
import { addLora, type LoraInputs } from "./transformer.ts";

/** Weights of the head. */
export interface HeadInputs {
  /** `[vocabulary, hidden]`. */
  readonly unembedding: Tensor;
  readonly lora?: { readonly a: Tensor; readonly b: Tensor; readonly scale: Tensor };
}

/** The unembedding matrix of a model; the embedding table if they are tied. */
export const headInputs = (
  graph: Graph,
  config: ModelConfig,
  embedding: Tensor,
  lora: LoraInputs | undefined,
): HeadInputs => {
  const unembedding = config.tiedEmbeddings
    ? embedding
    : graph.weight("lm_head.weight", [config.vocabSize, config.hiddenSize]);
  const adapted = lora?.modules.get("lm_head");
  return { unembedding, ...(lora && adapted ? { lora: { ...adapted, scale: lora.scale } } : {}) };
};

/** x `[rows, hidden]` to logits `[rows, vocabulary]`; z is the adapter's scaled inner value `[rows, rank]`. */
export const logitsOf = (
  graph: Graph,
  x: Tensor,
  { unembedding, lora }: HeadInputs,
): { logits: Tensor; z?: Tensor } => {
  const base = matmul(graph, x, unembedding, { transB: true });
  if (!lora) return { logits: base };
  const { y, z } = addLora(graph, x, { y: base, ...lora });
  return { logits: y, z };
};

/**
 * Softmax and log-sum-exp of each row. Log-sum-exp is max − log(max P): the largest probability is at least 1 / vocabulary, so this
 * does not underflow, unlike the log of a target's probability, and needs no second pass over the exponentials.
 */
export const normalise = (graph: Graph, logits: Tensor): { probabilities: Tensor; logSumExp: Tensor } => {
  const probabilities = softmax(graph, logits);
  return {
    probabilities,
    logSumExp: sub(graph, reduceMax(graph, logits), log(graph, reduceMax(graph, probabilities))),
  };
};

/**
 * One chunk of rows; may be empty. All inputs have a leading size named after the slot. Each slot has as many targets per row as
 * its rows need.
 */
interface Slot {
  readonly rows: Tensor;
  readonly targets: Tensor;
}

const declareSlot = (graph: Graph, name: string): Slot => {
  graph.possiblyEmpty.add(name);
  return {
    rows: graph.input(`${name}.rows`, [name], { dtype: "int32" }),
    targets: graph.input(`${name}.targets`, [name, `${name}.targets`], { dtype: "int32" }),
  };
};

/** Concatenates the values of the slots, each `[rows, targets]`, to `[all, 1]`. */
const concatSlots = (graph: Graph, slots: readonly Tensor[], size: string): Tensor =>
  concat(
    graph,
    slots.map((slot) => flatten(graph, slot, 2)),
    0,
    size,
  );

/** Log-probs `[rows, targets]` of a slot without weights (forward only). */
const scoreSlot = (graph: Graph, hidden: Tensor, slot: Slot, head: HeadInputs): Tensor => {
  const { logits } = logitsOf(graph, gather(graph, hidden, slot.rows), head);
  return sub(graph, gatherElements(graph, logits, slot.targets), normalise(graph, logits).logSumExp);
};

/** The slope formula that all losses share, see `losses.ts`. All tensors are `[rows, targets]`. */
export const slopeOf = (graph: Graph, logprobs: Tensor, term: (name: keyof SlopeTerms) => Tensor): Tensor => {
  const zero = graph.scalar(0);
  const gap = sub(graph, logprobs, term("samplingLogprob"));
  const ratio = exp(graph, gap);
  const passing = mul(graph, term("ratio"), ratio);
  const belowTop = where(graph, greater(graph, ratio, term("windowHigh")), zero, passing);
  const windowed = where(graph, greater(graph, term("windowLow"), ratio), zero, belowTop);
  const clipped = mul(graph, term("clipped"), minimum(graph, maximum(graph, ratio, term("clipLow")), term("clipHigh")));
  const linear = add(graph, term("constant"), mul(graph, term("gap"), gap));
  return add(graph, windowed, add(graph, clipped, linear));
};

/** Results of a training head; gradients are of the loss summed over all slots. */
export interface TrainingHead {
  /** The weighted slots in order, then the unweighted ones; the `[rows, targets]` of each slot are concatenated. */
  readonly logprobs: Tensor;
  /** `[tokens, hidden]`: gradient of the final hidden states. */
  readonly dHidden: Tensor;
  /** Gradients of the unembedding's adapter, if present. `dB` lacks its sparse part; see `buildTrainingHead`. */
  readonly lora?: { readonly dA: Tensor; readonly dB: Tensor; readonly slopes: Tensor; readonly inner: Tensor };
}

/**
 * Builds a head that scores `weighted` + `unweighted` slots and differentiates the weighted ones.
 *
 * d B of the unembedding's adapter is Σ sₖ·z at row tₖ, minus Pᵀ·(Σₖ sₖ)·z. The caller adds the first, sparse part from `slopes`
 * (in the order of the log-probs) and `inner` `[rows, rank]`: the summation order of a scatter inside the graph would depend on the
 * number of threads.
 */
export const buildTrainingHead = (
  graph: Graph,
  hidden: Tensor,
  head: HeadInputs,
  slots: { weighted: number; unweighted: number },
): TrainingHead => {
  const logprobs: Tensor[] = [];
  const dRows: Tensor[] = [];
  const lora: { dA: Tensor[]; dB: Tensor[]; slopes: Tensor[]; inner: Tensor[] } = {
    dA: [],
    dB: [],
    slopes: [],
    inner: [],
  };
  for (let index = 0; index < slots.weighted; index++) {
    const name = `weighted${index}`;
    const slot = declareSlot(graph, name);
    const table = graph.input(`${name}.terms`, [slopeTerms.length, name, `${name}.targets`]);
    const x = gather(graph, hidden, slot.rows); // [rows, hidden]
    const { logits, z } = logitsOf(graph, x, head);
    const { probabilities, logSumExp } = normalise(graph, logits);
    const scored = sub(graph, gatherElements(graph, logits, slot.targets), logSumExp);
    const slopes = slopeOf(graph, scored, (term) =>
      gather(graph, table, graph.constant(Int32Array.of(slopeTerms.indexOf(term)), [])),
    );
    const total = reduceSum(graph, slopes, [1]); // [rows, 1]
    /** Σₖ sₖ · matrix[tₖ] − total · P·matrix, for the unembedding and for B. */
    const pull = (matrix: Tensor): Tensor => {
      const picked = gather(graph, matrix, slot.targets); // [rows, targets, width]
      const gained = matmul(graph, unsqueeze(graph, slopes, 1), picked); // [rows, 1, width]
      return sub(graph, squeeze(graph, gained, 1), mul(graph, total, matmul(graph, probabilities, matrix)));
    };
    let dX = pull(head.unembedding);
    if (head.lora && z) {
      const dZ = mul(graph, pull(head.lora.b), head.lora.scale);
      dX = add(graph, dX, matmul(graph, dZ, head.lora.a));
      lora.dA.push(matmul(graph, dZ, x, { transA: true }));
      lora.dB.push(matmul(graph, probabilities, mul(graph, total, z), { transA: true, alpha: -1 }));
      lora.slopes.push(slopes);
      lora.inner.push(z);
    }
    logprobs.push(scored);
    dRows.push(dX);
  }
  for (let index = 0; index < slots.unweighted; index++) {
    logprobs.push(scoreSlot(graph, hidden, declareSlot(graph, `unweighted${index}`), head));
  }
  // Rows without weight have no gradient: their index refers to a row of zeros after all others.
  const hiddenSize = hidden.shape[1] as number;
  const zeros = graph.constant(new Float32Array(hiddenSize), [1, hiddenSize]);
  const source = graph.input("gradient.rows", [hidden.shape[0]!], { dtype: "int32" });
  const sum = (parts: Tensor[]): Tensor => parts.reduce((total, part) => add(graph, total, part));
  return {
    logprobs: concatSlots(graph, logprobs, "scored"),
    dHidden: gather(graph, concat(graph, [...dRows, zeros], 0, "weightedRows"), source),
    ...(head.lora && lora.dA.length > 0
      ? {
          lora: {
            dA: sum(lora.dA),
            dB: sum(lora.dB),
            slopes: concatSlots(graph, lora.slopes, "slopes"),
            inner: concat(graph, lora.inner, 0, "weighted"),
          },
        }
      : {}),
  };
};

/** Builds a head that computes only log-probs. */
export const buildScoringHead = (graph: Graph, hidden: Tensor, head: HeadInputs, slots: number): Tensor =>
  concatSlots(
    graph,
    Array.from({ length: slots }, (_, index) =>
      scoreSlot(graph, hidden, declareSlot(graph, `unweighted${index}`), head),
    ),
    "scored",
  );
