/**
 * `tokenizer.json`, checked, and rewritten where `@huggingface/tokenizers` reads it otherwise than the Rust library: its
 * `Digits` knows only 0 to 9, and its `ByteLevel` uses JavaScript's `\s` (with U+FEFF, without U+0085). Both have an
 * exact equal in `Split`. Other tokens than the model was trained on would be worse than an error.
 */
import { TokenizerError } from "./errors.ts";

/** Parsed JSON. */
export type JsonObject = Record<string, unknown>;

/** GPT-2's way to cut text into words, which `ByteLevel` with `use_regex` stands for. */
const gpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const isolate = (regex: string): JsonObject => ({
  type: "Split",
  pattern: { Regex: regex },
  behavior: "Isolated",
  invert: false,
});

/** @throws {@link TokenizerError} `tokenizer_invalid` when this is no tokenizer definition. */
export function soundDefinition(definition: JsonObject, origin: string): JsonObject {
  const model = definition["model"];
  if (typeof model !== "object" || model === null || !("vocab" in model)) {
    throw new TokenizerError("tokenizer_invalid", `${origin}: tokenizer.json describes no model with a vocabulary.`);
  }
  return { ...definition, pre_tokenizer: soundPreTokenizer(definition["pre_tokenizer"] ?? null) };
}

function soundPreTokenizer(part: unknown): unknown {
  if (typeof part !== "object" || part === null) return part;
  const component = part as JsonObject;
  switch (component["type"]) {
    case "Sequence": {
      const parts = component["pretokenizers"];
      return Array.isArray(parts) ? { ...component, pretokenizers: parts.map(soundPreTokenizer) } : part;
    }
    case "Digits":
      return isolate(component["individual_digits"] === true ? "\\p{N}" : "\\p{N}+");
    case "ByteLevel":
      if (component["use_regex"] === false || component["add_prefix_space"] === true) return part;
      return { type: "Sequence", pretokenizers: [isolate(gpt2Words), { ...component, use_regex: false }] };
    default:
      return part;
  }
}
