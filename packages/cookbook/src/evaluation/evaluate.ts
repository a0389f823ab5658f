/** Evaluations: scores of tasks with confidence intervals. Answers that could not be parsed are counted and shown. */
import type { Chat } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { Sampler, Scorer } from "../clients.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";
import { type Estimate, estimate, passAtK } from "./statistics.ts";
import type { EvalTask, ItemResult } from "./tasks.ts";

/** Options of {@link evaluate}. */
export interface EvaluateOptions {
  /** Of the model: `createChat(tokenizer)` of `@tinklet/models/chat`. */
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
  /** @defaultValue 0 */
  readonly seed?: number;
  /** Items at the same time. @defaultValue 64 */
  readonly maxRequests?: number;
  readonly signal?: AbortSignal | undefined;
}

const optionNames: OptionNames<EvaluateOptions> = {
  chat: true,
  tokenizer: true,
  seed: true,
  maxRequests: true,
  signal: true,
};

/** The result of a task; plain JSON. */
export interface TaskResult extends Estimate {
  readonly name: string;
  readonly items: number;
  readonly answers: number;
  /** Answers that could not be parsed; each counts as 0. */
  readonly unparsed: number;
  /** pass@k by k, where `passAt` asks for it. */
  readonly passAt: Readonly<Record<string, number>>;
  /** Some items; those with unparsed answers come first. */
  readonly examples: readonly ItemResult[];
}

/**
 * Evaluates a model.
 *
 * @throws InvalidInputError for tasks that cannot be run; the sampler's errors.
 *
 * @example
 * ```ts
 * const sums = exactMatch({ name: "sums", items: [{ question: "What is 2 + 2?", answer: "4" }] });
 * const [result] = await evaluate(sampler, [sums], { chat, tokenizer });
 * console.log(result?.mean, result?.low, result?.high, result?.unparsed);
 * ```
 */
export async function evaluate(
  sampler: Sampler & Partial<Scorer>,
  tasks: readonly EvalTask[],
  options: EvaluateOptions,
): Promise<readonly TaskResult[]> {
  checkOptions("evaluate", options, optionNames);
  const { chat, tokenizer, seed = 0, maxRequests = 64, signal } = options;
  const limit = new EpisodeLimit(maxRequests);
  const context = {
    sampler,
    chat,
    tokenizer,
    seed,
    signal,
    inTurn: <T>(request: () => Promise<T>) => limit.run(1, request),
  };
  return Promise.all(tasks.map(async (task) => resultOf(task, await task.run(context))));
}

function resultOf({ name, passAt = [] }: EvalTask, items: readonly ItemResult[]): TaskResult {
  const perItem = items.map(
    ({ scores }) => scores.reduce<number>((sum, score) => sum + (score ?? 0), 0) / scores.length,
  );
  const isUnparsed = ({ scores }: ItemResult) => scores.includes(undefined);
  return {
    name,
    items: items.length,
    answers: items.reduce((sum, { scores }) => sum + scores.length, 0),
    ...estimate(perItem),
    unparsed: items.reduce((sum, { scores }) => sum + scores.filter((score) => score === undefined).length, 0),
    passAt: Object.fromEntries(
      passAt.map((k) => {
        const each = items.map(({ scores }) =>
          passAtK({ count: scores.length, right: scores.filter((score) => score === 1).length, k }),
        );
        return [k, each.reduce((sum, one) => sum + one, 0) / each.length];
      }),
    ),
    examples: [...items.filter(isUnparsed), ...items.filter((item) => !isUnparsed(item))].slice(0, 5),
  };
}

/** The results as a table for people. */
export function evaluationTable(results: readonly TaskResult[]): string {
  const rows = [
    ["task", "score", "95 % interval", "items", "unparsed", "pass@k"],
    ...results.map(({ name, mean, low, high, items, unparsed, answers, passAt }) => [
      name,
      mean.toFixed(3),
      `${low.toFixed(3)} to ${high.toFixed(3)}`,
      String(items),
      unparsed === 0 ? "0" : `${unparsed} of ${answers}`,
      Object.entries(passAt)
        .map(([k, value]) => `@${k} ${value.toFixed(3)}`)
        .join(" "),
    ]),
  ];
  const widths = (rows[0] as string[]).map((_, at) => Math.max(...rows.map((row) => (row[at] ?? "").length)));
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] as number))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
