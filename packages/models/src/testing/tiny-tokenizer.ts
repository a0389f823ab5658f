/** Byte-level BPE tokenizers for tests, as the contents of their files: of any settings, and one with about 270 tokens. */
import type { TokenizerFiles } from "../tokenizer/types.ts";

/** The 256 characters that represent bytes in byte-level BPE, in byte order. */
export function byteCharacters(): string[] {
  const plain = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let shifted = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(plain(byte) ? byte : shifted++));
}

const merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld"];
const tokens = [...byteCharacters(), ...merges.map((merge) => merge.replace(" ", ""))];
const special = ["<|begin|>", "<|im_start|>", "<|im_end|>", "<|end|>"];

const chatml =
  "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/** The `tokenizer.json` of a byte-level BPE tokenizer. `special`: tokens with their ids. */
export function byteLevelTokenizer(options: {
  readonly vocab: Readonly<Record<string, number>>;
  readonly special: Readonly<Record<string, number>>;
  readonly merges?: readonly string[];
  readonly postProcessor?: object;
  /** Whether text is split into words before the merges. */
  readonly splitsWords: boolean;
}): string {
  return JSON.stringify({
    version: "1.0",
    added_tokens: Object.entries(options.special).map(([content, id]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: {
      type: "ByteLevel",
      add_prefix_space: false,
      trim_offsets: true,
      use_regex: options.splitsWords,
    },
    post_processor: options.postProcessor ?? null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: options.vocab,
      merges: (options.merges ?? []).map((merge) => merge.split(" ")),
    },
  });
}

/** Token ids: bytes 0 to 255, merges from 256, special tokens from 265. */
export const tinyTokenizer = {
  "tokenizer.json": byteLevelTokenizer({
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    special: Object.fromEntries(special.map((content, i) => [content, tokens.length + i])),
    merges,
    postProcessor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<|begin|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<|begin|>": { id: "<|begin|>", ids: [tokens.length], tokens: ["<|begin|>"] } },
    },
    splitsWords: true,
  }),
  "tokenizer_config.json": JSON.stringify({
    bos_token: "<|begin|>",
    eos_token: { content: "<|im_end|>" },
    chat_template: chatml,
    tokenizer_class: "PreTrainedTokenizerFast",
  }),
  "generation_config.json": JSON.stringify({ eos_token_id: [267, 268] }),
} satisfies TokenizerFiles;
