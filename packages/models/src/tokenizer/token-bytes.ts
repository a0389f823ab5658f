/**
 * What single tokens stand for in bytes. The decoders of language models work on bytes, so this is enough to decode exactly, and
 * to stream text without cutting a character in two: a token may be a third of an emoji.
 */

import type { Component } from "./definition.ts";

/** Turns the text of a token into bytes: of an added one, too, as the Rust library does. */
export interface TokenBytes {
  bytesOf(token: string): Uint8Array;
  /** Whether a token is a lone byte, as `<0xE2>` is in vocabularies with byte fallback. */
  isLoneByte(token: string): boolean;
  /** A leading space of the whole text was put there by the tokenizer and is taken away again. */
  readonly dropsLeadingSpace: boolean;
}

const encoder = new TextEncoder();

/** GPT-2's alphabet: every byte has a visible character; those that are not visible are moved up from U+0100. */
export const byteOfVisible: ReadonlyMap<string, number> = /* @__PURE__ */ (() => {
  const map = new Map<string, number>();
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    map.set(String.fromCodePoint(visible ? byte : 0x100 + moved++), byte);
  }
  return map;
})();

/** Byte-level: each character of a token is one byte. */
const byteLevel: TokenBytes = {
  bytesOf(token) {
    const bytes: number[] = [];
    for (const character of token) {
      const byte = byteOfVisible.get(character);
      if (byte === undefined) return encoder.encode(token); // as the Rust library does with a token from elsewhere
      bytes.push(byte);
    }
    return Uint8Array.from(bytes);
  },
  isLoneByte: () => false,
  dropsLeadingSpace: false,
};

const loneByte = /^<0x([0-9A-Fa-f]{2})>$/;

/** SentencePiece's: a visible sign for the space, and, with fallback, tokens for lone bytes. */
function metaspace(options: { sign: string; byteFallback: boolean; dropsLeadingSpace: boolean }): TokenBytes {
  return {
    bytesOf(token) {
      const byte = options.byteFallback ? loneByte.exec(token)?.[1] : undefined;
      return byte ? Uint8Array.of(Number.parseInt(byte, 16)) : encoder.encode(token.replaceAll(options.sign, " "));
    },
    isLoneByte: (token) => options.byteFallback && loneByte.test(token),
    dropsLeadingSpace: options.dropsLeadingSpace,
  };
}

/** How a decoder of `tokenizer.json` treats single tokens, or undefined when it looks at more than one at a time. */
export function tokenBytesOf(decoder: Component | null): TokenBytes | undefined {
  if (decoder?.type === "ByteLevel") return byteLevel;
  if (decoder?.type === "Metaspace") {
    const sign = typeof decoder["replacement"] === "string" ? decoder["replacement"] : "\u2581";
    const dropsLeadingSpace = decoder["prepend_scheme"] !== "never" && decoder["add_prefix_space"] !== false;
    return metaspace({ sign, byteFallback: false, dropsLeadingSpace });
  }
  if (decoder?.type !== "Sequence" || !Array.isArray(decoder["decoders"])) return undefined;
  const parts = decoder["decoders"] as Component[];
  if (parts.length === 1) return tokenBytesOf(parts[0] as Component);
  let sign: string | undefined;
  let dropsLeadingSpace = false;
  for (const part of parts) {
    const pattern = (part["pattern"] as { String?: string } | undefined)?.String;
    if (part.type === "Replace" && pattern !== undefined && part["content"] === " ") sign = pattern;
    else if (part.type === "Strip" && part["content"] === " " && part["start"] === 1 && part["stop"] === 0) {
      dropsLeadingSpace = true;
    } else if (part.type !== "ByteFallback" && part.type !== "Fuse") return undefined;
  }
  if (sign === undefined) return undefined;
  return metaspace({ sign, byteFallback: parts.some((part) => part.type === "ByteFallback"), dropsLeadingSpace });
}
