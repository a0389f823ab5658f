/**
 * The graph that extends sequences by new tokens: prefill (one sequence, many tokens) and decoding (many sequences, one token each)
 * are the same computation. Keys and values of earlier tokens come in as a cache, read where they lie; only those of the new tokens
 * go out. Several adapters may be active at once, one per sequence.
 */
import type { LoraTargets } from "../adapter/layout.ts";
import { targetLinears } from "../adapter/layout.ts";
import { product } from "../graph/dims.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import {
  add,
  concat,
  gather,
  gatherElements,
  matmul,
  mul,
  reshape,
  rope,
  softmax,
  splitInTwo,
  sub,
  topK,
} from "../graph/ops.ts";
import type { ModelConfig } from "../model/config.ts";
import { type HeadInputs, headInputs, logitsOf, normalise } from "../model/head.ts";
import { buildLayers, embeddingTable, type LoraInputs } from "../model/transformer.ts";

export interface ExtendKey {
  /** Modules that any of the active adapters touches; absent when all sequences use the base model. */
  readonly targets?: LoraTargets;
  /** Also score the tokens themselves (prompt log-probs). */
  readonly prompt: boolean;
}

/**
 * Adapters side by side: A matrices stacked to `[rank, in]`, B to `[out, rank]` with `rank` the sum of all ranks. Each row of
 * `lora.select` holds its adapter's scale in that adapter's columns and 0 elsewhere, so that one product serves them all.
 */
const stackedLora = (graph: Graph, config: ModelConfig, targets: LoraTargets): LoraInputs => ({
  scale: graph.input("lora.select", ["tokens", "rank"]),
  modules: new Map(
    targetLinears(config, targets).map(({ name, inSize, outSize }) => [
      name,
      { a: graph.input(`${name}.lora_A`, ["rank", inSize]), b: graph.input(`${name}.lora_B`, [outSize, "rank"]) },
    ]),
  ),
});

/** Attention of new tokens over a cache and themselves; adds the outputs `k.<layer>` and `v.<layer>`. */
const cachedAttention = (graph: Graph, config: ModelConfig) => {
  const { heads, kvHeads, headDim } = config;
  const share = heads / kvHeads;
  const alpha = 1 / Math.sqrt(headDim);
  const [batch, time, past] = ["batch", "time", "past"] as const;
  const tables = {
    cos: graph.input("cos", ["positions", headDim / 2]),
    sin: graph.input("sin", ["positions", headDim / 2]),
  };
  const indices = {
    q: graph.input("index.q", [batch, heads, time], { dtype: "int32" }),
    kv: graph.input("index.kv", [batch, kvHeads, time], { dtype: "int32" }),
    unpack: graph.input("unpack.q", [product(["tokens", heads])], { dtype: "int32" }),
  };
  const positions = graph.input("position_ids", [batch, time], { dtype: "int64" });
  const causal = graph.input("mask.new", [time, time]);
  const cacheMask = graph.input("mask.past", [batch, 1, 1, past]);
  const lengths = graph.input("lengths", [2], { dtype: "int64" });
  const stackedTime = product([share, time]);
  const stacked = [batch, kvHeads, stackedTime, headDim];

  return ({ q, k, v, layer }: { q: Tensor; k: Tensor; v: Tensor; layer: number }): Tensor => {
    const pastK = graph.input(`past.k.${layer}`, [batch, kvHeads, past, headDim]);
    const pastV = graph.input(`past.v.${layer}`, [batch, kvHeads, past, headDim]);
    const queries = reshape(graph, rope(graph, gather(graph, q, indices.q), positions, tables), stacked);
    const keys = rope(graph, gather(graph, k, indices.kv), positions, tables); // [batch, kvHeads, time, headDim]
    const values = gather(graph, v, indices.kv);
    graph.output(`k.${layer}`, keys);
    graph.output(`v.${layer}`, values);
    const own = add(
      graph,
      reshape(graph, matmul(graph, queries, keys, { transB: true, alpha }), [batch, heads, time, time]),
      causal,
    );
    const earlier = add(graph, matmul(graph, queries, pastK, { transB: true, alpha }), cacheMask);
    // New tokens first: what is masked off then lies behind everything that counts, and the sums of the softmax do not depend on how
    // much room a cache happens to have.
    const scores = concat(graph, [reshape(graph, own, [batch, kvHeads, stackedTime, time]), earlier], 3, "keys");
    const [onOwn, onEarlier] = splitInTwo(graph, softmax(graph, scores), 3, lengths, [time, past]);
    const attended = add(graph, matmul(graph, onEarlier, pastV), matmul(graph, onOwn, values)); // stacked
    const rows = reshape(graph, attended, [product([heads, batch, time]), headDim]);
    return reshape(graph, gather(graph, rows, indices.unpack), ["tokens", heads * headDim]);
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
 * Inputs: see the declarations. Outputs: `k.<layer>` and `v.<layer>` of the new tokens; for the `rows` asked for, `logits` and
 * `logSumExp` of the untempered distribution and `probabilities` at each row's own temperature.
 */
export const extendGraph = (config: ModelConfig, key: ExtendKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const lora = key.targets ? stackedLora(graph, config, key.targets) : undefined;
  const tokens = graph.input("tokens", ["tokens"], { dtype: "int32" });
  const hidden = buildLayers(graph, config, gather(graph, embedding, tokens), lora, cachedAttention(graph, config));
  const head = headInputs(graph, config, embedding, lora);
  const rows = graph.input("rows", ["rows"], { dtype: "int32" });
  const coldness = graph.input("coldness", ["rows", 1]); // 1 / temperature
  const { logits } = logitsOf(graph, gather(graph, hidden, rows), selectRows(graph, head, rows));
  graph.output("logits", logits);
  graph.output("logSumExp", normalise(graph, logits).logSumExp);
  graph.output("probabilities", softmax(graph, mul(graph, logits, coldness)));
  if (key.prompt) scorePrompt(graph, hidden, head);
  return graph;
};
