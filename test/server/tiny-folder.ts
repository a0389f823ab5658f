/** A tiny model as a folder with weights and a byte-level tokenizer, for scripts that need a real engine and no download. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { writeTinyModel } from "../../packages/engine/src/testing/tiny-model.ts";

/** Bytes as the characters that byte-level tokenizers write them with: printable ones as they are, others shifted up. */
function byteCharacters(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    return String.fromCharCode(printable ? byte : next++);
  });
}

export async function writeTinyFolder(folder: string, overrides: Record<string, unknown> = {}): Promise<void> {
  await mkdir(folder, { recursive: true });
  const vocab = Object.fromEntries([
    ["<eos>", 0],
    ...byteCharacters().map((character, i) => [character, i + 1] as const),
  ]);
  await writeTinyModel(folder, {
    vocab_size: 257,
    max_position_embeddings: 256,
    architectures: ["LlamaForCausalLM"],
    ...overrides,
  });
  const special = {
    id: 0,
    content: "<eos>",
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  };
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: [special],
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab,
      merges: [],
    },
  };
  await writeFile(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  await writeFile(
    join(folder, "tokenizer_config.json"),
    JSON.stringify({ tokenizer_class: "PreTrainedTokenizerFast", eos_token: "<eos>", model_max_length: 256 }),
  );
}
