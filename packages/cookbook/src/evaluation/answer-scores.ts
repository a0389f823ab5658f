/** Scores of one answer: equality with the expected one, a pattern, JSON validity, and the verdict of a judge model. */
import { createContext, Script } from "node:vm";
import type { Chat } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";
import type { Sampler } from "../clients.ts";
import type { EvalItem } from "./data-items.ts";
import { sampled } from "./tasks.ts";

/** A score from 0 to 1. */
export interface AnswerScore {
  /** Column of the results. */
  readonly name: string;
  /** Whether items without an expected answer are left out. @defaultValue false */
  readonly needsExpected?: boolean;
  /** @returns true and false count as 1 and 0; `undefined` if the answer could not be parsed, which counts as 0 and is shown */
  readonly score: (
    answer: string,
    item: EvalItem,
  ) => number | boolean | undefined | Promise<number | boolean | undefined>;
}

/** Whether the answer equals the expected one; spaces around both are ignored. */
export const exactScore: AnswerScore = {
  name: "exact",
  needsExpected: true,
  score: (answer, { expected = "" }) => answer.trim() === expected.trim(),
};

/** Whether the answer is valid JSON, without anything around it. */
export const jsonScore: AnswerScore = {
  name: "json",
  score: (answer) => {
    try {
      JSON.parse(answer);
      return true;
    } catch {
      return false;
    }
  },
};

/** Time limit of one match: a pattern such as `(a+)+$` backtracks for years on a text of 50 characters. */
const matchMs = 1_000;

/**
 * Whether the answer matches a regular expression.
 *
 * @param limitMs - time limit of one match, in milliseconds. @defaultValue 1000
 * @throws InvalidInputError for a pattern that is not one; its score throws it for a match that exceeds the time limit.
 */
export function regexScore(pattern: string, limitMs: number = matchMs): AnswerScore {
  const match = compiled(pattern);
  return {
    name: "regex",
    score: (answer) => {
      try {
        return match(answer, limitMs);
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw cause;
        throw new InvalidInputError(
          "regex",
          `took more than ${limitMs} ms to match an answer of ${answer.length} characters: ${pattern}`,
          { hint: "Avoid repetitions within repetitions, such as (a+)+, and alternatives that begin alike.", cause },
        );
      }
    },
  };
}

/** A pattern as a function with a time limit. Only `vm` can interrupt a match. */
function compiled(pattern: string): (text: string, limitMs: number) => boolean {
  try {
    const context = createContext({ pattern: new RegExp(pattern, "u"), text: "" });
    const script = new Script("pattern.test(text)");
    return (text, timeout) => {
      context["text"] = text;
      return script.runInContext(context, { timeout }) as boolean;
    };
  } catch (cause) {
    throw new InvalidInputError("regex", `must be a regular expression: ${(cause as Error).message}`, { cause });
  }
}

/** A model that scores answers. */
export interface Judge {
  readonly sampler: Sampler;
  readonly chat: Chat;
  readonly signal?: AbortSignal | undefined;
}

/** Asks a judge for a number from 0 to 10 and divides it by 10; `undefined` if the reply has no such number. */
export function judgeScore({ sampler, chat, signal }: Judge): AnswerScore {
  return {
    name: "judge",
    async score(answer, { question, expected }) {
      const prompt = chat.render([{ role: "user", content: judgePrompt(answer, question, expected) }]);
      const context = { sampler, chat, seed: 0, signal };
      const [reply] = await sampled(chat.encode(prompt), { maxTokens: 16 }, 0, context);
      return reply === undefined ? undefined : verdictOf(chat.parse(reply.tokens, prompt).text);
    },
  };
}

const judgePrompt = (answer: string, question: string, expected: string | undefined): string =>
  [
    `Question:\n${question}`,
    ...(expected === undefined ? [] : [`Reference answer:\n${expected}`]),
    `Answer to be judged:\n${answer}`,
    "How good is this answer? Reply with one number from 0 (wrong) to 10 (right and complete), and nothing else.",
  ].join("\n\n");

/** The first number of a reply, if it is from 0 to 10. */
export function verdictOf(reply: string): number | undefined {
  const found = /-?\d+(?:\.\d+)?/.exec(reply)?.[0];
  const value = Number(found);
  return found !== undefined && value >= 0 && value <= 10 ? value / 10 : undefined;
}
