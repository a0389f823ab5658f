/** `@tinklet/models/tokenizer`: encodes and decodes text with a tokenizer built from the contents of its files. No `node:` imports. */
export type { ChatMessage, ChatTemplateOptions } from "../chat/types.ts";
export { TokenizerError } from "../errors.ts";
export { type FetchTokenizerOptions, fetchTokenizerFiles } from "../hub/tokenizer-files.ts";
export { tokenizerFromFiles } from "./from-files.ts";
export {
  createTextStream,
  type StreamedTokenizer,
  type TextStream,
  type TextStreamOptions,
} from "./text-stream.ts";
export type { Tokenizer, TokenizerFileName, TokenizerFiles } from "./types.ts";
