import { describe, expect, it } from "vitest";
import { splitEvenly } from "./policy-step.ts";

describe("splitEvenly", () => {
  const sizes = (length: number, count: number) =>
    splitEvenly(
      Array.from({ length }, (_, at) => at),
      count,
    ).map((part) => part.length);

  it.each([
    [9, 4, [2, 2, 2, 3]],
    [64, 10, [6, 6, 7, 6, 7, 6, 6, 7, 6, 7]],
    [3, 5, [1, 1, 1]],
    [0, 4, []],
  ])("%i items in %i parts", (length, count, expected) => {
    expect(sizes(length, count)).toEqual(expected);
  });

  it("always gives the number of parts asked for, in order, with sizes that differ by at most one", () => {
    for (let length = 1; length <= 80; length++) {
      for (let count = 1; count <= length; count++) {
        const all = Array.from({ length }, (_, at) => at);
        const parts = splitEvenly(all, count);
        expect(parts.length).toBe(count);
        expect(parts.flat()).toEqual(all);
        const each = parts.map((part) => part.length);
        expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1);
      }
    }
  });
});
