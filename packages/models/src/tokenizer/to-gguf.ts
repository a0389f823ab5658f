/**
 * Converts a tokenizer to GGUF metadata, the inverse of `from-gguf.ts`. llama.cpp supports only named pre-tokenizers; if none matches the
 * model's, the closest is written with a note, and the complete `tokenizer.json` is added for readers that support it.
 */

import { TokenizerError } from "../errors.ts";
import type { GgufField } from "../weights/write-gguf.ts";
import { type Component, normalizeDefinition, type TokenizerDefinition } from "./definition.ts";
import { chatTemplatesOf, specialTokensOf, tokenizerFromFiles } from "./from-files.ts";
import { originalDefinitionKey, tokenType } from "./gguf-vocabulary.ts";
import { nameOfPreTokenizer } from "./name-pre-tokenizer.ts";
import { mergesFromScores } from "./sentencepiece.ts";
import type { TokenizerFiles } from "./types.ts";

/** The metadata of a tokenizer, and its limitations. */
export interface GgufTokenizer {
  readonly fields: ReadonlyMap<string, GgufField>;
  /** Cases in which llama.cpp tokenizes text differently from the model's training. Prompts given as token ids are not affected. */
  readonly notes: readonly string[];
}

/** Metadata key of the notes. */
const notesKey = "tinklet.tokenizer.notes";

/**
 * @param rows - rows of the embedding; ids without a token get a padding token.
 * @param origin - name of the tokenizer, shown in error messages.
 * @throws TokenizerError if GGUF cannot represent it.
 */
export function tokenizerToGguf(files: TokenizerFiles, rows: number, origin: string): GgufTokenizer {
  if (files["tokenizer.json"] === "") {
    throw new TokenizerError(`${origin}: GGUF cannot represent a tokenizer without a tokenizer.json`, {
      code: "unsupported_tokenizer",
      hint: "export with format merged, which keeps the original tokenizer",
    });
  }
  const tokenizer = tokenizerFromFiles(files, origin); // also validates the files
  const definition = normalizeDefinition(JSON.parse(files["tokenizer.json"]), origin);
  const settings = JSON.parse(files["tokenizer_config.json"] ?? "{}") as Record<string, unknown>;
  const { tokens, types } = vocabularyOf(definition, rows, origin);

  const fields = new Map<string, GgufField>();
  const set = (name: string, field: GgufField) => fields.set(`tokenizer.ggml.${name}`, field);
  const kind = isByteLevel(definition) ? "gpt2" : "llama";
  set("model", { type: "string", value: kind });
  const notes: string[] = [];
  if (kind === "gpt2") {
    const { name, note } = nameOfPreTokenizer(definition, origin);
    if (note !== undefined) notes.push(note);
    set("pre", { type: "string", value: name });
    set("tokens", { type: "strings", value: tokens });
    set("token_type", { type: "i32s", value: types });
    set("merges", { type: "strings", value: mergesOf(definition).map((pair) => pair.join(" ")) });
  } else {
    const { prefix, note } = sentencePieceSpaces(definition, origin);
    if (note !== undefined) notes.push(note);
    set("pre", { type: "string", value: "default" });
    set("tokens", { type: "strings", value: tokens });
    set("scores", { type: "f32s", value: scoresOf(definition, tokens, types, origin) });
    set("token_type", { type: "i32s", value: types });
    set("add_space_prefix", { type: "bool", value: prefix });
  }

  const id = (name: string, value: number | undefined) => {
    if (value !== undefined) set(`${name}_token_id`, { type: "u32", value });
  };
  const special = specialTokensOf(settings);
  const [eos, eot, eom, ...others] = tokenizer.eosTokenIds;
  id("bos", tokenizer.bosTokenId);
  id("eos", eos);
  id("eot", eot);
  id("eom", eom);
  if (others.length > 0) {
    notes.push(`GGUF supports at most three end-of-text tokens; ${others.join(", ")} are left out`);
  }
  id("unknown", tokenizer.tokenToId(special["unk_token"] ?? String(definition.model["unk_token"] ?? "")));
  id("padding", tokenizer.tokenToId(special["pad_token"] ?? ""));
  const framed = tokenizer.encode("a");
  const addsBos = tokenizer.bosTokenId !== undefined && framed[0] === tokenizer.bosTokenId;
  const addsEos = framed.length > 1 && tokenizer.eosTokenIds.includes(framed.at(-1) as number);
  set("add_bos_token", { type: "bool", value: addsBos });
  set("add_eos_token", { type: "bool", value: addsEos });

  const templates = chatTemplatesOf(files["chat_template.jinja"], settings);
  const named = [...templates.keys()].filter((name) => name !== "default");
  if (named.length > 0) fields.set("tokenizer.chat_templates", { type: "strings", value: named });
  for (const [name, source] of templates) {
    const key = name === "default" ? "tokenizer.chat_template" : `tokenizer.chat_template.${name}`;
    fields.set(key, { type: "string", value: source });
  }
  if (notes.length > 0) {
    fields.set(notesKey, { type: "string", value: notes.join("\n") });
    fields.set(originalDefinitionKey, { type: "string", value: files["tokenizer.json"] });
  }
  return { fields, notes };
}

