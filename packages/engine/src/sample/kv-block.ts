/**
 * Keys and values of one run of a prompt, in one array: `[layers, 2, kvHeads, length, headDim]`. A prompt is a list of them. They are
 * written once and only read from then on, so that any number of requests may hold the same.
 */
import type { ModelConfig } from "@tinklet/models/config";

export interface KvBlock {
  /** Tokens. */
  readonly length: number;
  readonly data: Float32Array;
}

/** What a run can look back on: `rows` sequences with `room` tokens each, of which each has its own number. */
export interface Past {
  /** Tokens of each sequence; padding has none. */
  readonly lengths: readonly number[];
  /** At least 1: what a sequence does not fill is masked. */
  readonly room: number;
  /** `[rows, kvHeads, room, headDim]`. */
  view(layer: number, side: "k" | "v"): { readonly data: Float32Array; readonly dims: readonly number[] };
}

/** Where a layer's keys or values begin in a block. */
export const sideOffset = (
  { kvHeads, headDim }: ModelConfig,
  { length }: KvBlock,
  { layer, side }: { layer: number; side: "k" | "v" },
): number => (layer * 2 + (side === "k" ? 0 : 1)) * kvHeads * length * headDim;

/** Tokens of blocks end to end. */
export const lengthOf = (blocks: readonly KvBlock[]): number => blocks.reduce((sum, { length }) => sum + length, 0);

/** The keys and values that a run has made for one of its rows; `fresh` gives them for all rows, `[rows, kvHeads, length, headDim]`. */
export const takeBlock = (
  config: ModelConfig,
  { row, length, fresh }: { row: number; length: number; fresh: (layer: number, side: "k" | "v") => Float32Array },
): KvBlock => {
  const size = config.kvHeads * length * config.headDim;
  const block: KvBlock = { length, data: new Float32Array(config.layers * 2 * size) };
  for (let layer = 0; layer < config.layers; layer++) {
    for (const side of ["k", "v"] as const) {
      const own = fresh(layer, side).subarray(row * size, (row + 1) * size);
      block.data.set(own, sideOffset(config, block, { layer, side }));
    }
  }
  return block;
};

/**
 * Blocks of equally long sequences as a run reads them, without room to spare: what the sums of a softmax are made of must not depend on
 * anything but the place of the run in its prompt. `rows` may be more than there are sequences.
 */
export const pastOf = (config: ModelConfig, sequences: readonly (readonly KvBlock[])[], rows: number): Past => {
  const { kvHeads, headDim } = config;
  const length = lengthOf(sequences[0]!);
  const room = Math.max(1, length);
  return {
    lengths: sequences.map(() => length),
    room,
    view: (layer, side) => {
      const data = new Float32Array(rows * kvHeads * room * headDim);
      sequences.forEach((blocks, row) => {
        let at = row * kvHeads * room;
        for (const block of blocks) {
          const start = sideOffset(config, block, { layer, side });
          const line = block.length * headDim;
          for (let head = 0; head < kvHeads; head++) {
            const own = block.data.subarray(start + head * line, start + (head + 1) * line);
            data.set(own, (at + head * room) * headDim);
          }
          at += block.length;
        }
      });
      return { data, dims: [rows, kvHeads, room, headDim] };
    },
  };
};
