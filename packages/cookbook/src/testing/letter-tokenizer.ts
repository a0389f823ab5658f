/** A tokenizer for tests: one id per character, ChatML around messages, `<end>` as the token that ends a turn. */
import type { ChatMessage, ChatTemplateOptions, Tokenizer } from "@tinklet/sdk";

const specials = ["<start>", "<end>"];
const pattern = /<start>|<end>|[\s\S]/gu;

export function letterTokenizer(options: { readonly forgetful?: boolean } = {}): Tokenizer {
  const encode = (text: string): number[] =>
    (text.match(pattern) ?? []).map((piece) => {
      const special = specials.indexOf(piece);
      return special >= 0 ? special : (piece.codePointAt(0) as number);
    });
  const render = (messages: readonly ChatMessage[], addGenerationPrompt = false): string => {
    const turns = messages.map(({ role, content }, at) => {
      // Like templates that drop the reasoning of earlier turns.
      const text = options.forgetful && at < messages.length - 1 ? String(content).replace(/^.*\|/, "") : content;
      return `<start>${role}\n${text}<end>\n`;
    });
    return `${turns.join("")}${addGenerationPrompt ? "<start>assistant\n" : ""}`;
  };
  return {
    encode,
    decode: (ids) => Array.from(ids, (id) => specials[id] ?? String.fromCodePoint(id)).join(""),
    applyChatTemplate: (messages: readonly ChatMessage[], given: ChatTemplateOptions = {}) => {
      const text = render(messages, given.addGenerationPrompt);
      return (given.tokenize === false ? text : encode(text)) as never;
    },
    hasChatTemplate: true,
    eosTokenIds: [1],
    bosTokenId: undefined,
    vocabSize: 128,
    tokenToId: (token) => encode(token)[0],
    idToToken: (id) => specials[id] ?? String.fromCodePoint(id),
    isSpecial: (id) => id < specials.length,
    tokenBytes: () => undefined,
  };
}
