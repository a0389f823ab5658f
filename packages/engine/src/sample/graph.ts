/**
 * The graphs that extend sequences by new tokens. Prefill (many tokens per sequence) and decoding (many sequences, one token each) differ
 * only in attention. Inputs are keys and values of earlier tokens; outputs are those of the new tokens. Each sequence may have its own
 * adapter.
 */

import type { ModelConfig } from "@tinklet/models/config";
import type { LoraTargets } from "../adapter/layout.ts";
import { targetLinears } from "../adapter/layout.ts";
import { type Dim, product } from "../graph/dims.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import {
  add,
  concat,
  gather,
  gatherElements,
  matmul,
  mul,
  type RopeTables,
  reduceMax,
  reshape,
  rope,
  softmax,
  split,
  topK,
} from "../graph/ops.ts";
import { attend, scoresOf } from "../model/attention.ts";
import { type HeadInputs, headInputs, logitsOf } from "../model/head.ts";
import { type Attend, buildLayers, embeddingTable, headRows, type LoraInputs } from "../model/transformer.ts";
import { fusedLinears, promptLinears } from "./fused.ts";
import { uncutTerms } from "./run-rows.ts";
import { rankBlock } from "./stack-adapters.ts";

export interface ExtendKey {
  /** Decoding (one new token for each of many sequences) instead of prefill. */
  readonly decode: boolean;
  /** Modules adapted by any active adapter; absent if all sequences use the base model. */
  readonly targets?: LoraTargets;
  /** A matrices are in blocks: see `adapters.ts`. */
  readonly blocked?: boolean;
  /** Also score the new tokens (prompt log-probs). */
  readonly prompt: boolean;
}

/**
 * Stacked adapters: A matrices as `[rank, in]`, B as `[out, rank]`, where `rank` is that of the stack. Each row of `lora.select` has its
 * adapter's scale in that adapter's columns and 0 elsewhere, so that one product serves all adapters.
 */
const stackedLora = (
  graph: Graph,
  config: ModelConfig,
  { targets, blocked = false }: { readonly targets: LoraTargets; readonly blocked?: boolean | undefined },
): LoraInputs => {
  const stack: Dim[] = blocked ? ["blocks", rankBlock] : ["rank"];
  const rank = product(stack);
  return {
    scale: graph.input("lora.select", ["tokens", rank]),
    modules: new Map(
      targetLinears(config, targets).map(({ name, inSize, outSize }) => [
        name,
        { a: graph.input(`${name}.lora_A`, [...stack, inSize]), b: graph.input(`${name}.lora_B`, [outSize, rank]) },
      ]),
    ),
  };
};

/** Rotary tables up to the longest sequence. */
const ropeTables = (graph: Graph, { headDim }: ModelConfig): RopeTables => ({
  cos: graph.input("cos", ["positions", headDim / 2]),
  sin: graph.input("sin", ["positions", headDim / 2]),
});

/**
 * Attention of many new tokens over earlier tokens and themselves, in the layout of `prefill-inputs.ts`; adds the outputs `k.<layer>` and
 * `v.<layer>`.
 */
