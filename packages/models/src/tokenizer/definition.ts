/**
 * The parts of `tokenizer.json` that this package uses, and the changes needed so that `@huggingface/tokenizers` tokenizes as the Rust
 * library does. A tokenizer for which that is impossible is rejected: an error is better than tokens that the model was not trained on.
 */

import { TokenizerError } from "../errors.ts";

/** A component of the pipeline: `type` and the fields of that type. */
export interface Component {
  readonly type: string;
  readonly [key: string]: unknown;
}

export interface AddedTokenDefinition {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
  readonly normalized?: boolean;
  readonly single_word?: boolean;
  readonly lstrip?: boolean;
  readonly rstrip?: boolean;
}

/** `tokenizer.json`. */
export interface TokenizerDefinition {
  readonly added_tokens: readonly AddedTokenDefinition[];
  readonly normalizer: Component | null;
  readonly pre_tokenizer: Component | null;
  readonly post_processor: Component | null;
  readonly decoder: Component | null;
  readonly model: Component;
}

/** GPT-2's pre-tokenizer pattern, which `ByteLevel` uses with `use_regex`. */
export const gpt2Pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** A pre-tokenizer that splits around every match; each match is a separate piece. */
export const isolate = (regex: string): Component => ({
  type: "Split",
  pattern: { Regex: regex },
  behavior: "Isolated",
  invert: false,
});

/** Maximum token id; the largest published vocabularies have about 300,000 tokens. */
const largestId = 1 << 24;

/**
 * Validates a parsed `tokenizer.json` and returns an equivalent one that the JavaScript library handles correctly.
 * @throws TokenizerError naming the part of `origin` that is malformed or not supported.
 */
export function normalizeDefinition(value: unknown, origin: string): TokenizerDefinition {
  const refuse = (message: string) => new TokenizerError(`${origin}: ${message}`);
  if (!isRecord(value) || !isComponent(value["model"])) throw refuse("it is not a tokenizer.json");
  const added = value["added_tokens"] ?? [];
  if (!Array.isArray(added)) throw refuse("added_tokens is not a list");
  for (const token of added) {
    if (!isRecord(token) || typeof token["content"] !== "string" || !isId(token["id"])) {
      throw refuse(`${JSON.stringify(token)} is not an added token`);
    }
    if (token["single_word"] === true) {
      throw refuse(`the added token ${JSON.stringify(token["content"])} sets single_word, which is not supported`);
    }
  }
  checkModel(value["model"], refuse);
  const part = (key: string): Component | null => {
    const component = value[key] ?? null;
    if (component !== null && !isComponent(component)) throw refuse(`${key} must be an object with a type`);
    return component;
  };
  const normalizer = part("normalizer");
  const preTokenizer = part("pre_tokenizer");
  const cuts = preTokenizer !== null && !neverMatches(preTokenizer, normalizer);
  return {
    added_tokens: added as AddedTokenDefinition[],
    normalizer,
    pre_tokenizer: cuts ? normalizePreTokenizer(preTokenizer, refuse) : null,
    post_processor: part("post_processor"),
    decoder: part("decoder"),
    model: value["model"],
  };
}

function checkModel(model: Component, refuse: (message: string) => TokenizerError): void {
  const { type, vocab, merges } = model;
  if (type !== "BPE") throw refuse(`its model is ${type}; only BPE is supported`);
  if (!isRecord(vocab) || Object.keys(vocab).length === 0) throw refuse("its vocabulary is empty");
  for (const [token, id] of Object.entries(vocab)) {
    if (!isId(id)) throw refuse(`token ${JSON.stringify(token)} has the id ${JSON.stringify(id)}`);
  }
  const isMerge = (merge: unknown) =>
    typeof merge === "string" ||
    (Array.isArray(merge) && merge.length === 2 && merge.every((side) => typeof side === "string"));
  if (!Array.isArray(merges) || !merges.every(isMerge)) throw refuse("its merges must be pairs of tokens");
  // These change the tokens in the Rust library; the JavaScript library ignores them.
  for (const key of ["dropout", "continuing_subword_prefix"]) {
    if (model[key]) throw refuse(`its model sets ${key}, which is not supported`);
  }
}

/**
 * Two components of the JavaScript library differ from the Rust library for rare characters: `Digits` matches only 0–9 (not ², ٣ or Ⅷ), and
 * `ByteLevel` uses JavaScript's `\s`, which includes U+FEFF but not U+0085. Both are rewritten as `Split` with an exact pattern.
 */
function normalizePreTokenizer(component: Component, refuse: (message: string) => TokenizerError): Component {
  switch (component.type) {
    case "Sequence": {
      const parts = component["pretokenizers"];
      if (!Array.isArray(parts) || !parts.every(isComponent)) throw refuse("a Sequence of pre-tokenizers has no parts");
      return { ...component, pretokenizers: parts.map((part) => normalizePreTokenizer(part, refuse)) };
    }
    case "Digits":
      return isolate(component["individual_digits"] ? "\\p{N}" : "\\p{N}+");
    case "ByteLevel":
      if (component["use_regex"] === false || component["add_prefix_space"] === true) return component;
      return { type: "Sequence", pretokenizers: [isolate(gpt2Pattern), { ...component, use_regex: false }] };
    case "Split": {
      const { behavior, invert } = component;
      const exact = behavior === "Isolated" || behavior === "Removed" || invert === true;
      if (!exact) throw refuse(`the Split behavior ${String(behavior)} is not supported`);
      return component;
    }
    default:
      return component;
  }
}

/** Whether a Split never matches because the normalizer has replaced its pattern everywhere, as in Gemma's split at a space. */
function neverMatches({ type, pattern }: Component, normalizer: Component | null): boolean {
  const textOf = (value: unknown) =>
    isRecord(value) && typeof value["String"] === "string" ? value["String"] : undefined;
  const cut = type === "Split" ? textOf(pattern) : undefined;
  if (cut === undefined || normalizer?.type !== "Replace") return false;
  const { pattern: replaced, content } = normalizer;
  return textOf(replaced) === cut && [...cut].length === 1 && typeof content === "string" && !content.includes(cut);
}

function isId(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= largestId;
}

function isComponent(value: unknown): value is Component {
  return isRecord(value) && typeof value["type"] === "string";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
