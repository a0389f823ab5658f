/** When a sequence ends. Sampling until then is tested in `sampler.test.ts`. */

import type { Tokenizer } from "@tinklet/models/tokenizer";
import { expect, it } from "vitest";
import { StopWatch, stopRules } from "./stop.ts";

/** Decodes as SentencePiece does: the space added before a whole text is removed. */
const pieces = ["x", " END", " E", "ND"];
const bytesOf = (id: number): Uint8Array => new TextEncoder().encode(pieces[id]);
const tokenizer = {
  decode: (ids: readonly number[]) =>
    ids
      .map((id) => pieces[id])
      .join("")
      .replace(/^ /, ""),
  tokenBytes: bytesOf,
  isSpecial: () => false,
} as unknown as Tokenizer;

it.each([[[1]], [[2, 3]], [[0, 1]]])("sees a stop text with a leading space in a completion of tokens %j", (tokens) => {
  const watch = new StopWatch(stopRules(" END", []), tokenizer);
  const stops = tokens.map((token) => watch.push(token));
  expect(stops.indexOf(true)).toBe(tokens.length - 1);
});
