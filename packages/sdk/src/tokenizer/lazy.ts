/** The public functions that load tokenizers; their implementation is imported on the first call. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { LoadTokenizerOptions } from "./load.ts";

/**
 * Loads the tokenizer of a model: the bundled model's name, a folder, a `.gguf` file, or a name on the Hugging Face Hub. A Hub tokenizer is
 * read from the local cache, or downloaded into it. Reads `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`.
 *
 * @throws {@link TokenizerError} when the tokenizer cannot be found, downloaded or read.
 *
 * @example
 * ```ts
 * const tokenizer = await loadTokenizer("Qwen/Qwen3-8B");
 * tokenizer.decode(tokenizer.encode("Hello")); // "Hello"
 * ```
 */
export async function loadTokenizer(nameOrPath: string, options: LoadTokenizerOptions = {}): Promise<Tokenizer> {
  return (await import("./load.ts")).loadTokenizer(nameOrPath, options);
}

/**
 * The tokenizer of a model, by the official SDK's rules for names. The 32 most recently used are cached; failures are not.
 *
 * @param model.tokenizerId - the id that the server reports (`getInfo().modelData.tokenizerId`).
 */
export async function tokenizerForModel(
  model: { readonly modelName: string; readonly tokenizerId?: string | undefined },
  options: LoadTokenizerOptions = {},
): Promise<Tokenizer> {
  return (await import("./load.ts")).tokenizerForModel(model, options);
}