const prefillAttention = (graph: Graph, config: ModelConfig): Attend => {
  const { heads, kvHeads, headDim } = config;
  const [tokens, batch, queries, keys] = ["tokens", "batch", "queries", "keys"] as const;
  const share = heads / kvHeads;
  const stacked = product([share, queries]); // queries that share keys, head by head
  const integers = (name: string, shape: readonly Dim[]): Tensor => graph.input(name, shape, { dtype: "int32" });
  const tables = ropeTables(graph, config);
  const positions = graph.input("positions", [tokens, 1], { dtype: "int64" });
  const indices = {
    q: integers("index.q", [batch, kvHeads, stacked]),
    kv: integers("index.kv", [batch, kvHeads, keys]),
    own: integers("own.kv", [kvHeads, tokens]),
    unpack: integers("unpack.q", [product([tokens, heads])]),
  };
  const mask = graph.input("mask", [batch, 1, queries, keys]);
  const stackedMask = concat(graph, new Array<Tensor>(share).fill(mask), 2, stacked);

  return ({ q, k, v, layer }) => {
    const rotated = (flat: Tensor, count: number): Tensor => {
      const perToken = reshape(graph, flat, [tokens, count, 1, headDim]);
      return reshape(graph, rope(graph, perToken, positions, tables), [product([tokens, count]), headDim]);
    };
    /** Keys or values of new tokens (also an output) appended to those of earlier ones: `[batch, kvHeads, keys, headDim]`. */
    const withEarlier = (side: "k" | "v", fresh: Tensor): Tensor => {
      graph.output(`${side}.${layer}`, gather(graph, fresh, indices.own)); // [kvHeads, tokens, headDim]
      const earlier = graph.input(`past.${side}.${layer}`, ["past", headDim]);
      return gather(graph, concat(graph, [earlier, fresh], 0, "keyRows"), indices.kv);
    };
    const { attended } = attend(
      graph,
      {
        q: gather(graph, rotated(q, heads), indices.q),
        k: withEarlier("k", rotated(k, kvHeads)),
        v: withEarlier("v", headRows(graph, v, headDim)),
        mask: stackedMask,
      },
      { kvHeads, headDim, heads: kvHeads, longestSum: uncutTerms }, // already stacked
    );
    const flat = reshape(graph, attended, [product([heads, batch, queries]), headDim]);
    return reshape(graph, gather(graph, flat, indices.unpack), [tokens, heads * headDim]);
  };
};

/** Masked columns after the scores of a decoding step: see `decodeAttention`. */
export const scoreTail = 64;

/**
 * Products of the queries of one token that share keys: `products` products of `rows` rows each. A product of a single row reads the keys
 * without rearranging them, which is faster for few rows, and not slower for up to three times as many.
 */
export const queryRows = ({ heads, kvHeads }: ModelConfig): { readonly products: number; readonly rows: number } => {
  const share = heads / kvHeads;
  return share <= 3 ? { products: share, rows: 1 } : { products: 1, rows: share };
};

/**
 * Attention of one new token per sequence. Softmax sums a row in vectors, and the remainder one by one. A masked tail keeps all unmasked
 * scores within full vectors, so that a sequence's bits do not depend on the common cache size. (Products are not affected: masked
 * positions add exact zeros at the end.)
 */
const decodeAttention = (graph: Graph, config: ModelConfig): Attend => {
  const { heads, kvHeads, headDim } = config;
  const { products, rows } = queryRows(config);
  const alpha = graph.scalar(1 / Math.sqrt(headDim));
  const tokens = "tokens"; // one per sequence
  const past = "past";
  const tables = ropeTables(graph, config);
  const cacheMask = graph.input("mask.past", [tokens, 1, 1, 1, past]);
  const positions = graph.input("position_ids", [tokens, 1], { dtype: "int64" });
  const tail = graph.input("mask.tail", [tokens, kvHeads, products, rows, scoreTail]);
  /** Sizes of the parts of a row of scores: the new token, the cache, and the masked tail. */
  const sizes = graph.input("lengths", [3], { dtype: "int64" });
  const cached = (layer: number, side: "k" | "v"): Tensor =>
    graph.input(`past.${side}.${layer}`, [tokens, kvHeads, 1, past, headDim]);
  // Scaled tables: rotated queries are already divided by √headDim.
  const queryTables = { cos: mul(graph, tables.cos, alpha), sin: mul(graph, tables.sin, alpha) };

  return ({ q, k, v, layer }) => {
    const earlier = { k: cached(layer, "k"), v: cached(layer, "v") };
    const rotated = (flat: Tensor, count: number, turns: RopeTables): Tensor =>
      rope(graph, reshape(graph, flat, [tokens, count, 1, headDim]), positions, turns);
    const query = reshape(graph, rotated(q, heads, queryTables), [tokens, kvHeads, products, rows, headDim]);
    const key = reshape(graph, rotated(k, kvHeads, tables), [tokens, kvHeads, 1, 1, headDim]);
    const value = reshape(graph, v, [tokens, kvHeads, 1, 1, headDim]);
    graph.output(`k.${layer}`, key);
    graph.output(`v.${layer}`, value);
    /** `[tokens, kvHeads, products, rows, keys]`. */
    const onKeys = (keys: Tensor): Tensor => scoresOf(graph, query, keys, { longestSum: uncutTerms });
    const scores = concat(graph, [onKeys(key), add(graph, onKeys(earlier.k), cacheMask), tail], 4, "keys");
    const [onOwn, onEarlier] = split(graph, softmax(graph, scores), 4, [1, past, scoreTail], sizes) as [Tensor, Tensor];
    const attended = add(graph, matmul(graph, onEarlier, earlier.v), mul(graph, onOwn, value));
    return reshape(graph, attended, [tokens, heads * headDim]);
  };
};

