import fc from "fast-check";
import { expect, test } from "vitest";
import { createTextSearch } from "./text-search.ts";

/** Reference without streaming: the match that ends first; among those, the longest. */
function naive(text: string, patterns: readonly string[]): { before: string; found?: string } {
  for (let end = 1; end <= text.length; end++) {
    const found = patterns
      .filter((each) => each !== "" && text.slice(0, end).endsWith(each))
      .sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return { before: text.slice(0, end - found.length), found };
  }
  return { before: text };
}

const letters = fc.constantFrom("a", "b", "c");
const word = fc.array(letters, { maxLength: 6 }).map((each) => each.join(""));
const longer = fc.array(letters, { maxLength: 40 }).map((each) => each.join(""));

test("finds what a plain search finds, for any split of the text", () => {
  const property = fc.property(fc.array(word, { maxLength: 4 }), fc.array(longer), (patterns, pieces) => {
    const search = createTextSearch(patterns);
    let before = "";
    let found: string | undefined;
    for (const piece of pieces) {
      const step = search.push(piece);
      before += step.text;
      found = step.found;
      if (found !== undefined) break;
    }
    if (found === undefined) before += search.end();
    const expected = naive(pieces.join(""), patterns);
    expect({ before, found }).toEqual({ before: expected.before, found: expected.found });
  });
  fc.assert(property, { numRuns: 2000 });
});

test("a possible match is held back until it fails", () => {
  const search = createTextSearch(["<stop>"]);
  expect(search.push("a <st")).toEqual({ text: "a ", rest: "" });
  expect(search.push("op")).toEqual({ text: "", rest: "" });
  expect(search.push("> b")).toEqual({ text: "", found: "<stop>", rest: " b" });
  expect(search.push("<st")).toEqual({ text: "", rest: "" });
  expect(search.end()).toBe("<st");
});

test("long patterns that are prefixes of each other cost one step per character", () => {
  const patterns = Array.from({ length: 64 }, (_, i) => `${"a".repeat(1000 - i)}b`);
  const search = createTextSearch(patterns);
  let out = 0;
  for (let i = 0; i < 20_000; i++) out += search.push("a").text.length;
  expect(out).toBe(19_000);
});
