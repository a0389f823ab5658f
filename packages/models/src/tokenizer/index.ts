/** `@tinklet/models/tokenizer`: text to token ids and back. No `node:` imports. */
export { createTextStream, type TextStream } from "./text-stream.ts";
export type { ChatMessage, ChatTemplateOptions, Tokenizer } from "./types.ts";
