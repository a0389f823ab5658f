/**
 * The graphs that extend sequences by new tokens: prefill (many tokens each) and decoding (many sequences, one token each) are the
 * same computation but for attention. Keys and values of earlier tokens come in as a cache, read where they lie; only those of the new tokens
 * go out. Several adapters may be active at once, one per sequence.
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
  reduceMax,
  reshape,
  rope,
  softmax,
  split,
  sub,
  topK,
} from "../graph/ops.ts";
import { type HeadInputs, headInputs, logitsOf, normalise } from "../model/head.ts";
import { type Attend, buildLayers, embeddingTable, headRows, type LoraInputs } from "../model/transformer.ts";
import { RANK_BLOCK } from "./adapters.ts";
import { fusedLinears } from "./fused.ts";

export interface ExtendKey {
  /** One new token for each of many sequences, instead of many for one or more. */
  readonly decode: boolean;
  /** Weights of linears with a common input are joined: see `fused.ts`. */
  readonly fused: boolean;
  /** Modules that any of the active adapters touches; absent when all sequences use the base model. */
  readonly targets?: LoraTargets;
  /** A matrices come in blocks: see `adapters.ts`. */
  readonly blocked?: boolean;
  /** Also score the tokens themselves (prompt log-probs). */
  readonly prompt: boolean;
}

/**
 * Adapters side by side: A matrices stacked to `[rank, in]`, B to `[out, rank]` with `rank` that of the stack. Each row of
 * `lora.select` holds its adapter's scale in that adapter's columns and 0 elsewhere, so that one product serves them all.
 */
