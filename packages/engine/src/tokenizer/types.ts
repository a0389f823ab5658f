/** The tokenizer of a model, as `@tinklet/models` has it. */
export type { ChatMessage, Tokenizer } from "@tinklet/models/tokenizer";
