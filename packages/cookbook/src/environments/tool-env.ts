/** Problems in which the model may call tools before it answers. */
import type { ChatMessage } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";
import type { EnvGroup } from "./env.ts";
import { type MessageEnv, type MessageStep, messageEnvs } from "./message-env.ts";
import type { ProblemOptions } from "./problem-env.ts";
import { callTools, type Tool } from "./tools.ts";

/** Options of {@link toolEnv}. */
export interface ToolEnvOptions extends Omit<ProblemOptions, "tools"> {
  readonly tools: readonly Tool[];
  /** Replies that may call tools; the one after them is checked as the answer. @defaultValue 4 */
  readonly maxCalls?: number;
  /** Added for each call whose arguments were not usable. @defaultValue 0 */
  readonly errorReward?: number;
}

/**
 * A question whose answer is checked once the model answers without calling a tool.
 *
 * @example
 * ```ts
 * const group = toolEnv({ chat, tokenizer, tools: [add], question: "What is 27 + 38?", check: (answer) => answer === "65" });
 * ```
 */
export function toolEnv(options: ToolEnvOptions): EnvGroup {
  const { question, check, name, tools, maxCalls = 4, errorReward = 0, ...conversation } = options;
  if (tools.length === 0)
    throw new InvalidInputError("tools", "must not be empty; a question without tools is problemEnv");
  const messages = typeof question === "string" ? [{ role: "user", content: question }] : question;
  const definitions = tools.map(({ definition }) => definition);
  return messageEnvs(name ?? String(messages.at(-1)?.content), { ...conversation, tools: definitions }, () =>
    toolEpisode({ tools, messages, check, maxCalls, errorReward }),
  );
}

/** What an episode with tools needs. */
interface ToolEpisode extends Required<Pick<ToolEnvOptions, "tools" | "check" | "maxCalls" | "errorReward">> {
  readonly messages: readonly ChatMessage[];
}

/** One episode in which the model may call tools before it answers. */
export function toolEpisode({ tools, messages, check, maxCalls, errorReward }: ToolEpisode): MessageEnv {
  let [rounds, called, errors] = [0, 0, 0];
  return {
    initialMessages: () => messages,
    async step(reply, signal): Promise<MessageStep> {
      if (reply.toolCalls.length > 0 && rounds < maxCalls) {
        rounds += 1;
        called += reply.toolCalls.length;
        const answers = await callTools(tools, reply.toolCalls, signal);
        errors += answers.filter(({ isError }) => isError).length;
        const results = answers.map(({ name: of, content }) => ({ role: "tool", name: of, content }));
        return { reward: 0, done: false, messages: results };
      }
      const verdict = await check(reply.text.trim(), reply);
      const { reward, metrics = {} } = typeof verdict === "object" ? verdict : { reward: Number(verdict) };
      const figures = { tool_calls: called, tool_errors: errors, ...metrics };
      return { reward: reward + errors * errorReward, done: true, metrics: figures };
    },
  };
}
