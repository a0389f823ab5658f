/** `@tinklet/models/chat`: conversations as the text that a model was trained on. No `node:` imports. */
export { type ChatTemplate, type ChatTemplateSource, createChatTemplate } from "./chat-template.ts";
export type { ChatMessage, ChatTemplateOptions } from "./types.ts";
