/**
 * Tokenizers of Kimi models: a `tiktoken.model` (one line per token: base64 bytes and rank) and special tokens in `tokenizer_config.json`.
 * Byte-pair encoding on bytes: a piece of text starts as single bytes, and the adjacent pair with the lowest rank is merged first.
 */
import type { ChatTemplate } from "../chat/chat-template.ts";
import type { ChatMessage, ChatTemplateOptions } from "../chat/types.ts";
import { TokenizerError } from "../errors.ts";
import type { Tokenizer } from "./types.ts";

/** Number of ids for special tokens, after the ranks. */
const specialIds = 256;
/** Limit on ranks; published files have about 164,000. */
const mostRanks = 2 ** 22;
/** As in the official code: text is encoded in parts of this many code points … */
const partLength = 400_000;
/** … and of runs of at most this many code points with or without white space. */
const runLength = 25_000;

const letter = (kinds: string): string => `[[${kinds}\\p{Lm}\\p{Lo}\\p{M}]&&[^\\p{Script=Han}]]`;
const [upper, lower] = [letter("\\p{Lu}\\p{Lt}"), letter("\\p{Ll}")];
const space = "\\p{White_Space}";
/** Case-insensitive, including ſ (U+017F), which folds to s. */
const contraction = "(?:'[sS\\u017f]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?";
/** Kimi's pattern. Rust's \s is the Unicode property White_Space; JavaScript's \s differs. */
const piecePattern = new RegExp(
  [
    "[\\p{Script=Han}]+",
    `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contraction}`,
    `[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contraction}`,
    "\\p{N}{1,3}",
    ` ?[^${space}\\p{L}\\p{N}]+[\\r\\n]*`,
    `${space}*[\\r\\n]+`,
    `${space}+(?!\\P{White_Space})`,
    `${space}+`,
  ].join("|"),
  "gv",
);
/** Python's `str.isspace`. */
const whiteSpace = /\p{White_Space}/u;
const isPythonSpace = (character: string): boolean =>
  whiteSpace.test(character) || (character >= "\u001c" && character <= "\u001f");

