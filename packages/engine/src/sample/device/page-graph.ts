/**
 * The graphs that extend sequences whose KV cache is in pages on a device. New keys and values are written in place; attention gathers
 * earlier ones by page. Prefill (many tokens of a few sequences) and decoding (one token of each) differ only in the layout of queries.
 */
import type { ModelConfig } from "@tinklet/models/config";
import type { LoraTargets } from "../../adapter/layout.ts";
import { type Dim, product } from "../../graph/dims.ts";
import { Graph, type Tensor } from "../../graph/graph.ts";
import { add, gather, greater, reduceMax, reshape, rope, softmax, where } from "../../graph/ops.ts";
import { attend, masked } from "../../model/attention.ts";
import { headInputs, logitsOf } from "../../model/head.ts";
import { type Attend, buildLayers, embeddingTable, headRows, loraInputs } from "../../model/transformer.ts";
import { scorePrompt } from "../graph.ts";
import { blockTokens } from "../prefix-cache.ts";
import { drawTokens } from "./draw-graph.ts";

/** Tokens of a page, equal to the block size of the prefix cache. */
export const pageTokens = blockTokens;

export interface PageKey {
  /** Rank of the adapter; absent for the base model. */
  readonly targets?: LoraTargets | undefined;
  /** Decoding, one token per sequence; otherwise prefill. */
  readonly decode: boolean;
  /** Draw a token after each row of `rows`: from the whole distribution, or with filters. */
  readonly draw?: "plain" | "filtered" | undefined;
  /** Also return the most likely tokens of each row. */
  readonly top?: boolean | undefined;
  /** Also score tokens of the prompt. */
  readonly prompt?: boolean | undefined;
}

/** Names of a layer's pages: the inputs, and the outputs after a run. */
export const pageNames = (layer: number, side: "k" | "v") => ({
  pages: `pages.${side}.${layer}`,
  next: `next.${side}.${layer}`,
});

const integers = (graph: Graph, name: string, shape: readonly Dim[]): Tensor =>
  graph.input(name, shape, { dtype: "int32" });

/** Elementwise integer operation on indices. */
const indexOp = (graph: Graph, type: "Add" | "Mul", [a, b]: readonly [Tensor, Tensor], shape: readonly Dim[]): Tensor =>
  graph.node(type, [a, b], shape, { dtype: "int32" });

/** Largest number of values in a row of the pages. */
const mostRowValues = 32;

/**
 * How the pages divide the key (or value) of one token and head into rows. CUDA's `ScatterND` writes each row with one thread, so that
 * short rows are written in parallel: rows of 128 values took a third of a decoding step.
 */
export function pageRows({ kvHeads, headDim }: Pick<ModelConfig, "kvHeads" | "headDim">): {
  readonly perHead: number;
  readonly perToken: number;
  readonly width: number;
} {
  const perHead = headDim % mostRowValues === 0 ? headDim / mostRowValues : 1;
  return { perHead, perToken: perHead * kvHeads, width: headDim / perHead };
}

const counting = (count: number): Int32Array => Int32Array.from({ length: count }, (_, i) => i);

/** Row indices `[batch, kvHeads, keys, rows per head]` into the pages of each sequence; the heads of a token are adjacent. */
const keyRows = (graph: Graph, config: ModelConfig, batch: Dim): Tensor => {
  const { kvHeads } = config;
  const { perHead } = pageRows(config);
  const pages = integers(graph, "pages", [batch, "pages", 1]);
  const size = graph.constant(Int32Array.of(pageTokens), []);
  const first = indexOp(graph, "Mul", [pages, size], [batch, "pages", 1]);
  const within = graph.constant(counting(pageTokens), [1, 1, pageTokens]);
  const slots = reshape(graph, indexOp(graph, "Add", [first, within], [batch, "pages", pageTokens]), [
    batch,
    1,
    product(["pages", pageTokens]),
  ]);
  const heads = graph.constant(Int32Array.of(kvHeads), []);
  const line = graph.constant(counting(kvHeads), [1, kvHeads, 1]);
  const keys = product(["pages", pageTokens]);
  const ofHead = indexOp(
    graph,
    "Add",
    [indexOp(graph, "Mul", [slots, heads], slots.shape), line],
    [batch, kvHeads, keys],
  );
  if (perHead === 1) return reshape(graph, ofHead, [batch, kvHeads, keys, 1]);
  const rows = graph.constant(Int32Array.of(perHead), []);
  const firstRow = indexOp(
    graph,
    "Mul",
    [reshape(graph, ofHead, [batch, kvHeads, keys, 1]), rows],
    [batch, kvHeads, keys, 1],
  );
  const places = graph.constant(counting(perHead), [1, 1, 1, perHead]);
  return indexOp(graph, "Add", [firstRow, places], [batch, kvHeads, keys, perHead]);
};

