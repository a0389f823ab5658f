/**
 * The bytes of single tokens. The decoders of language models operate on bytes, so this is enough to decode exactly and to stream only whole
 * characters: one character may span several tokens.
 */

import type { Component } from "./definition.ts";

/** Converts tokens, including added tokens, to bytes as the Rust library does. */
export interface TokenBytes {
  bytesOf(token: string): Uint8Array;
  /** Whether a token is a byte token, such as `<0xE2>` in vocabularies with byte fallback. */
  isLoneByte(token: string): boolean;
  /** Whether decoding removes a leading space, because encoding adds one. */
  readonly dropsLeadingSpace: boolean;
}

const encoder = new TextEncoder();

/** GPT-2's alphabet: a printable character for every byte; bytes that are not printable map to U+0100 and up. */
export const byteOfVisible: ReadonlyMap<string, number> = /* @__PURE__ */ (() => {
  const map = new Map<string, number>();
  let moved = 0;
  for (let byte = 0; byte < 256; byte++) {
    const visible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    map.set(String.fromCodePoint(visible ? byte : 0x100 + moved++), byte);
  }
  return map;
})();

/** Byte-level BPE: each character of a token is one byte. */
const byteLevel: TokenBytes = {
  bytesOf(token) {
    const bytes: number[] = [];
    for (const character of token) {
      const byte = byteOfVisible.get(character);
      if (byte === undefined) return encoder.encode(token); // an added token; the Rust library does the same
      bytes.push(byte);
    }
    return Uint8Array.from(bytes);
  },
  isLoneByte: () => false,
  dropsLeadingSpace: false,
};

const loneByte = /^<0x([0-9A-Fa-f]{2})>$/;

/** SentencePiece: a visible character for the space and, with byte fallback, byte tokens. */
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

/** The bytes of tokens under a `tokenizer.json` decoder; undefined if the decoder does not work token by token. */
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
