/**
 * Environments in messages instead of tokens, by the model's own chat template. Contains the continuation rule: if the rendered
 * conversation begins with the last prompt and the sampled answer, the next prompt is those tokens and the encoding of the rest;
 * otherwise the whole text is encoded again.
 */
import type { Chat, ChatMessage, ChatTool, RenderedChat, Reply } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/sdk";
import type { Action, Env, EnvGroup, MakeEnvs, Observation, StepResult } from "./env.ts";

/** A model's answer, parsed. */
export interface ReplyMessage extends Reply {
  /** Everything that was written, without the token that ends the turn. */
  readonly raw: string;
  /** Whether the answer was cut by the limit of tokens. */
  readonly isCut: boolean;
}

/** The result of a reply. */
export interface MessageStep extends Omit<StepResult, "next"> {
  /** What is said next, after the model's reply; needed unless the episode is over. */
  readonly messages?: readonly ChatMessage[];
}

/** An episode in messages. */
export interface MessageEnv {
  initialMessages(signal: AbortSignal): readonly ChatMessage[] | Promise<readonly ChatMessage[]>;
  step(reply: ReplyMessage, signal: AbortSignal): MessageStep | Promise<MessageStep>;
  close?(): void | Promise<void>;
}

/** How conversations are rendered and parsed. */
export interface ConversationOptions {
  /** Of the model that answers: `createChat(tokenizer)` of `@tinklet/models/chat`. */
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
  /** The longest answer, in tokens. @defaultValue the run's sampling parameters */
  readonly maxTokens?: number;
  /** Tools that the model may call. */
  readonly tools?: readonly ChatTool[];
  /** Variables of the template, for example `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** A conversation as the model sees it, turn by turn. */
export class Conversation {
  readonly #options: ConversationOptions;
  readonly messages: ChatMessage[] = [];
  #rendered: RenderedChat | undefined;
  #tokens: readonly number[] = [];
  /** The last prompt with the answer to it, as text and as tokens. */
  #last: { readonly text: string; readonly tokens: readonly number[] } | undefined;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** The prompt that asks for the next answer, by the continuation rule. */
  ask(messages: readonly ChatMessage[]): Observation {
    const { chat, tokenizer, maxTokens, tools, variables } = this.#options;
    this.messages.push(...messages);
    const rendered = chat.render(this.messages, { ...(tools && { tools }), ...(variables && { variables }) });
    const last = this.#last;
    this.#tokens =
      last !== undefined && rendered.text.startsWith(last.text)
        ? [...last.tokens, ...tokenizer.encode(rendered.text.slice(last.text.length), { addSpecialTokens: false })]
        : chat.encode(rendered);
    this.#rendered = rendered;
    return { tokens: this.#tokens, stop: chat.endTokenIds, ...(maxTokens === undefined ? {} : { maxTokens }) };
  }

  /** Parses the answer to the last prompt and appends it to the conversation. */
  read({ tokens, stopReason }: Action): ReplyMessage {
    const { chat, tokenizer } = this.#options;
    const rendered = this.#rendered as RenderedChat;
    const ends = tokens.findIndex((token) => chat.endTokenIds.includes(token));
    const raw = tokenizer.decode(ends < 0 ? tokens : tokens.slice(0, ends));
    this.#last = { text: rendered.text + tokenizer.decode(tokens), tokens: [...this.#tokens, ...tokens] };
    const reply = { ...chat.parse(tokens, rendered), raw, isCut: stopReason === "length" && ends < 0 };
    this.messages.push(this.#message(reply));
    return reply;
  }

  /** Calls become `tool_calls` if the template supports tools; otherwise they stay the text that was sampled, which the next prompt continues. */
  #message({ raw, text, toolCalls }: ReplyMessage): ChatMessage {
    if (toolCalls.length === 0 || !this.#options.chat.templateReadsTools) return { role: "assistant", content: raw };
    const calls = toolCalls.map((call, at) => ({
      id: `call_${this.messages.length}_${at}`,
      type: "function",
      function: call,
    }));
    return { role: "assistant", content: text, tool_calls: calls };
  }
}

/**
 * An environment over messages.
 *
 * @example
 * ```ts
 * const env = messageEnv({
 *   initialMessages: () => [{ role: "user", content: "Say a word with three letters." }],
 *   step: ({ raw }) => ({ reward: raw.trim().length === 3 ? 1 : 0, done: true }),
 * }, { chat, tokenizer });
 * ```
 */
export function messageEnv(env: MessageEnv, options: ConversationOptions): Env {
  const conversation = new Conversation(options);
  return {
    initialObservation: async (signal) => conversation.ask(await env.initialMessages(signal)),
    async step(action, signal) {
      const reply = conversation.read(action);
      const { messages = [], ...result } = await env.step(reply, signal);
      const logs = { answer: reply.raw, ...result.logs };
      if (result.done) return { ...result, logs };
      return { ...result, logs, next: conversation.ask(messages) };
    },
    ...(env.close === undefined ? {} : { close: () => env.close?.() }),
  };
}

/** A group of conversations with the same beginning. @param make - makes one of them */
export function messageEnvs(
  name: string,
  options: ConversationOptions & { readonly tags?: readonly string[] },
  make: (how: { readonly index: number; readonly seed: number }) => MessageEnv,
): EnvGroup {
  const { tags, ...conversation } = options;
  return {
    name,
    ...(tags === undefined ? {} : { tags }),
    makeEnvs: ({ size, seed }: MakeEnvs) =>
      Array.from({ length: size }, (_, index) => messageEnv(make({ index, seed }), conversation)),
  };
}
