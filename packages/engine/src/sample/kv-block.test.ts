/** Blocks of keys and values: for any division of a prompt into runs, its blocks hold its tokens in order. */
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { tinyConfig } from "../testing/tiny-model.ts";
import { type HostBlock, lengthOf, recut, sideOffset, takeBlocks } from "./kv-block.ts";

const config = tinyConfig();
const { layers, kvHeads, headDim } = config;
const size = 16;
const sides = ["k", "v"] as const;

/** A unique number for each value of a token's keys and values. */
const entryOf = (
  token: number,
  { layer, side, head, i }: { layer: number; side: "k" | "v"; head: number; i: number },
) => (((token * layers + layer) * 2 + sides.indexOf(side)) * kvHeads + head) * headDim + i;

/** A run's outputs, `[kvHeads, rows, headDim]`, whose row `start` is the prompt's token `first`. */
const runOf = ({ rows, start, first }: { rows: number; start: number; first: number }) => ({
  rows,
  start,
  fresh: (layer: number, side: "k" | "v") =>
    Float32Array.from({ length: kvHeads * rows * headDim }, (_, at) => {
      const [head, row, i] = [Math.floor(at / rows / headDim), Math.floor(at / headDim) % rows, at % headDim];
      return entryOf(first + row - start, { layer, side, head, i });
    }),
});

const expectTokens = (blocks: readonly HostBlock[]): void => {
  let first = 0;
  for (const block of blocks) {
    for (let layer = 0; layer < layers; layer++) {
      for (const side of sides) {
        const start = sideOffset(config, block, { layer, side });
        const expected = Array.from({ length: kvHeads * block.length * headDim }, (_, at) => {
          const head = Math.floor(at / block.length / headDim);
          const token = first + (Math.floor(at / headDim) % block.length);
          return entryOf(token, { layer, side, head, i: at % headDim });
        });
        expect([...block.data.subarray(start, start + expected.length)]).toEqual(expected);
      }
    }
    first += block.length;
  }
};

const runs = fc.array(fc.oneof(fc.constantFrom(1, 15, 16, 17, 31, 32, 33), fc.integer({ min: 1, max: 70 })), {
  minLength: 1,
  maxLength: 5,
});

it("are cut from runs of any lengths, and cut again to equal ones", () => {
  fc.assert(
    fc.property(runs, fc.nat(3), fc.nat(3), (lengths, before, behind) => {
      const made: HostBlock[] = [];
      for (const length of lengths) {
        const run = runOf({ rows: before + length + behind, start: before, first: lengthOf(made) });
        made.push(...takeBlocks(config, { ...run, length }, size));
      }
      expectTokens(made);
      const blocks = recut(config, made, size);
      expectTokens(blocks);
      const total = lengths.reduce((sum, length) => sum + length, 0);
      expect(lengthOf(blocks)).toBe(total);
      expect(blocks.map(({ length }) => length)).toEqual([
        ...new Array<number>(Math.ceil(total / size) - 1).fill(size),
        ((total - 1) % size) + 1,
      ]);
    }),
    { numRuns: 60 },
  );
});
