/** `tokenizer`: loads the tokenizer of a model by name. The implementation is in `@tinklet/models`, loaded on first use. */
export type { ChatMessage, ChatTemplateOptions, Tokenizer } from "@tinklet/models/tokenizer";
export { TokenizerError, type TokenizerProblem } from "./errors.ts";
export { loadTokenizer, tokenizerForModel } from "./lazy.ts";
export type { LoadTokenizerOptions } from "./load.ts";
export { resolveTokenizer, type TokenizerId } from "./resolve.ts";
