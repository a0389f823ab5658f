/** Questions with a check: the simplest environment. */
import type { ChatMessage } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { EnvGroup } from "./env.ts";
import { type ConversationOptions, messageEnvs, type ReplyMessage } from "./message-env.ts";

/** The verdict on an answer: right or wrong, a reward, or a reward with metrics. */
export type Verdict =
  | boolean
  | number
  | { readonly reward: number; readonly metrics?: Readonly<Record<string, number>> };

/** Options of {@link problemEnv}. */
export interface ProblemOptions extends ConversationOptions {
  /** A question, or the conversation that ends with it. */
  readonly question: string | readonly ChatMessage[];
  /** Your reward: `true` is 1 and `false` is 0. @param answer - the text, without reasoning and surrounding spaces */
  readonly check: (answer: string, reply: ReplyMessage) => Verdict | Promise<Verdict>;
  /** Names the problem in the log. @defaultValue the question's first 80 characters */
  readonly name?: string;
  readonly tags?: readonly string[];
}

const problemNames: OptionNames<ProblemOptions> = {
  question: true,
  check: true,
  name: true,
  tags: true,
  chat: true,
  tokenizer: true,
  maxTokens: true,
  tools: true,
  variables: true,
};

/**
 * A question whose answers are checked. Each answer is an episode of one turn.
 *
 * @throws InvalidInputError for options that are unknown or missing.
 *
 * @example
 * ```ts
 * const group = problemEnv({ chat, tokenizer, question: "What is 2 + 2?", check: (answer) => answer === "4" });
 * ```
 */
export function problemEnv(options: ProblemOptions): EnvGroup {
  checkOptions("problemEnv", options, problemNames);
  const { question, check, name, ...conversation } = options;
  if (typeof check !== "function") throw new InvalidInputError("check", "must be a function of the answer");
  const messages = typeof question === "string" ? [{ role: "user", content: question }] : question;
  if (!Array.isArray(messages) || messages.length === 0)
    throw new InvalidInputError("question", "must be a string or a list of messages");
  return messageEnvs(name ?? shortened(String(messages.at(-1)?.content)), conversation, () => ({
    initialMessages: () => messages,
    async step(reply) {
      const verdict = await check(reply.text.trim(), reply);
      const { reward, metrics = {} } = typeof verdict === "object" ? verdict : { reward: Number(verdict) };
      return { reward, done: true, metrics };
    },
  }));
}

const shortened = (text: string) => (text.length > 80 ? `${text.slice(0, 79)}…` : text);
