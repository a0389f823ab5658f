/**
 * The tokenizer inside a GGUF file, rebuilt as the `tokenizer.json` that its model was published with. Two kinds exist for the
 * supported architectures: "gpt2" (byte-level BPE with a list of merges; `tokenizer.ggml.pre` names how text is cut into words)
 * and "llama" (SentencePiece BPE: merges follow from the scores of the tokens).
 */

import { type ChatTemplate, compileChatTemplate } from "../chat/chat-template.ts";
import { TokenizerError } from "../errors.ts";
import type { GgufValue } from "../weights/gguf.ts";
import { type AddedTokenDefinition, type Component, soundDefinition } from "./definition.ts";
import { tokenizerFromDefinition } from "./from-definition.ts";
import { preTokenizers } from "./pre-tokenizers.ts";
import { mergesFromScores } from "./sentencepiece.ts";
import type { Tokenizer } from "./types.ts";

type Metadata = ReadonlyMap<string, GgufValue>;

/** GGML's kinds of tokens that matter here. */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

/** @throws TokenizerError when the file has none, or one of a kind that cannot be rebuilt exactly. */
export function tokenizerFromGguf(metadata: Metadata, origin: string): Tokenizer {
  const read = reader(metadata, origin);
  const kind = metadata.get("tokenizer.ggml.model");
  if (kind !== "gpt2" && kind !== "llama") {
    throw new TokenizerError(
      `${origin}: tokenizer.ggml.model is ${JSON.stringify(kind ?? null)}; gpt2 and llama are known`,
      {
        code: "unsupported_tokenizer",
      },
    );
  }
  const tokens = read.strings("tokenizer.ggml.tokens");
  const types = read.numbers("tokenizer.ggml.token_type", tokens.length);
  const id = (name: string) => read.tokenId(`tokenizer.ggml.${name}_token_id`, tokens.length);
  const bos = id("bos");
  const eos = id("eos");
  const parts =
    kind === "gpt2" ? byteLevelParts(tokens, read, origin) : sentencePieceParts(tokens, types, read, id("unknown"));

  const addedTokens: AddedTokenDefinition[] = [];
  tokens.forEach((content, tokenId) => {
    const type = types?.[tokenId];
    const isUntyped = types === undefined && (tokenId === bos || tokenId === eos);
    const special = type === CONTROL || type === UNKNOWN || isUntyped;
    if (special || type === USER_DEFINED) addedTokens.push({ id: tokenId, content, special, normalized: false });
  });
  const definition = soundDefinition(
    {
      added_tokens: addedTokens,
      normalizer: parts.normalizer,
      pre_tokenizer: parts.preTokenizer,
      post_processor: template({
        bos: (read.boolean("tokenizer.ggml.add_bos_token") ?? parts.addsBos) ? text(tokens, bos) : undefined,
        eos: read.boolean("tokenizer.ggml.add_eos_token") ? text(tokens, eos) : undefined,
      }),
      decoder: parts.decoder,
      model: parts.model,
    },
    origin,
  );
  return tokenizerFromDefinition({
    definition,
    origin,
    eosTokenIds: [eos, id("eot"), id("eom")].filter((value) => value !== undefined),
    chatTemplate: chatTemplate(metadata, { bos_token: text(tokens, bos), eos_token: text(tokens, eos) }, origin),
  });
}

interface Parts {
  readonly normalizer: Component | null;
  readonly preTokenizer: Component | null;
  readonly decoder: Component;
  readonly model: Component;
  /** What llama.cpp does when the file does not say. */
  readonly addsBos: boolean;
}

function byteLevelParts(tokens: readonly string[], read: Reader, origin: string): Parts {
  const name = read.string("tokenizer.ggml.pre") ?? "default";
  const pre = Object.hasOwn(preTokenizers, name) ? preTokenizers[name] : undefined;
  if (!pre) {
    throw new TokenizerError(`${origin}: the pre-tokenizer ${JSON.stringify(name)} is not known`, {
      code: "unsupported_tokenizer",
      hint: "open the model's original folder (tokenizer.json and safetensors) instead",
    });
  }
  return {
    normalizer: pre.nfc ? { type: "NFC" } : null,
    preTokenizer: {
      type: "Sequence",
      pretokenizers: [...pre.splits, { type: "ByteLevel", add_prefix_space: false, use_regex: false }],
    },
    decoder: { type: "ByteLevel" },
    model: {
      type: "BPE",
      vocab: vocabularyOf(tokens),
      merges: read.strings("tokenizer.ggml.merges"),
      ignore_merges: pre.ignoresMerges,
    },
    addsBos: pre.addsBos,
  };
}

