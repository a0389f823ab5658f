/** `tokenizer`: from a model's name to a working tokenizer. The heavy parts are `@tinklet/models`, loaded on first use. */
export type { ChatMessage, ChatTemplateOptions, Tokenizer } from "@tinklet/models/tokenizer";
export { TokenizerError, type TokenizerProblem } from "./errors.ts";
export { loadTokenizer, tokenizerForModel } from "./lazy.ts";
export type { LoadTokenizerOptions } from "./load.ts";
export { resolveTokenizer, type TokenizerId } from "./resolve.ts";
