/** Items of an evaluation, made from a data file: the prompt of the last answer, the expected answer, and the data of the loss. */
import type { Chat } from "@tinklet/models/chat";
import { createChat } from "@tinklet/models/chat";
import type { ChatMessage, SampledSequence, Tokenizer } from "@tinklet/sdk";
import { convertAll } from "../data/data-error.ts";
import type { Example } from "../data/examples.ts";
import { renderExamples, type SupervisedDatum, type TrainOn, toDatum } from "../data/render.ts";

/** One item. */
export interface EvalItem {
  /** The last message before the answer, or the prompt. */
  readonly question: string;
  /** The conversation before the answer. */
  readonly messages?: readonly ChatMessage[];
  /** The answer of the data; absent for plain texts and answers that only call tools. */
  readonly expected?: string;
}

/** An item with its tokens. */
export interface PreparedItem extends EvalItem {
  /** For the loss: none if all answers are beyond the maximum length. */
  readonly data: readonly SupervisedDatum[];
  /** Absent for plain texts. */
  readonly prompt?: readonly number[];
  /** Tokens that end an answer. */
  readonly endTokenIds: readonly number[];
  /** The text of a sampled answer. */
  readonly textOf: (answer: Pick<SampledSequence, "tokens">) => string;
}

/** Options of {@link evaluationItems}. */
export interface ItemOptions {
  /** Which tokens count in the loss. @defaultValue "all_answers" */
  readonly trainOn?: TrainOn;
  /** Longer examples are cut in the loss. @defaultValue no limit */
  readonly maxLength?: number | undefined;
}

/** @throws {@link DataError} with the examples that cannot be rendered */
export function evaluationItems(
  examples: readonly Example[],
  tokenizer: Tokenizer,
  { trainOn = "all_answers", maxLength }: ItemOptions = {},
): PreparedItem[] {
  const render = renderExamples(tokenizer, { trainOn });
  const chat = lazyChat(tokenizer);
  return convertAll(examples, (example) => {
    // As in training: the weights of one example sum to 1.
    const data = render(example).flatMap((one) => toDatum(one, { maxLength, reduction: "mean" }) ?? []);
    return { data, ...askedBy(example, tokenizer, chat) };
  });
}

type Asked = Omit<PreparedItem, "data">;

/** The items without their loss. A conversation that does not end with an answer is asked as it is. */
export function itemsToAsk(examples: readonly Example[], tokenizer: Tokenizer): Asked[] {
  const chat = lazyChat(tokenizer);
  return examples.map((example) => {
    const isOpen = example.kind === "chat" && example.messages.at(-1)?.role !== "assistant";
    return askedBy(example, tokenizer, chat, isOpen);
  });
}

/** Creates the chat at the first use: completions and texts also work without a chat template. */
function lazyChat(tokenizer: Tokenizer): () => Chat {
  let chat: Chat | undefined;
  return () => {
    chat ??= createChat(tokenizer);
    return chat;
  };
}

function askedBy(example: Example, tokenizer: Tokenizer, chat: () => Chat, isOpen = false): Asked {
  const plain = ({ tokens }: Pick<SampledSequence, "tokens">) => {
    const end = tokens.findIndex((token) => tokenizer.eosTokenIds.includes(token));
    return tokenizer.decode(end < 0 ? tokens : tokens.slice(0, end)).trim();
  };
  const { eosTokenIds: endTokenIds } = tokenizer;
  if (example.kind === "text") return { question: example.text, textOf: plain, endTokenIds };
  if (example.kind === "completion") {
    const { prompt, completion } = example;
    return { question: prompt, expected: completion, prompt: tokenizer.encode(prompt), textOf: plain, endTokenIds };
  }
  const last = isOpen ? -1 : example.messages.findLastIndex(({ role }) => role === "assistant");
  const messages = last < 0 ? example.messages : example.messages.slice(0, last);
  const rendered = chat().render(messages, { tools: example.tools ?? [] });
  const expected = last < 0 ? "" : textIn(example.messages[last]);
  return {
    question: textIn(messages.at(-1)),
    messages,
    ...(expected === "" ? {} : { expected }),
    prompt: chat().encode(rendered),
    endTokenIds: chat().endTokenIds,
    textOf: ({ tokens }) => chat().parse(tokens, rendered).text.trim(),
  };
}

/** The text of a message, whose content may be a list of parts. */
function textIn(message: ChatMessage | undefined): string {
  const content: unknown = message?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { readonly text?: unknown }) => (typeof part?.text === "string" ? part.text : "")).join("");
}
