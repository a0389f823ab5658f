/** What the rest of the engine uses of this folder. */

export { createTextStream, type TextStream } from "./text-stream.ts";
export type { ChatMessage, ChatTemplateOptions, Tokenizer } from "./types.ts";
