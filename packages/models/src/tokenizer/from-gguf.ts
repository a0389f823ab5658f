/**
 * Rebuilds the `tokenizer.json` of a model from the metadata of its GGUF file. The supported architectures use two kinds: "gpt2" (byte-level
 * BPE with a list of merges; `tokenizer.ggml.pre` names the pre-tokenizer) and "llama" (SentencePiece BPE; merges are derived from the
 * scores of the tokens).
 */

import { TokenizerError } from "../errors.ts";
import type { GgufValue } from "../weights/gguf.ts";
import type { AddedTokenDefinition, Component } from "./definition.ts";
import { type TokenizerParts, tokenizerFromParts } from "./from-files.ts";
import { originalDefinitionKey, tokenType } from "./gguf-vocabulary.ts";
import { preTokenizers } from "./pre-tokenizers.ts";
import { mergesFromScores } from "./sentencepiece.ts";
import type { Tokenizer, TokenizerFiles } from "./types.ts";

type Metadata = ReadonlyMap<string, GgufValue>;

/** @throws TokenizerError if the file has no tokenizer, or one that cannot be rebuilt exactly. */
function ggufParts(metadata: Metadata, origin: string): TokenizerParts {
  const read = reader(metadata, origin);
  const kind = metadata.get("tokenizer.ggml.model");
  if (kind !== "gpt2" && kind !== "llama") {
    throw new TokenizerError(
      `${origin}: tokenizer.ggml.model must be gpt2 or llama, got ${JSON.stringify(kind ?? null)}`,
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
    const special = type === tokenType.control || type === tokenType.unknown || isUntyped;
    if (special || type === tokenType.userDefined) addedTokens.push(addedToken(tokenId, content, special));
  });
  const definition = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens,
    normalizer: parts.normalizer,
    pre_tokenizer: parts.preTokenizer,
    post_processor: template(tokens, {
      bos: (read.boolean("tokenizer.ggml.add_bos_token") ?? parts.addsBos) ? bos : undefined,
      eos: read.boolean("tokenizer.ggml.add_eos_token") ? eos : undefined,
    }),
    decoder: parts.decoder,
    model: parts.model,
  };
  const named = {
    bos_token: bos,
    eos_token: eos,
    unk_token: read.knownId("unknown", tokens),
    pad_token: read.knownId("padding", tokens),
  };
  const specialTokens = Object.entries(named).flatMap(([key, value]) =>
    value === undefined ? [] : [[key, tokens[value]]],
  );
  const templates = chatTemplates(metadata);
  const ends = [eos, id("eot"), id("eom")].filter((value) => value !== undefined);
  return {
    definition: originalDefinition(metadata, origin) ?? definition,
    settings: {
      tokenizer_class: "PreTrainedTokenizerFast",
      clean_up_tokenization_spaces: false,
      ...Object.fromEntries(specialTokens),
      ...(templates !== undefined && { chat_template: templates }),
    },
    generation: {
      ...(bos !== undefined && { bos_token_id: bos }),
      ...(ends.length > 0 && { eos_token_id: ends }),
    },
    config: {},
  };
}

