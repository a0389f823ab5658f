import { expect, it } from "vitest";
import { ShownText } from "./shown-text.ts";

const shown = (text: string, trimmed: boolean) => {
  const growing = new ShownText({ trimmed });
  return [...text].map((piece) => growing.add(piece));
};

it("gives out each piece once", () => {
  expect(shown(" a ", false)).toEqual([" ", "a", " "]);
});

it("keeps blanks at both ends back, and those in between until something follows", () => {
  expect(shown(" a  b ", true)).toEqual(["", "a", "", "", "  b", ""]);
});
