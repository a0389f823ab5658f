/** The loading of tokenizers as programs call it; the code behind it comes with the first call. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { LoadTokenizerOptions } from "./load.ts";

/**
 * Loads the tokenizer of a model: the bundled model's name, a folder, a `.gguf` file, or a name on the Hub: from the cache if it is
 * there, else from the Hub into the cache. Obeys `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`.
 *
 * @throws {@link TokenizerError} saying what is missing and what to do.
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
 * The tokenizer of a model, by the official SDK's rules for names. The last 32 are kept; a failure is not.
 *
 * @param model.tokenizerId - what the server says (`getInfo().modelData.tokenizerId`).
 */
export async function tokenizerForModel(
  model: { readonly modelName: string; readonly tokenizerId?: string | undefined },
  options: LoadTokenizerOptions = {},
): Promise<Tokenizer> {
  return (await import("./load.ts")).tokenizerForModel(model, options);
}