/** Attention over pages; adds the resident outputs `next.…`. */
const pagedAttention = (graph: Graph, config: ModelConfig, decode: boolean): Attend => {
  const { heads, kvHeads, headDim } = config;
  const { perToken, width } = pageRows(config);
  const share = heads / kvHeads;
  const tokens = "tokens";
  const tables = {
    cos: graph.input("cos", ["positions", headDim / 2]),
    sin: graph.input("sin", ["positions", headDim / 2]),
  };
  const positions = graph.input("position_ids", [tokens, 1], { dtype: "int64" });
  const written = graph.input("written.rows", [product([tokens, perToken]), 1], { dtype: "int64" });
  const batch = decode ? tokens : "batch";
  const rows = keyRows(graph, config, batch);
  // The last position that each query sees, and the position of each key in its sequence.
  const queries: Dim = decode ? share : product([share, "queries"]);
  const reach = graph.input("query.positions", [batch, 1, decode ? 1 : queries, 1]);
  const starts = graph.input("page.positions", [1, "pages", 1]);
  const within = graph.constant(Float32Array.from(counting(pageTokens)), [1, 1, pageTokens]);
  const places = reshape(graph, add(graph, starts, within), [1, 1, 1, rows.shape[2]!]);
  const [open, shut] = [graph.scalar(0), graph.scalar(masked)];
  const mask = where(graph, greater(graph, places, reach), shut, open);
  const layout = decode
    ? undefined
    : {
        q: integers(graph, "index.q", [batch, kvHeads, queries]),
        unpack: integers(graph, "unpack.q", [product([tokens, heads])]),
      };

  return ({ q, k, v, layer }) => {
    const rotated = (flat: Tensor, count: number): Tensor => {
      const turned = rope(graph, reshape(graph, flat, [tokens, count, 1, headDim]), positions, tables);
      return reshape(graph, turned, [product([tokens, count]), headDim]);
    };
    const withEarlier = (side: "k" | "v", fresh: Tensor): Tensor => {
      const names = pageNames(layer, side);
      const pages = graph.input(names.pages, ["slots", width]);
      const made = reshape(graph, fresh, [product([tokens, perToken]), width]);
      const next = graph.node("ScatterND", [pages, written, made], pages.shape);
      graph.output(names.next, next);
      return reshape(graph, gather(graph, next, rows), [batch, kvHeads, rows.shape[2]!, headDim]);
    };
    const turned = rotated(q, heads);
    const query = layout ? gather(graph, turned, layout.q) : reshape(graph, turned, [batch, kvHeads, share, headDim]);
    const { attended } = attend(
      graph,
      {
        q: query,
        k: withEarlier("k", rotated(k, kvHeads)),
        v: withEarlier("v", headRows(graph, v, headDim)),
        mask,
      },
      { kvHeads, headDim, heads: kvHeads }, // queries that share keys are already stacked
    );
    if (!layout) return reshape(graph, attended, [tokens, heads * headDim]);
    const flat = reshape(graph, attended, [product([batch, kvHeads, queries]), headDim]);
    return reshape(graph, gather(graph, flat, layout.unpack), [tokens, heads * headDim]);
  };
};

/**
 * Processes new tokens of sequences. Outputs: the updated pages; `logits` of the requested `rows`, which stay on the device; their maximum,
 * as a logit and as a probability; and the optional outputs of the key.
 */
export const pageGraph = (config: ModelConfig, { targets, decode, draw, top, prompt }: PageKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const lora = targets ? loraInputs(graph, config, { targets, trainable: false }) : undefined;
  const embedded = gather(graph, embedding, integers(graph, "tokens", ["tokens"]));
  const hidden = buildLayers(graph, config, { embedded, lora, attend: pagedAttention(graph, config, decode) });
  const head = headInputs(graph, config, embedding, lora);
  const { logits } = logitsOf(graph, gather(graph, hidden, integers(graph, "rows", ["rows"])), head);
  graph.output("logits", logits);
  graph.output("largest.logit", reduceMax(graph, logits));
  graph.output("largest.probability", reduceMax(graph, softmax(graph, logits)));
  if (draw) drawTokens(graph, logits, { vocabSize: config.vocabSize, filtered: draw === "filtered" });
  if (top) {
    const count = graph.input("top.k", [1], { dtype: "int64" });
    const [values, ids] = graph.multi(
      "TopK",
      [logits, count],
      [{ shape: ["rows", "top"] }, { shape: ["rows", "top"], dtype: "int64" }],
      { attributes: { axis: -1, largest: 1, sorted: 1 } },
    );
    graph.output("top.logits", values!);
    graph.output("top.ids", ids!);
  }
  if (prompt) scorePrompt(graph, hidden, head);
  return graph;
};

/** Copies rows of pages, for a sequence that is about to write to a shared page. */
export const copyGraph = (config: ModelConfig): Graph => {
  const graph = new Graph();
  const { width } = pageRows(config);
  const from = integers(graph, "from", ["copied"]);
  const to = graph.input("to", ["copied", 1], { dtype: "int64" });
  forEachSide(config.layers, (layer, side) => {
    const names = pageNames(layer, side);
    const pages = graph.input(names.pages, ["slots", width]);
    graph.output(names.next, graph.node("ScatterND", [pages, to, gather(graph, pages, from)], pages.shape));
  });
  return graph;
};

/** Writes zeros to rows of pages. */
export const clearGraph = (config: ModelConfig): Graph => {
  const graph = new Graph();
  const { width } = pageRows(config);
  const to = graph.input("to", ["cleared", 1], { dtype: "int64" });
  const zeros = graph.input("zeros", ["cleared", width]);
  forEachSide(config.layers, (layer, side) => {
    const names = pageNames(layer, side);
    const pages = graph.input(names.pages, ["slots", width]);
    graph.output(names.next, graph.node("ScatterND", [pages, to, zeros], pages.shape));
  });
  return graph;
};

export function forEachSide(layers: number, visit: (layer: number, side: "k" | "v") => void): void {
  for (let layer = 0; layer < layers; layer++) for (const side of ["k", "v"] as const) visit(layer, side);
}
