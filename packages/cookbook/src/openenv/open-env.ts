/** Environments that are served by the OpenEnv protocol, as environments of the cookbook. */
import type { ChatMessage } from "@tinklet/models/chat";
import { InvalidInputError, systemClock } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { EnvGroup } from "../environments/env.ts";
import { type ConversationOptions, messageEnv, type ReplyMessage } from "../environments/message-env.ts";
import { baseUrl, type OpenEnvResult, type OpenEnvSession, type OpenEnvTransport, openSession } from "./session.ts";

/** Options of {@link openEnv}. */
export interface OpenEnvOptions extends Omit<ConversationOptions, "tools">, OpenEnvTransport {
  /** The message that shows an observation to the model: a text, or messages. `turn` is 0 for the first. */
  readonly prompt: (observation: OpenEnvResult["observation"], turn: number) => string | readonly ChatMessage[];
  /** The action that an answer means. Its fields are those of the environment's action (`/schema` of the server). */
  readonly action: (reply: ReplyMessage) => Readonly<Record<string, unknown>>;
  /** Parameters of `reset`. All rollouts of a group get the same `seed`, unless one is given. */
  readonly reset?: Readonly<Record<string, unknown>>;
  /** Names the group in the log. @defaultValue the URL */
  readonly name?: string;
  readonly tags?: readonly string[];
}

const optionNames: OptionNames<OpenEnvOptions> = {
  prompt: true,
  action: true,
  reset: true,
  name: true,
  tags: true,
  chat: true,
  tokenizer: true,
  maxTokens: true,
  variables: true,
  transport: true,
  headers: true,
  callTimeoutMs: true,
  maxReplyBytes: true,
  clock: true,
};

/** The largest seed: servers read it as a positive 32-bit integer. */
const seeds = 2 ** 31;

/**
 * An environment of an OpenEnv server. The reward of a turn is that of its step.
 *
 * @param url - of the server, without `/ws`.
 * @throws InvalidInputError for options that are not usable.
 *
 * @example
 * ```ts
 * const group = openEnv("http://localhost:8000", {
 *   chat, tokenizer, maxTokens: 16,
 *   prompt: ({ hint }) => String(hint),
 *   action: ({ text }) => ({ guess: Number(text) }),
 * });
 * ```
 */
export function openEnv(url: string, options: OpenEnvOptions): EnvGroup {
  checkOptions("openEnv", options, optionNames);
  const { prompt, action, reset = {}, name, tags, transport = "websocket", headers = {}, clock, ...rest } = options;
  const { callTimeoutMs = 30_000, maxReplyBytes = 2 ** 20, ...conversation } = rest;
  if (typeof prompt !== "function") throw new InvalidInputError("prompt", "must be a function of an observation");
  if (typeof action !== "function") throw new InvalidInputError("action", "must be a function of a reply");
  if (transport !== "websocket" && transport !== "http")
    throw new InvalidInputError("transport", `must be websocket or http, got ${JSON.stringify(transport)}`);
  const base = baseUrl(url);
  const connection = { transport, headers, callTimeoutMs, maxReplyBytes, clock: clock ?? systemClock() };
  const messagesOf = (observation: OpenEnvResult["observation"], turn: number): readonly ChatMessage[] => {
    const messages = prompt(observation, turn);
    return typeof messages === "string" ? [{ role: "user", content: messages }] : messages;
  };
  return {
    name: name ?? url,
    ...(tags === undefined ? {} : { tags }),
    makeEnvs: ({ size, seed }) =>
      Array.from({ length: size }, () => {
        let session: OpenEnvSession | undefined;
        let isOver = false;
        let turn = 0;
        const end = () => {
          isOver = true;
          session?.close();
        };
        return messageEnv(
          {
            async initialMessages(signal) {
              session = await openSession(base, connection, signal);
              if (isOver) session.close(); // the rollout ended while the connection was opened
              const { observation, done } = await session.reset({ seed: seed % seeds, ...reset }, signal);
              if (done) throw new Error(`OpenEnv ${base.href}: the episode is over after its reset`);
              return messagesOf(observation, 0);
            },
            async step(reply, signal) {
              turn += 1;
              const { observation, reward, done } = await (session as OpenEnvSession).step(action(reply), signal);
              if (done) end(); // at once: the server may have few sessions
              return done ? { reward, done } : { reward, done, messages: messagesOf(observation, turn) };
            },
            close: end,
          },
          conversation,
        );
      }),
  };
}