/** What a tiktoken tokenizer is built from. */
export interface FromTiktokenOptions {
  /** The contents of `tiktoken.model`. */
  readonly model: string;
  /** The parsed `tokenizer_config.json`. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** EOS ids, from the id of the tokenizer's own EOS token. */
  readonly eosTokenIds: (eosId: number | undefined) => readonly number[];
  readonly specialTokens: Readonly<Record<string, string>>;
  readonly hasChatTemplate: boolean;
  readonly chatTemplate: ChatTemplate;
  /** Name of the model or folder, shown in error messages. */
  readonly origin: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
/** Bytes as a string with one character per byte, which can be a map key. */
const keyOf = (bytes: Uint8Array): string => {
  let key = "";
  for (const byte of bytes) key += String.fromCharCode(byte);
  return key;
};
const bytesOfKey = (key: string): Uint8Array => Uint8Array.from(key, (character) => character.charCodeAt(0));

/** @throws TokenizerError if the file or the settings are malformed. */
export function tokenizerFromTiktoken(options: FromTiktokenOptions): Tokenizer {
  const { origin, settings, specialTokens, chatTemplate } = options;
  const ranks = readRanks(options.model, origin);
  const keys = [...ranks.keys()];
  const { idOf: specialId, isSpecial } = readSpecialTokens(settings, ranks.size, origin);
  const contentOf = new Map([...specialId].map(([content, id]) => [id, content]));
  const specials = new RegExp([...specialId.keys()].map(escaped).join("|"), "g");
  let longestToken = 0;
  for (const key of keys) longestToken = Math.max(longestToken, key.length);

  const encodePart = (text: string, ids: number[]): void => {
    for (const [piece] of text.matchAll(piecePattern)) encodePiece(keyOf(encoder.encode(piece)), ids);
  };
  const encodePiece = (piece: string, ids: number[]): void => {
    const whole = ranks.get(piece);
    if (whole !== undefined) ids.push(whole);
    else for (const token of mergePairs(piece, ranks, longestToken)) ids.push(token);
  };
  const encode = (text: string): number[] => {
    const ids: number[] = [];
    for (const part of partsOf(text)) {
      let at = 0;
      for (const match of part.matchAll(specials)) {
        encodePart(part.slice(at, match.index), ids);
        ids.push(specialId.get(match[0])!);
        at = match.index + match[0].length;
      }
      encodePart(part.slice(at), ids);
    }
    return ids;
  };
  const tokenBytes = (id: number): Uint8Array => {
    const content = contentOf.get(id);
    return content === undefined ? bytesOfKey(keys[id] ?? "") : encoder.encode(content);
  };
  const decode = (ids: ArrayLike<number>, { skipSpecialTokens = false } = {}): string => {
    const kept = Array.from(ids).filter((id) => !(skipSpecialTokens && isSpecial(id)));
    const parts = kept.map(tokenBytes);
    const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return decoder.decode(bytes);
  };
  function applyChatTemplate(
    messages: readonly ChatMessage[],
    given: ChatTemplateOptions & { readonly tokenize: false },
  ): string;
  function applyChatTemplate(
    messages: readonly ChatMessage[],
    given?: ChatTemplateOptions & { readonly tokenize?: true },
  ): number[];
  function applyChatTemplate(messages: readonly ChatMessage[], given: ChatTemplateOptions = {}): string | number[] {
    const text = chatTemplate(messages, given);
    return given.tokenize === false ? text : encode(text);
  }
  const idOfSetting = (name: string): number | undefined => specialId.get(specialTokens[name] ?? "");
  return {
    encode,
    decode,
    applyChatTemplate,
    hasChatTemplate: options.hasChatTemplate,
    eosTokenIds: options.eosTokenIds(idOfSetting("eos_token")),
    bosTokenId: idOfSetting("bos_token"),
    vocabSize: ranks.size + specialIds,
    tokenToId: (token) => specialId.get(token) ?? ranks.get(keyOf(encoder.encode(token))),
    idToToken: (id) => contentOf.get(id) ?? (keys[id] === undefined ? undefined : decoder.decode(bytesOfKey(keys[id]))),
    isSpecial,
    tokenBytes,
  };
}

/** Ranks by token, in the order of ranks: 0, 1, 2 … without gaps, all 256 bytes among them. */
function readRanks(model: string, origin: string): Map<string, number> {
  const refuse = (problem: string) =>
    new TokenizerError(`${origin}: tiktoken.model: ${problem}`, { code: "bad_tokenizer" });
  const lines = model.split("\n").filter((line) => line !== "");
  if (lines.length > mostRanks) throw refuse(`must have at most ${mostRanks} lines, got ${lines.length}`);
  const keys = new Array<string | undefined>(lines.length);
  for (const [at, line] of lines.entries()) {
    const [, base64, digits] = /^([A-Za-z0-9+/]+={0,2}) (\d{1,7})\r?$/.exec(line) ?? [];
    if (base64 === undefined) throw refuse(`line ${at + 1} must be base64 and a rank`);
    const rank = Number(digits);
    if (rank >= lines.length || keys[rank] !== undefined) {
      throw refuse(`line ${at + 1}: ranks must be 0 to ${lines.length - 1}, each once, got ${rank}`);
    }
    try {
      keys[rank] = atob(base64);
    } catch (cause) {
      throw new TokenizerError(`${origin}: tiktoken.model: line ${at + 1} is not base64`, {
        code: "bad_tokenizer",
        cause,
      });
    }
  }
  const ranks = new Map(keys.map((key, rank) => [key as string, rank]));
  if (ranks.size < keys.length) throw refuse("a token appears twice");
  for (let byte = 0; byte < 256; byte++) {
    if (!ranks.has(String.fromCharCode(byte))) throw refuse(`byte ${byte} is not a token`);
  }
  return ranks;
}

/** The 256 ids after the ranks: named in `added_tokens_decoder`, otherwise reserved. */
function readSpecialTokens(settings: Readonly<Record<string, unknown>>, base: number, origin: string) {
  const added = settings["added_tokens_decoder"];
  const named = typeof added === "object" && added !== null ? (added as Readonly<Record<string, unknown>>) : {};
  const idOf = new Map<string, number>();
  const text = new Set<number>();
  for (let id = base; id < base + specialIds; id++) {
    const entry = named[id] as { content?: unknown; special?: unknown } | undefined;
    const content = entry === undefined ? `<|reserved_token_${id}|>` : entry?.content;
    if (typeof content !== "string" || content === "" || idOf.has(content)) {
      throw new TokenizerError(`${origin}: tokenizer_config.json: token ${id} must have a content of its own`, {
        code: "bad_tokenizer",
      });
    }
    idOf.set(content, id);
    if (entry?.special === false) text.add(id);
  }
  return { idOf, isSpecial: (id: number): boolean => id >= base && id < base + specialIds && !text.has(id) };
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** Parts that are encoded separately, as in the official code. */
function* partsOf(text: string): Iterable<string> {
  let start = 0;
  let [points, run] = [0, 0];
  let isSpace: boolean | undefined;
  for (let at = 0; at < text.length; ) {
    const character = String.fromCodePoint(text.codePointAt(at)!);
    const isNowSpace = isPythonSpace(character);
    run = isNowSpace === isSpace ? run + 1 : 1;
    isSpace = isNowSpace;
    if (points === partLength || run > runLength) {
      yield text.slice(start, at);
      start = at;
      if (points === partLength) points = 0;
      run = 1;
    }
    points++;
    at += character.length;
  }
  if (start < text.length) yield text.slice(start);
}

/** Byte-pair encoding with a heap of candidate pairs: the lowest rank first, the leftmost of equals. O(n log n). */
function mergePairs(piece: string, ranks: ReadonlyMap<string, number>, longestToken: number): number[] {
  const count = piece.length;
  /** Start of the token after the one that starts here; 0 for starts that were merged away. */
  const ends = Int32Array.from({ length: count }, (_, i) => i + 1);
  const before = Int32Array.from({ length: count }, (_, i) => i - 1);
  const heap: { rank: number; start: number; end: number }[] = [];
  const precedes = (a: number, b: number): boolean =>
    heap[a]!.rank < heap[b]!.rank || (heap[a]!.rank === heap[b]!.rank && heap[a]!.start < heap[b]!.start);
  const swap = (a: number, b: number): void => {
    [heap[a], heap[b]] = [heap[b]!, heap[a]!];
  };
  const offer = (start: number): void => {
    if (start < 0 || ends[start]! >= count) return;
    const end = ends[ends[start]!]!;
    if (end - start > longestToken) return;
    const rank = ranks.get(piece.slice(start, end));
    if (rank === undefined) return;
    heap.push({ rank, start, end });
    for (let at = heap.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!precedes(at, parent)) break;
      swap(at, parent);
      at = parent;
    }
  };
  const take = () => {
    swap(0, heap.length - 1);
    const first = heap.pop()!;
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < heap.length && precedes(child, least)) least = child;
      if (least === at) return first;
      swap(at, least);
      at = least;
    }
  };
  for (let start = 0; start + 1 < count; start++) offer(start);
  while (heap.length > 0) {
    const { start, end } = take();
    const middle = ends[start]!;
    // Outdated unless both tokens still exist and end where they did.
    if (middle === 0 || middle >= count || ends[middle] !== end) continue;
    ends[start] = end;
    ends[middle] = 0;
    if (end < count) before[end] = start;
    offer(before[start]!);
    offer(start);
  }
  const ids: number[] = [];
  for (let start = 0; start < count; start = ends[start]!) ids.push(ranks.get(piece.slice(start, ends[start]!))!);
  return ids;
}