const stackedLora = (graph: Graph, config: ModelConfig, targets: LoraTargets, blocked: boolean): LoraInputs => {
  const stack: Dim[] = blocked ? ["blocks", RANK_BLOCK] : ["rank"];
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

/** Inputs that describe a cache and the new tokens' places, common to prefill and decoding. */
const cacheInputs = (graph: Graph, { headDim, kvHeads }: ModelConfig, batch: Dim) => {
  const past = "past";
  return {
    past,
    tables: {
      cos: graph.input("cos", ["positions", headDim / 2]),
      sin: graph.input("sin", ["positions", headDim / 2]),
    },
    cacheMask: graph.input("mask.past", [batch, 1, 1, past]),
    /** Sizes of the parts of a row of scores: new tokens, cache, and, in decoding, a masked tail. */
    lengths: (parts: number): Tensor => graph.input("lengths", [parts], { dtype: "int64" }),
    layer: (layer: number): { k: Tensor; v: Tensor } => ({
      k: graph.input(`past.k.${layer}`, [batch, kvHeads, past, headDim]),
      v: graph.input(`past.v.${layer}`, [batch, kvHeads, past, headDim]),
    }),
  };
};

/** Attention of many new tokens over a cache and themselves; adds the outputs `k.<layer>` and `v.<layer>`. */
const prefillAttention = (graph: Graph, config: ModelConfig): Attend => {
  const { heads, kvHeads, headDim } = config;
  const share = heads / kvHeads;
  const alpha = 1 / Math.sqrt(headDim);
  const [batch, time] = ["batch", "time"] as const;
  const { past, tables, cacheMask, lengths, layer: cached } = cacheInputs(graph, config, batch);
  const positions = graph.input("position_ids", [batch, time], { dtype: "int64" });
  const indices = {
    q: graph.input("index.q", [batch, heads, time], { dtype: "int32" }),
    kv: graph.input("index.kv", [batch, kvHeads, time], { dtype: "int32" }),
    unpack: graph.input("unpack.q", [product(["tokens", heads])], { dtype: "int32" }),
  };
  const causal = graph.input("mask.new", [time, time]);
  const sizes = lengths(2);
  const stackedTime = product([share, time]);
  const stacked = [batch, kvHeads, stackedTime, headDim];

  return ({ q, k, v, layer }) => {
    const earlierTokens = cached(layer);
    const inHeads = (flat: Tensor, index: Tensor): Tensor => gather(graph, headRows(graph, flat, headDim), index);
    const queries = reshape(graph, rope(graph, inHeads(q, indices.q), positions, tables), stacked);
    const keys = rope(graph, inHeads(k, indices.kv), positions, tables); // [batch, kvHeads, time, headDim]
    const values = inHeads(v, indices.kv);
    graph.output(`k.${layer}`, keys);
    graph.output(`v.${layer}`, values);
    const own = add(
      graph,
      reshape(graph, matmul(graph, queries, keys, { transB: true, alpha }), [batch, heads, time, time]),
      causal,
    );
    const earlier = add(graph, matmul(graph, queries, earlierTokens.k, { transB: true, alpha }), cacheMask);
    const scores = concat(graph, [reshape(graph, own, [batch, kvHeads, stackedTime, time]), earlier], 3, "keys");
    const [onOwn, onEarlier] = split(graph, softmax(graph, scores), 3, [time, past], sizes) as [Tensor, Tensor];
    const attended = add(graph, matmul(graph, onEarlier, earlierTokens.v), matmul(graph, onOwn, values)); // stacked
    const rows = reshape(graph, attended, [product([heads, batch, time]), headDim]);
    return reshape(graph, gather(graph, rows, indices.unpack), ["tokens", heads * headDim]);
  };
};

/** Masked columns behind the scores of a decoding step: see `decodeAttention`. */
export const scoreTail = 64;

/**
 * Attention of one new token per sequence. The softmax of a row adds up in vectors, and what is left over one by one: a masked tail
 * keeps all that counts within the full vectors, so that a sequence's result does not depend on the room that its neighbours need,
 * not even in the last bit. (Products do not either: masked positions add exact zeros behind everything that counts.)
 */
const decodeAttention = (graph: Graph, config: ModelConfig): Attend => {
  const { heads, kvHeads, headDim } = config;
  const share = heads / kvHeads;
  const alpha = graph.scalar(1 / Math.sqrt(headDim));
  const tokens = "tokens"; // one per sequence
  const { past, tables, cacheMask, lengths, layer: cached } = cacheInputs(graph, config, tokens);
  const positions = graph.input("position_ids", [tokens, 1], { dtype: "int64" });
  const tail = graph.input("mask.tail", [tokens, kvHeads, share, scoreTail]);
  const sizes = lengths(3);
  // Scaled tables: queries come out of the rotation already divided by √headDim.
  const queryTables = { cos: mul(graph, tables.cos, alpha), sin: mul(graph, tables.sin, alpha) };

  return ({ q, k, v, layer }) => {
    const earlier = cached(layer);
    const query = reshape(graph, rope(graph, reshape(graph, q, [tokens, heads, 1, headDim]), positions, queryTables), [
      tokens,
      kvHeads,
      share,
      headDim,
    ]);
    const key = rope(graph, reshape(graph, k, [tokens, kvHeads, 1, headDim]), positions, tables);
    const value = reshape(graph, v, [tokens, kvHeads, 1, headDim]);
    graph.output(`k.${layer}`, key);
    graph.output(`v.${layer}`, value);
    const scoresOf = (keys: Tensor): Tensor => matmul(graph, query, keys, { transB: true }); // [tokens, kvHeads, share, keys]
    const scores = concat(graph, [scoresOf(key), add(graph, scoresOf(earlier.k), cacheMask), tail], 3, "keys");
    const [onOwn, onEarlier] = split(graph, softmax(graph, scores), 3, [1, past, scoreTail], sizes) as [Tensor, Tensor];
    const attended = add(graph, matmul(graph, onEarlier, earlier.v), mul(graph, onOwn, value));
    return reshape(graph, attended, [tokens, heads * headDim]);
  };
};

/** Log-probs of given tokens and, if asked, of the k most likely ones, at the `scored` rows. */
const scorePrompt = (graph: Graph, hidden: Tensor, head: HeadInputs): void => {
  const rows = graph.input("scored.rows", ["scored"], { dtype: "int32" });
  const targets = graph.input("scored.targets", ["scored", 1], { dtype: "int32" });
  const k = graph.input("scored.k", [1], { dtype: "int64" });
  const { logits } = logitsOf(graph, gather(graph, hidden, rows), selectRows(graph, head, rows));
  const { logSumExp } = normalise(graph, logits);
  graph.output("scored.logprobs", sub(graph, gatherElements(graph, logits, targets), logSumExp));
  const best = topK(graph, logits, k);
  graph.output("scored.top", sub(graph, best.values, logSumExp));
  graph.output("scored.topIds", best.indices);
};

/** The head for some rows only: their part of the adapter selection. */
const selectRows = (graph: Graph, head: HeadInputs, rows: Tensor): HeadInputs =>
  head.lora ? { ...head, lora: { ...head.lora, scale: gather(graph, head.lora.scale, rows) } } : head;

/**
 * Inputs: see the declarations. Outputs: `k.<layer>` and `v.<layer>` of the new tokens; for the `rows` asked for, `logits` and their
 * largest (as such and as a probability) and `probabilities` at each row's own temperature.
 */
export const extendGraph = (config: ModelConfig, key: ExtendKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const lora = key.targets ? stackedLora(graph, config, key.targets, key.blocked === true) : undefined;
  const tokens = graph.input("tokens", ["tokens"], { dtype: "int32" });
  const attend = (key.decode ? decodeAttention : prefillAttention)(graph, config);
  const frozen = key.fused ? fusedLinears : undefined;
  const hidden = buildLayers(graph, config, { embedded: gather(graph, embedding, tokens), lora, attend, frozen });
  const head = headInputs(graph, config, embedding, lora);
  const rows = graph.input("rows", ["rows"], { dtype: "int32" });
  const coldness = graph.input("coldness", ["rows", 1]); // 1 / temperature
  const { logits } = logitsOf(graph, gather(graph, hidden, rows), selectRows(graph, head, rows));
  graph.output("logits", logits);
  // What the log-sum-exp is made of: see `normalise`. The logarithm is the caller's, because the runtime's has another last bit at the
  // end of a batch than within it.
  graph.output("largest.logit", reduceMax(graph, logits));
  graph.output("largest.probability", reduceMax(graph, softmax(graph, logits)));
  graph.output("probabilities", softmax(graph, mul(graph, logits, coldness)));
  if (key.prompt) scorePrompt(graph, hidden, head);
  return graph;
};
