/** Invariants of packing. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tinyConfig } from "../testing/tiny-model.ts";
import { groupCounts, packSequences, planRectangles, planRuns } from "./pack.ts";

const lengths = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 30 });

describe("planRectangles", () => {
  it("puts every sequence into one rectangle that holds it", () => {
    fc.assert(
      fc.property(lengths, (given) => {
        const rectangles = planRectangles(given, 4);
        expect(rectangles.length).toBeLessThanOrEqual(4);
        expect(rectangles.flatMap(({ members }) => members).sort((a, b) => a - b)).toEqual(given.map((_, i) => i));
        for (const { members, time } of rectangles) expect(Math.max(...members.map((i) => given[i]!))).toBe(time);
      }),
    );
  });

  it("uses one rectangle for equal lengths, and separates very unequal ones", () => {
    expect(planRectangles([64, 64, 64], 4)).toHaveLength(1);
    expect(planRectangles([512, 8, 8, 8, 8, 8, 8, 8], 4)).toHaveLength(2);
  });
});

describe("planRuns", () => {
  it("covers everything once, within the limit unless a sequence alone exceeds it", () => {
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 600 }), (given, limit) => {
        const runs = planRuns(given, limit);
        expect(runs.flat().sort((a, b) => a - b)).toEqual(given.map((_, i) => i));
        for (const run of runs) {
          const tokens = run.reduce((sum, i) => sum + given[i]!, 0);
          expect(tokens <= limit || run.length === 1).toBe(true);
        }
      }),
    );
  });
});

describe("packSequences", () => {
  it("unpacking undoes gathering, for every head of every token", () => {
    const config = tinyConfig();
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 9 }), (given) => {
        const packed = packSequences(
          config,
          given.map((length) => new Int32Array(length)),
        );
        expect(groupCounts).toContain(packed.groupCount);
        for (const [side, heads] of [
          ["q", config.heads],
          ["kv", config.kvHeads],
        ] as const) {
          const rows: number[] = [];
          for (let g = 0; g < packed.groupCount; g++)
            rows.push(...(packed.inputs[`group${g}.${side}`]!.data as Int32Array));
          const unpack = packed.inputs[`unpack.${side}`]!.data as Int32Array;
          expect(unpack).toHaveLength(packed.tokenCount * heads);
          unpack.forEach((at, row) => {
            expect(rows[at]).toBe(row);
          });
        }
      }),
      { numRuns: 50 },
    );
  });

  it("keeps the masks of lengths that recur, but only a few megabytes of them", () => {
    const config = tinyConfig();
    const maskOf = (length: number) => packSequences(config, [new Int32Array(length)]).inputs["group0.mask"]!.data;
    // Compared by identity: a matcher that prints such arrays on failure takes minutes.
    const short = maskOf(100);
    expect(maskOf(100) === short).toBe(true);
    // Ten masks of 4 MB exceed the cache: the first is evicted, the last is not.
    const masks = Array.from({ length: 10 }, (_, i) => maskOf(1000 + i));
    expect(maskOf(1009) === masks[9]).toBe(true);
    expect(maskOf(1000) === masks[0]).toBe(false);
    // A mask larger than the cache is not stored, and evicts nothing.
    const recent = maskOf(100);
    const long = maskOf(3000);
    expect(maskOf(3000) === long).toBe(false);
    expect(maskOf(100) === recent).toBe(true);
  });
});