/**
 * The terms of the log-sum-exp of rows of logits, see `normalise`. The caller takes the logarithm, because the runtime's has different last
 * bits at the end of a batch.
 */
const outputLargest = (graph: Graph, prefix: string, logits: Tensor): void => {
  graph.output(`${prefix}.logit`, reduceMax(graph, logits));
  graph.output(`${prefix}.probability`, reduceMax(graph, softmax(graph, logits)));
};

/** Logits of given tokens and, if requested, of the k most likely tokens at the `scored` rows. */
export const scorePrompt = (graph: Graph, hidden: Tensor, head: HeadInputs): void => {
  const rows = graph.input("scored.rows", ["scored"], { dtype: "int32" });
  const targets = graph.input("scored.targets", ["scored", 1], { dtype: "int32" });
  const k = graph.input("scored.k", [1], { dtype: "int64" });
  const { logits } = logitsOf(graph, gather(graph, hidden, rows), selectRows(graph, head, rows));
  outputLargest(graph, "scored.largest", logits);
  graph.output("scored.logits", gatherElements(graph, logits, targets));
  const best = topK(graph, logits, k);
  graph.output("scored.top", best.values);
  graph.output("scored.topIds", best.indices);
};

/** The head for some rows: their rows of the adapter selection, unless one scale applies to all. */
const selectRows = (graph: Graph, head: HeadInputs, rows: Tensor): HeadInputs =>
  head.lora && head.lora.scale.shape.length > 0
    ? { ...head, lora: { ...head.lora, scale: gather(graph, head.lora.scale, rows) } }
    : head;

/**
 * Inputs: see the declarations. Outputs: `k.<layer>` and `v.<layer>` of the new tokens; for the requested `rows`, `logits`, their maximum
 * (as a logit and as a probability), and `probabilities` at each row's temperature.
 */
export const extendGraph = (config: ModelConfig, key: ExtendKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const { targets, blocked } = key;
  const lora = targets ? stackedLora(graph, config, { targets, blocked }) : undefined;
  const tokens = graph.input("tokens", ["tokens"], { dtype: "int32" });
  const attention = (key.decode ? decodeAttention : prefillAttention)(graph, config);
  const embedded = gather(graph, embedding, tokens);
  const hidden = buildLayers(graph, config, {
    embedded,
    lora,
    attend: attention,
    frozen: key.decode ? fusedLinears : promptLinears,
  });
  const head = headInputs(graph, config, embedding, lora);
  const rows = graph.input("rows", ["rows"], { dtype: "int32" });
  const coldness = graph.input("coldness", ["rows", 1]); // 1 / temperature
  const { logits } = logitsOf(graph, gather(graph, hidden, rows), selectRows(graph, head, rows));
  graph.output("logits", logits);
  outputLargest(graph, "largest", logits);
  graph.output("probabilities", softmax(graph, mul(graph, logits, coldness)));
  if (key.prompt) scorePrompt(graph, hidden, head);
  return graph;
};
