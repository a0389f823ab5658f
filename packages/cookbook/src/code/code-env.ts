/** Programming problems: the model writes JavaScript, tests in a sandbox decide the reward. */
import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { EnvGroup } from "../environments/env.ts";
import { messageEnvs } from "../environments/message-env.ts";
import type { ProblemOptions } from "../environments/problem-env.ts";
import { type CodeTest, checkTest, type GradedProgram, type Sandbox } from "./sandbox.ts";

/** Options of {@link codeEnv}. */
export interface CodeEnvOptions extends Omit<ProblemOptions, "check" | "tools"> {
  readonly tests: readonly CodeTest[];
  /** Shared by all problems of a run: `createSandbox()`. */
  readonly sandbox: Sandbox;
  /** Your reward. @defaultValue 1 where all tests pass, 0 otherwise */
  readonly reward?: (graded: GradedProgram) => number;
}

const optionNames: OptionNames<CodeEnvOptions> = {
  question: true,
  tests: true,
  sandbox: true,
  reward: true,
  name: true,
  tags: true,
  chat: true,
  tokenizer: true,
  maxTokens: true,
  variables: true,
};

/**
 * A programming problem. Metrics: `tests_passed`, the share of the tests, and `limit_reached`, 1 for a program that a limit ended.
 *
 * @throws InvalidInputError for options or tests that are not usable.
 *
 * @example
 * ```ts
 * const tests = [{ call: "double", args: [4], expected: 8 }];
 * const group = codeEnv({ chat, tokenizer, sandbox, question: "Write double(x) in JavaScript.", tests });
 * ```
 */
export function codeEnv(options: CodeEnvOptions): EnvGroup {
  checkOptions("codeEnv", options, optionNames);
  const { question, tests, sandbox, name, reward = ({ share }) => Number(share === 1), ...conversation } = options;
  if (!Array.isArray(tests) || tests.length === 0) throw new InvalidInputError("tests", "must be a list of tests");
  for (const test of tests) checkTest(test);
  if (typeof sandbox?.grade !== "function")
    throw new InvalidInputError("sandbox", "must be what createSandbox() returns");
  const messages = typeof question === "string" ? [{ role: "user", content: question }] : question;
  return messageEnvs(name ?? String(messages.at(-1)?.content).slice(0, 80), conversation, () => ({
    initialMessages: () => messages,
    async step(reply, signal) {
      const graded = await sandbox.grade(programIn(reply.text), tests, signal);
      const metrics = { tests_passed: graded.share, limit_reached: Number(graded.ended !== undefined) };
      const message = graded.ended ?? graded.outcomes.find(({ outcome }) => outcome !== "passed")?.message;
      return {
        reward: reward(graded),
        done: true,
        metrics,
        ...(message === undefined ? {} : { logs: { error: message } }),
      };
    },
  }));
}

/** The program of an answer: its last fenced block, or the whole answer where it has none. */
export function programIn(answer: string): string {
  const fence = "```";
  const end = answer.lastIndexOf(fence);
  const start = end < 1 ? -1 : answer.lastIndexOf(fence, end - 1);
  if (start < 0) return answer.trim();
  const block = answer.slice(start + fence.length, end);
  const firstLine = block.indexOf("\n");
  return block.slice(/^[\w-]*\s*$/.test(block.slice(0, Math.max(firstLine, 0))) ? firstLine + 1 : 0).trim();
}
