import { describe, expect, it } from "vitest";
import { runsOf } from "./prefill.ts";
import { blockTokens } from "./prefix-cache.ts";

describe("runs over a prompt", () => {
  it("cover it once, have no more than the most rows, and are as few as can be", () => {
    for (const most of [1, 7, 15, 16, 31, 48, 127, 240, 255]) {
      for (let length = 1; length <= 1100; length += 1 + (length % 7)) {
        const from = 3 * blockTokens;
        const runs = runsOf(from, from + length, most);
        expect(runs.map(({ start }) => start)).toEqual([from, ...runs.slice(0, -1).map(({ end }) => end)]);
        expect(runs.at(-1)?.end).toBe(from + length);
        const rows = runs.map(({ start, end }) => end - start);
        expect(Math.min(...rows)).toBeGreaterThan(0);
        expect(Math.max(...rows)).toBeLessThanOrEqual(most);
        expect(runs.length).toBeLessThanOrEqual(Math.ceil(length / most));
      }
    }
  });

  it("begin at block boundaries if that needs no additional run", () => {
    expect(runsOf(0, 484, 255)).toEqual([
      { start: 0, end: 240 },
      { start: 240, end: 484 },
    ]);
    expect(runsOf(32, 332, 255).map(({ start }) => start)).toEqual([32, 192]);
    expect(runsOf(0, 1000, 255).map(({ start }) => start)).toEqual([0, 250, 500, 750]); // 16 more would be a fifth run
  });
});