/** Text and type of each token id, one per row of the embedding. */
function vocabularyOf(definition: TokenizerDefinition, rows: number, origin: string) {
  const tokens = new Array<string | undefined>(rows).fill(undefined);
  const types = new Int32Array(rows).fill(tokenType.unused);
  const put = (content: string, id: number, type: number) => {
    if (id >= rows) {
      throw new TokenizerError(
        `${origin}: token ${JSON.stringify(content)} has id ${id}, but the embedding has only ${rows} rows`,
      );
    }
    tokens[id] = content;
    types[id] = type;
  };
  const unknown = definition.model["unk_token"];
  const hasBytes = definition.model["byte_fallback"] === true;
  for (const [content, id] of Object.entries(definition.model["vocab"] as Record<string, number>)) {
    const isByte = hasBytes && /^<0x[0-9A-F]{2}>$/.test(content);
    put(content, id, content === unknown ? tokenType.unknown : isByte ? tokenType.byte : tokenType.normal);
  }
  for (const { content, id, special } of definition.added_tokens) {
    if (types[id] === tokenType.unknown) continue;
    put(content, id, special ? tokenType.control : tokenType.userDefined);
  }
  const taken = new Set(tokens);
  const filled = tokens.map((token, id) => {
    if (token !== undefined) return token;
    let filler = `[PAD${id}]`; // named as in llama.cpp's converter; token texts must be unique
    while (taken.has(filler)) filler = `[${filler}]`;
    return filler;
  });
  return { tokens: filled, types };
}

const isByteLevel = ({ pre_tokenizer, decoder }: TokenizerDefinition): boolean =>
  [pre_tokenizer, decoder].every((part) => part !== null && partsOf(part).some(({ type }) => type === "ByteLevel"));

/** The component itself or, for a sequence, its parts. */
function partsOf(component: Component): readonly Component[] {
  const list = component["pretokenizers"] ?? component["normalizers"] ?? component["decoders"];
  return Array.isArray(list) ? (list as Component[]).flatMap(partsOf) : [component];
}

const mergesOf = ({ model }: TokenizerDefinition): readonly (readonly [string, string])[] =>
  (model["merges"] as (string | [string, string])[]).map((merge) =>
    typeof merge === "string" ? (merge.split(" ") as [string, string]) : merge,
  );

/** Whether a SentencePiece tokenizer adds a space before the text. @throws TokenizerError if it is not a SentencePiece tokenizer */
function sentencePieceSpaces(definition: TokenizerDefinition, origin: string): { prefix: boolean; note?: string } {
  const refuse = (problem: string) =>
    new TokenizerError(`${origin}: GGUF cannot represent this tokenizer: ${problem}`, {
      code: "unsupported_tokenizer",
      hint: "export with format merged, which keeps the original tokenizer",
    });
  const { normalizer, pre_tokenizer: pre, model } = definition;
  if (model["byte_fallback"] !== true) throw refuse("it is neither byte-level nor SentencePiece with byte_fallback");
  if (pre !== null) {
    const first = partsOf(pre);
    const [metaspace] = first;
    if (first.length > 1 || metaspace?.type !== "Metaspace" || normalizer !== null || metaspace["split"] === true) {
      throw refuse(`its pre-tokenizer is ${first.map(({ type }) => type).join(", ")}`);
    }
    const scheme = metaspace["prepend_scheme"] ?? (metaspace["add_prefix_space"] === false ? "never" : "always");
    if (scheme !== "first") return { prefix: scheme === "always" };
    return {
      prefix: true,
      note: "llama.cpp adds a space before text that follows a special token, and this tokenizer does not: pass token ids to llama.cpp for exact results",
    };
  }
  const normalizers = normalizer === null ? [] : partsOf(normalizer);
  const replaces = normalizers.some(({ type, content }) => type === "Replace" && content === "▁");
  const other = normalizers.find(({ type }) => type !== "Replace" && type !== "Prepend");
  if (!replaces || other !== undefined) throw refuse(`its normalizer is ${other?.type ?? "not SentencePiece's"}`);
  return { prefix: normalizers.some(({ type }) => type === "Prepend") };
}

/** Scores that give the merges the order of the tokenizer's list. @throws TokenizerError if no scores do */
function scoresOf(definition: TokenizerDefinition, tokens: readonly string[], types: Int32Array, origin: string) {
  const merges = mergesOf(definition);
  const rank = new Map<string, number>();
  merges.forEach(([left, right], at) => {
    if (!rank.has(left + right)) rank.set(left + right, at);
  });
  // Single characters are never the result of a merge, so their scores have no effect.
  const scores = Float32Array.from(tokens, (token) => -(rank.get(token) ?? merges.length));
  const isPiece = (id: number) => types[id] === tokenType.normal || types[id] === tokenType.userDefined;
  const rebuilt = mergesFromScores(tokens, scores, isPiece);
  // All merges that produce a token share its score, so only their relative order may differ.
  const listed = (pairs: readonly (readonly [string, string])[]) =>
    pairs
      .map((pair) => ({ pair: pair.join(" "), at: rank.get(pair.join("")) ?? Number.POSITIVE_INFINITY }))
      .toSorted((a, b) => a.at - b.at || (a.pair < b.pair ? -1 : 1))
      .map(({ pair }) => pair);
  const [ours, theirs] = [listed(merges), listed(rebuilt)];
  if (ours.length === theirs.length && ours.every((pair, at) => pair === theirs[at])) return scores;
  throw new TokenizerError(`${origin}: GGUF cannot represent this tokenizer: no scores reproduce its merges`, {
    code: "unsupported_tokenizer",
    hint: "export with format merged, which keeps the original tokenizer",
  });
}
