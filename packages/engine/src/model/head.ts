/**
 * The vocabulary projection, in slots of rows: final hidden states to log-probs of targets and, where a position has weight, back
 * to the gradient of the hidden states. A slot's `[rows, vocabulary]` matrix is dead before the next slot's is made, so the full
 * one never exists. Positions without weight go through slots that have no backward half.
 *
 * The gradient never forms d loss / d logits. With s the slope of each target and P the softmax of a row,
 * d logits = Σₖ sₖ (onehot(tₖ) − P), so d x = Σₖ sₖ E[tₖ] − (Σₖ sₖ) · P·E: one product with P, as in the forward pass, and a few rows.
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

/** What a head needs besides the rows themselves. */
export interface HeadInputs {
  /** `[vocabulary, hidden]`. */
  readonly unembedding: Tensor;
  readonly lora?: { readonly a: Tensor; readonly b: Tensor; readonly scale: Tensor };
}

/** The unembedding of a model: its own matrix, or the embedding when they are tied. */
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
 * Softmax and log-sum-exp of each row. The latter is max − log(max P): the largest probability is at least 1 / vocabulary, so
 * unlike the log of a target's probability this neither underflows nor needs another pass over the exponentials.
 */
export const normalise = (graph: Graph, logits: Tensor): { probabilities: Tensor; logSumExp: Tensor } => {
  const probabilities = softmax(graph, logits);
  return {
    probabilities,
    logSumExp: sub(graph, reduceMax(graph, logits), log(graph, reduceMax(graph, probabilities))),
  };
};

/**
 * One slot of rows, or of none. All inputs have a leading size named after the slot; each slot has as many targets per row as its own rows need.
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

/** Values of the slots, each `[rows, targets]`, end to end: `[all, 1]`. */
const endToEnd = (graph: Graph, slots: readonly Tensor[], size: string): Tensor =>
  concat(
    graph,
    slots.map((slot) => flatten(graph, slot, 2)),
    0,
    size,
  );

/** Log-probs `[rows, targets]` of a slot without weight. */
const scoreSlot = (graph: Graph, hidden: Tensor, slot: Slot, head: HeadInputs): Tensor => {
  const { logits } = logitsOf(graph, gather(graph, hidden, slot.rows), head);
  return sub(graph, gatherElements(graph, logits, slot.targets), normalise(graph, logits).logSumExp);
};

/** The common formula of all slopes, see `losses.ts`. Everything is `[rows, targets]`. */
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
  /** First those of the weighted slots in order, then the others', each slot's `[rows, targets]` end to end. */
  readonly logprobs: Tensor;
  /** `[tokens, hidden]`: gradient of the final hidden states. */
  readonly dHidden: Tensor;
  /** Of the unembedding's adapter, if it has one. `dB` lacks its sparse part: see `slopes` and `inner`. */
  readonly lora?: { readonly dA: Tensor; readonly dB: Tensor; readonly slopes: Tensor; readonly inner: Tensor };
}

/**
 * Builds a head that scores `weighted` + `unweighted` slots and differentiates the weighted ones.
 *
 * d B of the unembedding's adapter is Σ sₖ·z at row tₖ, minus Pᵀ·(Σₖ sₖ)·z. The first, sparse part is left to the caller (rows of
 * `slopes`, laid out as the log-probs, and `inner` `[rows, rank]`): a scatter inside the graph would add in an order that threads decide.
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
    /** Σₖ sₖ · matrix[tₖ] − total · P·matrix, for the unembedding and for B alike. */
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
  // Rows without weight have no gradient: their index points at a row of zeros behind all others.
  const hiddenSize = hidden.shape[1] as number;
  const zeros = graph.constant(new Float32Array(hiddenSize), [1, hiddenSize]);
  const source = graph.input("gradient.rows", [hidden.shape[0]!], { dtype: "int32" });
  const sum = (parts: Tensor[]): Tensor => parts.reduce((total, part) => add(graph, total, part));
  return {
    logprobs: endToEnd(graph, logprobs, "scored"),
    dHidden: gather(graph, concat(graph, [...dRows, zeros], 0, "weightedRows"), source),
    ...(head.lora && lora.dA.length > 0
      ? {
          lora: {
            dA: sum(lora.dA),
            dB: sum(lora.dB),
            slopes: endToEnd(graph, lora.slopes, "slopes"),
            inner: concat(graph, lora.inner, 0, "weighted"),
          },
        }
      : {}),
  };
};

/** Builds a head that only scores. */
export const buildScoringHead = (graph: Graph, hidden: Tensor, head: HeadInputs, slots: number): Tensor =>
  endToEnd(
    graph,
    Array.from({ length: slots }, (_, index) =>
      scoreSlot(graph, hidden, declareSlot(graph, `unweighted${index}`), head),
    ),
    "scored",
  );
