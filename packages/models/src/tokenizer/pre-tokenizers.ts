/**
 * The pre-tokenizers of byte-level tokenizers by GGUF's names. A GGUF file contains only the name (`tokenizer.ggml.pre`); the patterns are
 * from the published `tokenizer.json` of the models.
 */

import { type Component, gpt2Pattern, isolate } from "./definition.ts";

export interface NamedPreTokenizer {
  readonly splits: readonly Component[];
  /** Whether a word that is in the vocabulary becomes one token, even if the merges do not produce it. */
  readonly ignoresMerges: boolean;
  /** Whether a BOS is added if the file does not specify it. */
  readonly addsBos: boolean;
  /** Whether text is normalized to NFC first. */
  readonly nfc: boolean;
}

/** Words with an optional leading non-letter, numbers in groups of `digits`, punctuation with newlines, white space. */
const wordsAndNumbers = (digits: string) =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

/** Like {@link wordsAndNumbers}, and words are also split between lower and upper case. */
const casedWords = (() => {
  const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  const lead = "[^\\r\\n\\p{L}\\p{N}]?";
  const signs = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  return `${lead}${upper}*${lower}+|${lead}${upper}+${lower}*|\\p{N}|${signs}`;
})();

const plain = { ignoresMerges: false, addsBos: false, nfc: false };
const gpt2: NamedPreTokenizer = { ...plain, splits: [isolate(gpt2Pattern)] };
const singleDigits: NamedPreTokenizer = { ...plain, splits: [isolate("\\p{N}"), isolate(gpt2Pattern)] };
const llama3: NamedPreTokenizer = {
  splits: [isolate(wordsAndNumbers("\\p{N}{1,3}"))],
  ignoresMerges: true,
  addsBos: true,
  nfc: false,
};
const qwen2: NamedPreTokenizer = { ...plain, splits: [isolate(wordsAndNumbers("\\p{N}"))], nfc: true };
const tekken: NamedPreTokenizer = { splits: [isolate(casedWords)], ignoresMerges: true, addsBos: true, nfc: false };
/** llama.cpp's default for files without `tokenizer.ggml.pre`. */
const unnamed: NamedPreTokenizer = {
  ...plain,
  splits: [isolate("[\\p{P}\\$\\+<=>\\^~\\|]+"), isolate(gpt2Pattern), isolate("\\p{N}+"), isolate("[0-9][0-9][0-9]")],
};

export const preTokenizers: Readonly<Record<string, NamedPreTokenizer>> = {
  default: unnamed,
  "gpt-2": gpt2,
  "phi-2": gpt2,
  olmo: gpt2,
  smollm: singleDigits,
  starcoder: singleDigits,
  refact: singleDigits,
  "command-r": singleDigits,
  codeshell: singleDigits,
  "llama-bpe": llama3,
  llama3,
  "llama-v3": llama3,
  falcon3: llama3,
  "smaug-bpe": { ...llama3, ignoresMerges: false, addsBos: false },
  dbrx: { ...llama3, ignoresMerges: false, addsBos: false },
  qwen2,
  "deepseek-r1-qwen": qwen2,
  megrez: qwen2,
  stablelm2: { ...qwen2, nfc: false },
  tekken,
};
