import { expect, it } from "vitest";
import { endOfTextIds } from "./end-of-text.ts";

it("merges numbers and lists in order, without duplicates", () => {
  expect(endOfTextIds(2, [32000, 2], undefined, 7)).toEqual([2, 32000, 7]);
});

it("ignores values that are not token ids", () => {
  expect(endOfTextIds(null, -1, 1.5, "2", [[3]], Number.NaN)).toEqual([]);
});
