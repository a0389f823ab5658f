/**
 * The token ids of a prompt. Earlier replies are inserted as the tokens that were sampled if the template keeps their text: each turn's
 * prompt in a tool loop then extends the previous turn token by token, so that the whole loop is one training sequence. Tokenizing
 * their text again may give other tokens.
 */
import type { Chat, ChatMessage, RenderChatOptions, RenderedChat } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import type { KnownMessage } from "./chat-messages.ts";

export interface PromptTokens {
  readonly rendered: RenderedChat;
  readonly tokenIds: readonly number[];
}

/** The tokenizer and the chat template of a model. */
export interface ChatModel {
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
}

/** Maximum number of replies inserted as sampled tokens, because each costs one rendering of the messages before it. Later replies are tokenized. */
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
    if (drawn === undefined || tried++ >= mostDrawn || !ends.has(drawn.at(-1)!)) continue; // truncated reply: its end-of-turn token was not sampled
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
    return undefined; // a template may reject a prefix of the messages although it accepts all of them
  }
}

/** The end of the first turn after `from`. */
function endOf(text: string, from: number, endTexts: readonly string[]): number | undefined {
  const found = endTexts.map((end) => ({ end, at: text.indexOf(end, from) })).filter(({ at }) => at >= 0);
  const first = found.sort((a, b) => a.at - b.at)[0];
  return first === undefined ? undefined : first.at + first.end.length;
}

/**
 * Whether the message still has the text of the sampled tokens: programs may edit messages before sending them again. Arguments of calls
 * are not compared, because the AI SDK sends the output of the tool's schema, in which properties may be reordered, filled with defaults,
 * removed or transformed.
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
