/**
 * The token ids of a prompt. Earlier replies go in as the very tokens that were drawn, where the template leaves them in place: the
 * prompt of each turn of a tool loop then continues the turn before it token by token, which is what training on the whole loop needs.
 * Writing them anew from their text may give other tokens for the same words.
 */
import type { Chat, ChatMessage, RenderChatOptions, RenderedChat } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { KnownMessage } from "./chat-messages.ts";

export interface PromptTokens {
  readonly rendered: RenderedChat;
  readonly tokenIds: readonly number[];
}

/** What a model's conversations are made with. */
export interface ChatModel {
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
}

/** Earlier replies that go in as they were drawn; each costs a rendering of what is before it. Later ones are written anew. */
const mostDrawn = 64;

/** @throws TokenizerError where the model has no template, or its template refuses the messages. */
export function promptTokens(
  { chat, tokenizer }: ChatModel,
  known: readonly KnownMessage[],
  options: RenderChatOptions,
): PromptTokens {
  const messages = known.map(({ message }) => message);
  const rendered = chat.render(messages, options);
  const ends = new Set(chat.endTokenIds);
  const endTexts = chat.endTokenIds.map((id) => tokenizer.idToToken(id)).filter((text) => text !== undefined);
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });

  const tokenIds: number[] = [];
  let written = 0; // characters of the rendered text that are in tokenIds
  let tried = 0;
  for (const [at, { message, tokenIds: drawn }] of known.entries()) {
    if (drawn === undefined || tried++ >= mostDrawn || !ends.has(drawn.at(-1)!)) continue; // cut off: the template's end of turn was never drawn
    const asked = renderOrNothing(chat, messages.slice(0, at), options);
    if (asked === undefined || asked.text.length < written || !rendered.text.startsWith(asked.text)) continue;
    if (!saysTheSame(chat, asked, drawn, message)) continue;
    const end = endOf(rendered.text, asked.text.length, endTexts);
    if (end === undefined) continue;
    for (const id of encode(rendered.text.slice(written, asked.text.length))) tokenIds.push(id);
    for (const id of drawn) tokenIds.push(id);
    written = end;
  }
  for (const id of encode(rendered.text.slice(written))) tokenIds.push(id);
  return { rendered, tokenIds };
}

function renderOrNothing(
  chat: Chat,
  messages: readonly ChatMessage[],
  options: RenderChatOptions,
): RenderedChat | undefined {
  try {
    return chat.render(messages, options);
  } catch {
    return undefined; // a template may refuse a beginning and take the whole
  }
}

/** Where the first turn behind `from` ends. */
function endOf(text: string, from: number, endTexts: readonly string[]): number | undefined {
  const found = endTexts.map((end) => ({ end, at: text.indexOf(end, from) })).filter(({ at }) => at >= 0);
  const first = found.sort((a, b) => a.at - b.at)[0];
  return first === undefined ? undefined : first.at + first.end.length;
}

/**
 * Whether the message is still what was drawn: programs may edit what they send back. Arguments of calls are not compared, because the
 * AI SDK sends the output of the tool's schema, in which properties may be reordered, filled with defaults, removed or transformed.
 */
function saysTheSame(chat: Chat, asked: RenderedChat, drawn: readonly number[], message: ChatMessage): boolean {
  const { text, reasoning, toolCalls } = chat.parse(drawn, asked);
  const calls = (message["tool_calls"] ?? []) as readonly { function: { name: string } }[];
  return (
    text === message.content &&
    reasoning === (message["reasoning_content"] ?? "") &&
    toolCalls.length === calls.length &&
    toolCalls.every(({ name }, i) => name === calls[i]!.function.name)
  );
}
