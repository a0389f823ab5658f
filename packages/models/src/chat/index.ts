/** `@tinklet/models/chat`: conversations as the text that a model was trained on. No `node:` imports. */
export { type ChatTemplate, compileChatTemplate } from "./chat-template.ts";