function sentencePieceParts(
  tokens: readonly string[],
  types: Float64Array | undefined,
  read: Reader,
  unknown: number | undefined,
): Parts {
  const scores = read.numbers("tokenizer.ggml.scores", tokens.length);
  if (!scores) throw read.refuse("tokenizer.ggml.scores", "is missing");
  const prefix = read.boolean("tokenizer.ggml.add_space_prefix") ?? true;
  const space = { type: "Replace", pattern: { String: " " }, content: "\u2581" };
  const isPiece = (id: number) => {
    const type = types?.[id];
    return type !== UNKNOWN && type !== CONTROL && type !== BYTE;
  };
  return {
    normalizer: {
      type: "Sequence",
      normalizers: prefix ? [{ type: "Prepend", prepend: "\u2581" }, space] : [space],
    },
    preTokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "\u2581" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: "BPE",
      vocab: vocabularyOf(tokens),
      merges: mergesFromScores(tokens, scores, isPiece),
      unk_token: text(tokens, unknown) ?? null,
      fuse_unk: true,
      byte_fallback: true,
    },
    addsBos: true,
  };
}

function vocabularyOf(tokens: readonly string[]): Record<string, number> {
  return Object.fromEntries(tokens.map((token, id) => [token, id]));
}

function text(tokens: readonly string[], id: number | undefined): string | undefined {
  return id === undefined ? undefined : tokens[id];
}

/** What goes around a text: BOS before, EOS after, where the model wants them. */
function template(around: { bos: string | undefined; eos: string | undefined }): Component | null {
  if (around.bos === undefined && around.eos === undefined) return null;
  const special = (token: string | undefined) =>
    token === undefined ? [] : [{ SpecialToken: { id: token, type_id: 0 } }];
  const single = [...special(around.bos), { Sequence: { id: "A", type_id: 0 } }, ...special(around.eos)];
  return { type: "TemplateProcessing", single, pair: single };
}

function chatTemplate(
  metadata: Metadata,
  specialTokens: Readonly<Record<string, string | undefined>>,
  origin: string,
): ChatTemplate | undefined {
  const source = metadata.get("tokenizer.chat_template");
  if (typeof source !== "string") return undefined;
  const known = Object.entries(specialTokens).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return compileChatTemplate(source, Object.fromEntries(known), origin);
}

type Reader = ReturnType<typeof reader>;

/** Typed access to the metadata: a value of the wrong kind is an error that names its key. */
function reader(metadata: Metadata, origin: string) {
  const refuse = (key: string, message: string) => new TokenizerError(`${origin}: ${key} ${message}`);
  return {
    refuse,
    strings(key: string): readonly string[] {
      const value = metadata.get(key);
      if (!Array.isArray(value) || value.length === 0) throw refuse(key, "is missing or not a list of texts");
      return value as readonly string[];
    },
    numbers(key: string, length: number): Float64Array | undefined {
      const value = metadata.get(key);
      if (value === undefined) return undefined;
      if (!(value instanceof Float64Array) || value.length !== length)
        throw refuse(key, `is not a list of ${length} numbers`);
      return value;
    },
    string(key: string): string | undefined {
      const value = metadata.get(key);
      if (value !== undefined && typeof value !== "string") throw refuse(key, "is not a text");
      return value;
    },
    boolean(key: string): boolean | undefined {
      const value = metadata.get(key);
      if (value !== undefined && typeof value !== "boolean") throw refuse(key, "is neither true nor false");
      return value;
    },
    tokenId(key: string, tokens: number): number | undefined {
      const value = metadata.get(key);
      if (value === undefined) return undefined;
      if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value >= tokens) {
        throw refuse(key, `is ${String(value)}, outside of the vocabulary`);
      }
      return value;
    },
  };
}