/** The original `tokenizer.json`, if the file contains it; then nothing needs to be rebuilt. */
function originalDefinition(metadata: Metadata, origin: string): unknown {
  const text = metadata.get(originalDefinitionKey);
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TokenizerError(`${origin}: ${originalDefinitionKey} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Builds the tokenizer of a GGUF file. @throws TokenizerError if it has none, or one that cannot be rebuilt exactly. */
export function tokenizerFromGguf(metadata: Metadata, origin: string): Tokenizer {
  return tokenizerFromParts(ggufParts(metadata, origin), origin);
}

/** The tokenizer of a GGUF file as the files of a Hugging Face model folder. */
export function tokenizerFilesFromGguf(metadata: Metadata, origin: string): TokenizerFiles {
  const { definition, settings, generation } = ggufParts(metadata, origin);
  return {
    "tokenizer.json": JSON.stringify(definition),
    "tokenizer_config.json": `${JSON.stringify(settings, null, 2)}\n`,
    "generation_config.json": `${JSON.stringify(generation, null, 2)}\n`,
  };
}

/** An added token with every field that the Rust library requires. */
function addedToken(id: number, content: string, special: boolean): AddedTokenDefinition {
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special };
}

interface Parts {
  readonly normalizer: Component | null;
  readonly preTokenizer: Component | null;
  readonly decoder: Component;
  readonly model: Component;
  /** llama.cpp's default for files without `add_bos_token`. */
  readonly addsBos: boolean;
}

/** Fields that the Rust library requires in every BPE model. */
const plainModel = {
  type: "BPE",
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: false,
} as const;

function byteLevelParts(tokens: readonly string[], read: Reader, origin: string): Parts {
  const name = read.string("tokenizer.ggml.pre") ?? "default";
  const pre = Object.hasOwn(preTokenizers, name) ? preTokenizers[name] : undefined;
  if (!pre) {
    throw new TokenizerError(`${origin}: the pre-tokenizer ${JSON.stringify(name)} is not supported`, {
      code: "unsupported_tokenizer",
      hint: "open the model's original folder (tokenizer.json and safetensors) instead",
    });
  }
  return {
    normalizer: pre.nfc ? { type: "NFC" } : null,
    preTokenizer: {
      type: "Sequence",
      pretokenizers: [
        ...pre.splits,
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      ...plainModel,
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
    return type !== tokenType.unknown && type !== tokenType.control && type !== tokenType.byte;
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
      ...plainModel,
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

/** The post-processor that adds BOS before and EOS after a text, if the model uses them. */
function template(
  tokens: readonly string[],
  special: { bos: number | undefined; eos: number | undefined },
): Component | null {
  const ids = [special.bos, special.eos].filter((id) => id !== undefined);
  if (ids.length === 0) return null;
  const tokenPart = (id: number | undefined) =>
    id === undefined ? [] : [{ SpecialToken: { id: tokens[id] as string, type_id: 0 } }];
  const single = [...tokenPart(special.bos), { Sequence: { id: "A", type_id: 0 } }, ...tokenPart(special.eos)];
  const pair = [...single, { Sequence: { id: "B", type_id: 1 } }];
  const known = ids.map((id) => [tokens[id] as string, { id: tokens[id] as string, ids: [id], tokens: [tokens[id]] }]);
  return { type: "TemplateProcessing", single, pair, special_tokens: Object.fromEntries(known) };
}

/** `tokenizer.chat_template` and the named templates (`tokenizer.chat_template.NAME`), in the form of `tokenizer_config.json`. */
function chatTemplates(metadata: Metadata): string | { name: string; template: string }[] | undefined {
  const source = metadata.get("tokenizer.chat_template");
  if (typeof source !== "string") return undefined;
  const tools = metadata.get("tokenizer.chat_template.tool_use");
  if (typeof tools !== "string") return source;
  return [
    { name: "default", template: source },
    { name: "tool_use", template: tools },
  ];
}

type Reader = ReturnType<typeof reader>;

/** Typed access to the metadata; a value of the wrong type is an error that names its key. */
function reader(metadata: Metadata, origin: string) {
  const refuse = (key: string, message: string) => new TokenizerError(`${origin}: ${key} ${message}`);
  return {
    refuse,
    strings(key: string): readonly string[] {
      const value = metadata.get(key);
      if (!Array.isArray(value) || value.length === 0) throw refuse(key, "must be a non-empty list of strings");
      return value as readonly string[];
    },
    numbers(key: string, length: number): Float64Array | undefined {
      const value = metadata.get(key);
      if (value === undefined) return undefined;
      if (!(value instanceof Float64Array) || value.length !== length)
        throw refuse(key, `must be a list of ${length} numbers`);
      return value;
    },
    string(key: string): string | undefined {
      const value = metadata.get(key);
      if (value !== undefined && typeof value !== "string") throw refuse(key, "must be a string");
      return value;
    },
    boolean(key: string): boolean | undefined {
      const value = metadata.get(key);
      if (value !== undefined && typeof value !== "boolean") throw refuse(key, "must be true or false");
      return value;
    },
    /** The id of an optional special token; undefined if the value is not a valid id. */
    knownId(name: string, tokens: readonly string[]): number | undefined {
      const value = metadata.get(`tokenizer.ggml.${name}_token_id`);
      return typeof value === "number" && tokens[value] !== undefined ? value : undefined;
    },
    tokenId(key: string, tokens: number): number | undefined {
      const value = metadata.get(key);
      if (value === undefined) return undefined;
      if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value >= tokens) {
        throw refuse(key, `must be a token id below ${tokens}, got ${String(value)}`);
      }
      return value;
    },
  };
}
