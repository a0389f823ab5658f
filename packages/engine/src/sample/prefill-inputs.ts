/**
 * Lays out pieces of prompts for one run: their tokens concatenated for the linears, and for attention a rectangle with the queries of each
 * piece and, in prompt order, the keys of all earlier tokens. A token's result does not depend on how prompts are divided.
 */
import type { ModelConfig } from "@tinklet/models/config";
import { masked } from "../model/attention.ts";
import { f32, i32, type Value } from "../runtime/runtime.ts";
import { type HostBlock, lengthOf, sideOffset } from "./kv-block.ts";
import { fewestQueries, keyStep } from "./run-rows.ts";

/** Consecutive tokens of a prompt, and the known blocks before them. */
export interface PromptPiece {
  readonly past: readonly HostBlock[];
  readonly tokens: Int32Array;
}

/** First row of each piece; padding rows come last. */
export const startsOf = (pieces: readonly Pick<PromptPiece, "tokens">[]): number[] => {
  let at = 0;
  return pieces.map(({ tokens }) => {
    const start = at;
    at += tokens.length;
    return start;
  });
};

/** Rows of known keys, each block once, and the first row of each block. */
const pastRows = (config: ModelConfig, pieces: readonly PromptPiece[]) => {
  const { kvHeads, headDim } = config;
  const firstRows = new Map<HostBlock, number>();
  let rows = 0;
  for (const block of pieces.flatMap(({ past }) => past)) {
    if (firstRows.has(block)) continue;
    firstRows.set(block, rows);
    rows += block.length * kvHeads;
  }
  const count = Math.max(1, rows); // the runtime rejects empty arrays
  const nothing = f32(new Float32Array(headDim), [1, headDim]);
  const view = (layer: number, side: "k" | "v"): Value => {
    if (rows === 0) return nothing;
    const data = new Float32Array(count * headDim);
    for (const [block, row] of firstRows) {
      const start = sideOffset(config, block, { layer, side });
      data.set(block.data.subarray(start, start + block.length * kvHeads * headDim), row * headDim);
    }
    return f32(data, [count, headDim]);
  };
  return { count, firstRows, view };
};

/** Inputs of the prefill graph except tables, adapters and the head. `count` rows, padding included. */
export const prefillInputs = (
  config: ModelConfig,
  pieces: readonly PromptPiece[],
  count: number,
): Record<string, Value> => {
  const { heads, kvHeads } = config;
  const starts = startsOf(pieces);
  const pasts = pieces.map(({ past }) => lengthOf(past));
  const batch = pieces.length;
  const queries = Math.max(fewestQueries(config), ...pieces.map(({ tokens }) => tokens.length));
  const longest = Math.max(...pieces.map(({ tokens }, piece) => pasts[piece]! + tokens.length));
  const keys = Math.ceil(longest / keyStep) * keyStep;
  const known = pastRows(config, pieces);

  const tokens = new Int32Array(count);
  const positions = new Int32Array(count);
  const unpack = new Int32Array(count * heads);
  const q = new Int32Array(batch * heads * queries);
  const kv = new Int32Array(batch * kvHeads * keys);
  const mask = new Float32Array(batch * queries * keys).fill(masked);
  pieces.forEach((piece, b) => {
    const [start, past, { length }] = [starts[b]!, pasts[b]!, piece.tokens];
    tokens.set(piece.tokens, start);
    for (let t = 0; t < length; t++) {
      positions[start + t] = past + t;
      for (let head = 0; head < heads; head++) unpack[(start + t) * heads + head] = (b * heads + head) * queries + t;
    }
    for (let t = 0; t < queries; t++) {
      const own = Math.min(t, length - 1); // padding repeats the last token
      mask.fill(0, (b * queries + t) * keys, (b * queries + t) * keys + past + own + 1);
      for (let head = 0; head < heads; head++) q[(b * heads + head) * queries + t] = (start + own) * heads + head;
    }
    for (let head = 0; head < kvHeads; head++) {
      const own = (token: number): number => known.count + (start + token) * kvHeads + head;
      const row = (b * kvHeads + head) * keys;
      let at = 0;
      for (const block of piece.past) {
        const first = known.firstRows.get(block)! + head * block.length;
        for (let t = 0; t < block.length; t++) kv[row + at++] = first + t;
      }
      // Masked keys are multiplied by 0, and 0 · NaN is NaN: use the piece's own keys, which are finite.
      for (let t = 0; at < keys; t++) kv[row + at++] = own(t < length ? t : 0);
    }
  });
  const ownKv = new Int32Array(kvHeads * count);
  for (let head = 0; head < kvHeads; head++) {
    for (let t = 0; t < count; t++) ownKv[head * count + t] = t * kvHeads + head;
  }
  const inputs: Record<string, Value> = {
    tokens: i32(tokens, [count]),
    positions: i32(positions, [count, 1]),
    "index.q": i32(q, [batch, kvHeads, (heads / kvHeads) * queries]),
    "index.kv": i32(kv, [batch, kvHeads, keys]),
    "own.kv": i32(ownKv, [kvHeads, count]),
    "unpack.q": i32(unpack, [count * heads]),
    mask: f32(mask, [batch, 1, queries, keys]),
  };
  for (let layer = 0; layer < config.layers; layer++) {
    for (const side of ["k", "v"] as const) inputs[`past.${side}.${layer}`] = known.view(layer, side);
  }
  return inputs;
};
