/** `@tinklet/models/chat`: renders conversations with a model's chat template and parses its replies. No `node:` imports. */
export { type ChatTemplate, type ChatTemplateSource, createChatTemplate } from "./chat-template.ts";
export {
  type Chat,
  type ChatOptions,
  type ChatTraits,
  createChat,
  type ReadChatOptions,
  type RenderChatOptions,
  type RenderedChat,
  replyFormats,
} from "./create-chat.ts";
export { type CallShape, callsIn, listIn } from "./json-value.ts";
export type { CallOpening, ParserOptions, ReplyFormat, ReplyParser, TemplateProbe } from "./reply-format.ts";
export { type BodyStep, type CallBody, createReplyParser, type ReplyGrammar } from "./reply-parser.ts";
export { createReplyReader, type ReplyReader, type ReplyReaderOptions, replyOf } from "./reply-reader.ts";
export { createTextSearch, type SearchStep, type TextSearch } from "./text-search.ts";
export type {
  ChatMessage,
  ChatTemplateOptions,
  ChatTool,
  Reply,
  ReplyEvent,
  ToolCall,
} from "./types.ts";
