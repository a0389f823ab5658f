import { describe, expect, it } from "vitest";
import { TextPieces } from "./token-stream.ts";

/** Tokens are bytes; 0 ends the text. */
const bytes = { decode: (ids: readonly number[]) => Buffer.from(ids).toString("utf8"), eosTokenIds: [0] };
const pieces = (text: string, trimmed: boolean, end: readonly number[] = []) => {
  const stream = new TextPieces(bytes, { trimmed });
  return [...Buffer.from(text), ...end].map((token) => stream.add(token));
};

describe("TextPieces", () => {
  it("gives out each piece once, and no half characters", () => {
    expect(pieces("Aé→🦜b", false)).toEqual(["A", "", "é", "", "", "→", "", "", "", "🦜", "b"]);
  });

  it("keeps blanks at the end back until something follows", () => {
    expect(pieces(" a  b ", true)).toEqual(["", "a", "", "", "  b", ""]);
    expect(pieces(" a ", false)).toEqual([" ", "a", " "]);
  });

  it("stops at the end of the text", () => {
    expect(pieces("ok", true, [0, 65])).toEqual(["o", "k", "", ""]);
  });
});
