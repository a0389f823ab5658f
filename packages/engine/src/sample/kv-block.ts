/**
 * Keys and values of consecutive prompt tokens. A prompt is a list of such blocks. They are immutable once written, so that several
 * requests can share them. On the host a block is one array `[layers, 2, kvHeads, length, headDim]`; on a device it is a page
 * (`device/pages.ts`).
 */
import type { ModelConfig } from "@tinklet/models/config";

/** A block on the host or on a device. */
export interface KvBlock {
  /** Number of tokens. */
  readonly length: number;
  readonly byteLength: number;
}

export interface HostBlock extends KvBlock {
  readonly data: Float32Array;
}

/** Offset of a layer's keys or values in a block. */
export const sideOffset = (
  { kvHeads, headDim }: ModelConfig,
  { length }: HostBlock,
  { layer, side }: { layer: number; side: "k" | "v" },
): number => (layer * 2 + (side === "k" ? 0 : 1)) * kvHeads * length * headDim;

/** Total tokens of blocks. */
export const lengthOf = (blocks: readonly KvBlock[]): number => blocks.reduce((sum, { length }) => sum + length, 0);

/** Rows of a run to copy. */
export interface RunRows {
  /** Number of rows of the run. */
  readonly rows: number;
  readonly start: number;
  readonly length: number;
  /** Keys and values of all rows, `[kvHeads, rows, headDim]`. */
  readonly fresh: (layer: number, side: "k" | "v") => Float32Array;
}

/** Copies the keys and values of a run to blocks of `size` tokens; the last block has the remainder. */
export const takeBlocks = (config: ModelConfig, run: RunRows, size: number): HostBlock[] =>
  Array.from({ length: Math.ceil(run.length / size) }, (_, index) =>
    takeBlock(config, {
      ...run,
      start: run.start + index * size,
      length: Math.min(size, run.length - index * size),
    }),
  );

const takeBlock = (config: ModelConfig, { rows, start, length, fresh }: RunRows): HostBlock => {
  const block = emptyBlock(config, length);
  forEachLine(config, ({ layer, side, head }) => {
    const from = (head * rows + start) * config.headDim;
    const own = fresh(layer, side).subarray(from, from + length * config.headDim);
    block.data.set(own, lineOffset(config, block, { layer, side, head }));
  });
  return block;
};

/** Divides the same tokens into blocks of `size`; blocks that already fit are reused. */
export const recut = (config: ModelConfig, blocks: readonly HostBlock[], size: number): readonly HostBlock[] => {
  const last = blocks.length - 1;
  if (blocks.every((block, index) => (index < last ? block.length === size : block.length <= size))) return blocks;
  const length = lengthOf(blocks);
  return Array.from({ length: Math.ceil(length / size) }, (_, index) =>
    copyTokens(config, blocks, { start: index * size, end: Math.min(length, (index + 1) * size) }),
  );
};

/** Copies tokens `start` to `end` of consecutive blocks. */
const copyTokens = (
  config: ModelConfig,
  blocks: readonly HostBlock[],
  { start, end }: { readonly start: number; readonly end: number },
): HostBlock => {
  const copy = emptyBlock(config, end - start);
  let at = 0;
  for (const block of blocks) {
    const [first, last] = [Math.max(start, at), Math.min(end, at + block.length)];
    const { headDim } = config;
    if (first < last) {
      forEachLine(config, (line) => {
        const from = lineOffset(config, block, line) - at * headDim;
        const own = block.data.subarray(from + first * headDim, from + last * headDim);
        copy.data.set(own, lineOffset(config, copy, line) + (first - start) * headDim);
      });
    }
    at += block.length;
  }
  return copy;
};

interface Line {
  readonly layer: number;
  readonly side: "k" | "v";
  readonly head: number;
}

const emptyBlock = ({ layers, kvHeads, headDim }: ModelConfig, length: number): HostBlock => {
  const data = new Float32Array(layers * 2 * kvHeads * length * headDim);
  return { length, byteLength: data.byteLength, data };
};

/** Offset of a head's keys or values in a block. */
const lineOffset = (config: ModelConfig, block: HostBlock, line: Line): number =>
  sideOffset(config, block, line) + line.head * block.length * config.headDim;

const forEachLine = ({ layers, kvHeads }: ModelConfig, body: (line: Line) => void): void => {
  for (let layer = 0; layer < layers; layer++) {
    for (const side of ["k", "v"] as const) {
      for (let head = 0; head < kvHeads; head++) body({ layer, side, head });
    }
  }
};
