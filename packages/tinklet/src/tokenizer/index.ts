/** `tokenizer`: from a model's name to a working tokenizer. The heavy parts are optional packages, loaded on first use. */
export { TokenizerError, type TokenizerProblem } from "./errors.ts";
export { type LoadTokenizerOptions, loadTokenizer, tokenizerForModel } from "./load.ts";
export { resolveTokenizer, type TokenizerId } from "./resolve.ts";
export type { ChatMessage, ChatTemplateOptions, Tokenizer } from "./tokenizer.ts";
