/**
 * Prompts of chats, made beside the event loop: tokenizers take time in proportion to what a client sends, and templates are programs that
 * come with models and need not end. The thread keeps the tokenizers that it was given for as long as it lives.
 */
import {
  type Chat,
  type ChatMessage,
  type ChatTraits,
  createChat,
  type RenderChatOptions,
  type RenderedChat,
} from "@tinklet/models/chat";
import { type Tokenizer, type TokenizerFiles, tokenizerFromFiles } from "@tinklet/models/tokenizer";

/** What a conversation with a model is rendered from. */
export interface Conversation extends RenderChatOptions {
  readonly messages: readonly ChatMessage[];
  /** Beginning of the reply, written by the client. */
  readonly prefill?: string;
}

/** A conversation as a prompt. */
export interface ChatPrompt {
  readonly rendered: RenderedChat;
  readonly prompt: Int32Array;
  /** How the model's replies are read. */
  readonly traits: ChatTraits;
}

/** A text is longer than any that fits. */
export class TextTooLong extends Error {
  override readonly name = "TextTooLong";
}

/** The thread was started anew, and has to be given the tokenizer first. */
export class UnknownTokenizer extends Error {
  override readonly name = "UnknownTokenizer";
}

/** A text's ids. @param longest - characters beyond which it is not worth encoding */
export function encodeText(
  tokenizer: Tokenizer,
  { text, addSpecialTokens, longest }: { text: string; addSpecialTokens: boolean; longest: number },
): Int32Array {
  if (text.length > longest) throw new TextTooLong(`${text.length} characters`);
  return Int32Array.from(tokenizer.encode(text, { addSpecialTokens }));
}

interface OpenedModel {
  readonly tokenizer: Tokenizer;
  /** Made when it is first needed: that runs the template. */
  chat?: Chat;
}

/** The prompt of a conversation. @throws TokenizerError when the template refuses it; TextTooLong */
function renderChat(
  model: OpenedModel,
  { messages, prefill = "", ...options }: Conversation,
  longest: number,
): ChatPrompt {
  model.chat ??= createChat(model.tokenizer);
  const { tokenizer, chat } = model;
  const rendered = chat.render(messages, options);
  const text = rendered.text + prefill;
  const prompt = encodeText(tokenizer, { text, addSpecialTokens: false, longest });
  const whole = prefill === "" ? rendered : { ...rendered, text, startsInReasoning: false };
  return { rendered: whole, prompt, traits: chat.traits };
}

const opened = new Map<string, OpenedModel>();

function known(name: string): OpenedModel {
  const model = opened.get(name);
  if (model === undefined) throw new UnknownTokenizer(name);
  return model;
}

export const chatTasks = {
  openTokenizer: ({ name, files }: { name: string; files: TokenizerFiles }): void => {
    opened.set(name, { tokenizer: tokenizerFromFiles(files, name) });
  },
  encodeText: ({ name, ...text }: { name: string; text: string; addSpecialTokens: boolean; longest: number }) =>
    encodeText(known(name).tokenizer, text),
  renderChat: ({ name, conversation, longest }: { name: string; conversation: Conversation; longest: number }) =>
    renderChat(known(name), conversation, longest),
};
