import { expect, it } from "vitest";
import { endOfTextIds } from "./end-of-text.ts";

it("joins numbers and lists, each id once and in the order of the places", () => {
  expect(endOfTextIds(2, [32000, 2], undefined, 7)).toEqual([2, 32000, 7]);
});

it("leaves out what is no token id", () => {
  expect(endOfTextIds(null, -1, 1.5, "2", [[3]], Number.NaN)).toEqual([]);
});
