/**
 * Which tokenizer belongs to a model: the Python SDK's rules for names, without any I/O.
 */

/** A tokenizer on the Hugging Face Hub. */
export interface TokenizerId {
  /** `org/name`. */
  readonly id: string;
  /** A commit that the official SDK pins; absent: the repository's default branch. */
  readonly revision?: string;
}

/** Tokenizers whose repositories contain Python code; the official SDK pins the trusted commit. */
const pinned: Readonly<Record<string, string>> = {
  "moonshotai/Kimi-K2-Thinking": "612681931a8c906ddb349f8ad0f582cb552189cd",
  "moonshotai/Kimi-K2.5": "4d01dfe0332d63057c186e0b262165819efb6611",
  "moonshotai/Kimi-K2.6": "b5aabbfb20227ed42becbf5541dbffd213942c58",
  "moonshotai/Kimi-K3": "f831ab66814297da540d832a5235f8e904f29d06",
};

/**
 * The tokenizer of a model.
 *
 * @param modelName - the service's name: `org/model`, `org/model/variant`, `org/model:suffix`.
 * @param tokenizerId - the tokenizer that the service reports; takes precedence over the rules for names.
 *
 * @example
 * ```ts
 * resolveTokenizer("Qwen/Qwen3-8B:special");             // { id: "Qwen/Qwen3-8B" }
 * resolveTokenizer("meta-llama/Llama-3.1-8B-Instruct");  // a copy that is not gated
 * ```
 */
export function resolveTokenizer(modelName: string, tokenizerId?: string): TokenizerId {
  const named = tokenizerId ?? guessFromModel(modelName.split(":", 1)[0] as string);
  const id = named === "moonshotai/Kimi-K2.5-Text-Only" ? "moonshotai/Kimi-K2.5" : named;
  const revision = Object.hasOwn(pinned, id) ? pinned[id] : undefined;
  return revision === undefined ? { id } : { id, revision };
}

function guessFromModel(model: string): string {
  if (model.startsWith("meta-llama/Llama-3")) return "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer";
  const parts = model.split("/");
  return parts.length === 3 ? `${parts[0]}/${parts[1]}` : model;
}
