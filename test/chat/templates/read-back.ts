/** The last turn of the assistant in a rendered conversation, read back by the family's parser. */

import { forTemplate } from "../../../packages/models/src/chat/conversation.ts";
import type { Chat } from "../../../packages/models/src/chat/create-chat.ts";
import type { Reply } from "../../../packages/models/src/chat/types.ts";
import type { Tokenizer } from "../../../packages/models/src/tokenizer/types.ts";
import type { Conversation } from "./conversations.ts";

/** What was written and what was read, by value; undefined where the template does not write the turn behind its prompt as it is. */
export function readBack(chat: Chat, tokenizer: Tokenizer, conversation: Conversation) {
  const { messages, tools, variables } = conversation;
  const last = messages.at(-1);
  if (last?.role !== "assistant") return undefined;
  const given = { variables, ...(tools && { tools }) };
  const prompt = chat.render(messages.slice(0, -1), given);
  const whole = tokenizer.applyChatTemplate(forTemplate(messages, chat.format), { ...given, tokenize: false });
  if (!whole.startsWith(prompt.text)) return undefined;
  const ids = tokenizer.encode(whole.slice(prompt.text.length), { addSpecialTokens: false });
  const calls = (last["tool_calls"] ?? []) as { function: { name: string; arguments: unknown } }[];
  const written = {
    text: String(last.content).trim(),
    reasoning: whole.slice(prompt.text.length).includes(String(last["reasoning_content"] ?? "\0"))
      ? String(last["reasoning_content"]).trim()
      : "",
    toolCalls: calls.map(({ function: { name, arguments: value } }) => ({ name, arguments: value })),
  };
  return { written, read: byValue(chat.parse(ids, prompt)) };
}

const byValue = ({ text, reasoning, toolCalls }: Reply) => ({
  text: text.trim(),
  reasoning: reasoning.trim(),
  toolCalls: toolCalls.map(({ name, arguments: json }) => ({ name, arguments: JSON.parse(json) as unknown })),
});
