/** `@tinklet/models/tokenizer`: text to token ids and back, from the contents of a tokenizer's files. No `node:` imports. */
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
