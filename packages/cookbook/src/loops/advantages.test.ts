import { describe, expect, it } from "vitest";
import { advantagesOf } from "./advantages.ts";

describe("advantagesOf", () => {
  it("centres, normalises, and is exactly 0 for equal rewards", () => {
    expect(advantagesOf([1, 0, 0, 1])).toEqual([0.5, -0.5, -0.5, 0.5]);
    expect(advantagesOf([3, 1], "normalised").map((value) => value.toFixed(3))).toEqual(["1.000", "-1.000"]);
    expect(advantagesOf(new Array(10).fill(0.1))).toEqual(new Array(10).fill(0));
  });
});
