/**
 * Tasks that make the prompts of chats off the main thread: tokenizing takes time in proportion to the client's text, and a chat template
 * is a program of the model that may not terminate. The thread keeps opened tokenizers until it ends.
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

/** Messages, tools and options that the chat template renders. */
export interface Conversation extends RenderChatOptions {
  readonly messages: readonly ChatMessage[];
  /** Beginning of the reply, written by the client. */
  readonly prefill?: string;
  /** The reply begins with a tool call: of this tool or, without a name, of any. */
  readonly callFirst?: { readonly tool?: string };
}

/** A rendered conversation and its token ids. */
export interface ChatPrompt {
  readonly rendered: RenderedChat;
  readonly prompt: Int32Array;
  /** Selects how replies of the model are parsed. */
  readonly traits: ChatTraits;
}

/** The text has more characters than any prompt that fits the context. */
export class TextTooLong extends Error {
  override readonly name = "TextTooLong";
}

/** The thread was restarted and needs `openTokenizer` first. */
export class UnknownTokenizer extends Error {
  override readonly name = "UnknownTokenizer";
}

/** Token ids of a text. @param longest - maximum length in characters. @throws TextTooLong */
export function encodeText(
  tokenizer: Tokenizer,
  { text, addSpecialTokens, longest }: { text: string; addSpecialTokens: boolean; longest: number },
): Int32Array {
  if (text.length > longest) throw new TextTooLong(`${text.length} characters`);
  return Int32Array.from(tokenizer.encode(text, { addSpecialTokens }));
}

interface OpenedModel {
  readonly tokenizer: Tokenizer;
  /** Created at first use, because that runs the template. */
  chat?: Chat;
}

/** The prompt of a conversation. @throws TokenizerError when the template rejects it; TextTooLong */
function renderChat(model: OpenedModel, conversation: Conversation, longest: number): ChatPrompt {
  const { messages, prefill: given = "", callFirst, ...options } = withNumbers(conversation);
  model.chat ??= createChat(model.tokenizer);
  const { tokenizer, chat } = model;
  const rendered = chat.render(messages, options);
  // A reply that starts in reasoning cannot start with a call: the handler refuses it.
  const opensCall = callFirst !== undefined && !rendered.startsInReasoning;
  const prefill = opensCall ? given + (chat.format.callOpening?.textOf(callFirst.tool) ?? "") : given;
  const text = rendered.text + prefill;
  const prompt = encodeText(tokenizer, { text, addSpecialTokens: false, longest });
  const whole = prefill === "" ? rendered : { ...rendered, text, startsInReasoning: false };
  return { rendered: whole, prompt, traits: chat.traits };
}

/** Templates write JSON with `JSON.stringify`, which cannot write the bigints of schemas and arguments. */
function withNumbers(conversation: Conversation): Conversation {
  if (!hasBigint(conversation)) return conversation;
  const asNumber = (_key: string, value: unknown) => (typeof value === "bigint" ? Number(value) : value);
  return JSON.parse(JSON.stringify(conversation, asNumber)) as Conversation;
}

/** Recursion is bounded: bodies have at most `jsonDepth` levels. */
function hasBigint(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value === "bigint";
  return Object.values(value).some(hasBigint);
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
