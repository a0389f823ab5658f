/** Evaluates several models on the same items, side by side: the loss of a data file, scores of answers, and the tasks of recipes. */
import { createChat } from "@tinklet/models/chat";
import { InvalidInputError, ModelInput, type Tokenizer } from "@tinklet/sdk";
import { untilAborted } from "@tinklet/wire/abort";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { Sampler, Scorer } from "../clients.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";
import type { AnswerScore } from "./answer-scores.ts";
import type { EvalItem, PreparedItem } from "./data-items.ts";
import { type Estimate, estimate } from "./statistics.ts";
import { type EvalTask, sampled } from "./tasks.ts";

/** A model to evaluate. */
export interface ComparedModel {
  /** Name in the results. */
  readonly label: string;
  readonly sampler: Sampler & Partial<Scorer>;
}

/** A score of one model over all items. */
export interface ScoreFigures extends Estimate {
  readonly items: number;
  /** Answers that could not be parsed; each counts as 0. */
  readonly unparsed: number;
}

/** A column of the results. */
export interface ScoreColumn {
  readonly name: string;
  readonly better: "higher" | "lower";
}

/** The answer of one model to one item. */
export interface ComparedAnswer {
  /** Absent if nothing was sampled. */
  readonly text?: string;
  /** `null`: the answer could not be parsed. */
  readonly scores: Readonly<Record<string, number | null>>;
  /** Whether the answer ended at the token limit. */
  readonly truncated: boolean;
}

/** One item with the answers of all models, in their order. */
export interface ComparedItem extends EvalItem {
  readonly task: string;
  readonly answers: readonly ComparedAnswer[];
}

/** The result of a comparison; plain JSON. */
export interface Comparison {
  readonly scores: readonly ScoreColumn[];
  /** One per model: figures by score. */
  readonly results: readonly Readonly<Record<string, ScoreFigures>>[];
  readonly items: readonly ComparedItem[];
}

interface CompareOptions {
  /** @defaultValue 0 */
  readonly seed?: number;
  /** Requests at the same time. @defaultValue 64 */
  readonly maxRequests?: number;
  readonly signal?: AbortSignal | undefined;
  /** Called after each item of a model. */
  readonly onProgress?: (model: string, done: number, total: number) => void;
}

/** Options of {@link compareOnData}. */
export interface CompareOnDataOptions extends CompareOptions {
  /** Name of the data, in the items. */
  readonly name: string;
  /** Scores of sampled answers. Empty: only the loss is computed. */
  readonly scores: readonly AnswerScore[];
  /** Maximum tokens of an answer. @defaultValue 128 */
  readonly maxTokens?: number;
  /** @defaultValue 0 */
  readonly temperature?: number;
  /** Context length of the models: prompts that leave no room for an answer are not sampled. @defaultValue no limit */
  readonly contextLength?: number | undefined;
}

const compareNames: OptionNames<CompareOptions> = { seed: true, maxRequests: true, signal: true, onProgress: true };
const dataNames: OptionNames<CompareOnDataOptions> = {
  ...compareNames,
  name: true,
  scores: true,
  maxTokens: true,
  temperature: true,
  contextLength: true,
};

/** A model's result for one item. `losses` has one value per datum, because the data's mean counts each datum once. */
interface Measured {
  readonly answer: ComparedAnswer;
  readonly losses: readonly number[];
}

/**
 * Evaluates models on the items of a data file: the loss of the expected answers, as `test/nll` of the training loops, and scores of sampled answers.
 *
 * @example
 * ```ts
 * const items = evaluationItems(await readExamples("test.jsonl"), tokenizer);
 * const models = [{ label: "base", sampler: base }, { label: "mine", sampler: mine }];
 * const { results } = await compareOnData(models, items, { name: "test", scores: [exactScore] });
 * console.log(results[1]?.loss?.mean, results[1]?.exact?.mean);
 * ```
 */
export async function compareOnData(
  models: readonly ComparedModel[],
  items: readonly PreparedItem[],
  options: CompareOnDataOptions,
): Promise<Comparison> {
  checkOptions("compareOnData", options, dataNames);
  if (items.length === 0) throw new InvalidInputError("items", "must not be empty");
  const { name, scores } = options;
  const taken = scores.map((score) => score.name);
  const double = [...taken, ...lossColumns].find((one, at, all) => all.indexOf(one) !== at);
  if (double !== undefined) throw new InvalidInputError("scores", `must have different names, got ${double} twice`);
  const measured: Measured[][] = [];
  for (const model of models) {
    const limit = new EpisodeLimit(options.maxRequests ?? 64);
    let done = 0;
    const one = async (item: PreparedItem, index: number): Promise<Measured> => {
      const losses = await Promise.all(
        item.data.map((datum) => limit.run(1, () => lossOf(model.sampler, datum, options))),
      );
      const answer = await limit.run(1, () => answerOf(model.sampler, item, index, options));
      done += 1;
      options.onProgress?.(model.label, done, items.length);
      const loss = losses.length === 0 ? {} : { loss: mean(losses) };
      return { losses, answer: { ...answer, scores: { ...loss, ...answer.scores } } };
    };
    measured.push(await allOf(items.map(one)));
  }
  const hasLoss = measured.some((each) => each.some(({ losses }) => losses.length > 0));
  return {
    scores: [
      ...(hasLoss ? lossColumns.map((column) => ({ name: column, better: "lower" as const })) : []),
      ...scores
        .filter((score) => measured[0]?.some(({ answer }) => score.name in answer.scores))
        .map((score) => ({ name: score.name, better: "higher" as const })),
    ],
    results: measured.map((each) => ({ ...lossFigures(each), ...scoreFigures(each, taken) })),
    items: items.map(({ question, messages, expected }, at) => ({
      task: name,
      question,
      ...(messages === undefined ? {} : { messages }),
      ...(expected === undefined ? {} : { expected }),
      answers: measured.map((each) => (each[at] as Measured).answer),
    })),
  };
}

const lossColumns = ["loss", "perplexity"] as const;

/** Waits for all, so that no request is under way after the first error. */
async function allOf<T>(work: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(work);
  return Promise.all(work);
}

/** Mean negative log-likelihood of the weighted tokens of a datum. */
async function lossOf(
  sampler: Partial<Scorer>,
  { modelInput, lossFnInputs: { target_tokens: targets, weights } }: SupervisedDatum,
  { signal }: CompareOptions,
): Promise<number> {
  if (sampler.computeLogprobs === undefined)
    throw new InvalidInputError("sampler", "must have computeLogprobs, as a SamplingClient has");
  const tokens = [...modelInput.toInts(), Number(targets.values.at(-1))];
  const logprobs = await sampler.computeLogprobs(ModelInput.fromInts(tokens), signal === undefined ? {} : { signal });
  let [nll, total] = [0, 0];
  for (let at = 0; at < weights.values.length; at++) {
    const weight = Number(weights.values[at]);
    if (weight === 0) continue;
    nll -= weight * (logprobs[at + 1] ?? Number.NaN);
    total += weight;
  }
  return nll / total;
}

async function answerOf(
  sampler: Sampler,
  item: PreparedItem,
  index: number,
  options: CompareOnDataOptions,
): Promise<ComparedAnswer> {
  const { scores, seed = 0, signal, temperature = 0, contextLength = Number.POSITIVE_INFINITY } = options;
  const { prompt, expected } = item;
  const asked = scores.filter(({ needsExpected }) => needsExpected !== true || expected !== undefined);
  if (prompt === undefined || asked.length === 0) return { scores: {}, truncated: false };
  const maxTokens = Math.min(options.maxTokens ?? 128, contextLength - prompt.length);
  if (maxTokens < 1) {
    return { text: "", scores: Object.fromEntries(asked.map(({ name }) => [name, null])), truncated: true };
  }
  const context = { sampler, seed, signal, chat: item };
  const [sequence] = await sampled(prompt, { maxTokens, temperature }, index, context);
  const text = sequence === undefined ? "" : item.textOf(sequence);
  const scored: Record<string, number | null> = {};
  for (const { name, score } of asked)
    scored[name] = checked(name, await untilAborted(Promise.resolve(score(text, item)), signal));
  return { text, scores: scored, truncated: sequence?.stopReason === "length" };
}

function checked(name: string, value: unknown): number | null {
  if (value === undefined || value === null) return null;
  const score = typeof value === "boolean" ? Number(value) : value;
  if (typeof score === "number" && Number.isFinite(score)) return score;
  throw new InvalidInputError(
    "score",
    `of ${name} must give a finite number, true, false or undefined, got ${String(value)}`,
  );
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function lossFigures(each: readonly Measured[]): Record<string, ScoreFigures> {
  const losses = each.flatMap((one) => one.losses);
  if (losses.length === 0) return {};
  const estimated = estimate(losses);
  const loss = { ...estimated, low: Math.max(0, estimated.low), items: losses.length, unparsed: 0 };
  const { mean: middle, low, high, standardError } = loss;
  const perplexity = {
    ...{ mean: Math.exp(middle), low: Math.exp(low), high: Math.exp(high) },
    standardError: Math.exp(middle) * standardError, // first order
  };
  return { loss, perplexity: { ...loss, ...perplexity } };
}

function scoreFigures(
  each: readonly Pick<Measured, "answer">[],
  names: readonly string[],
): Record<string, ScoreFigures> {
  const figures: Record<string, ScoreFigures> = {};
  for (const name of names) {
    const values = each.flatMap(({ answer: { scores } }) => (name in scores ? [scores[name] as number | null] : []));
    if (values.length === 0) continue;
    const unparsed = values.filter((value) => value === null).length;
    figures[name] = { ...estimate(values.map((value) => value ?? 0)), items: values.length, unparsed };
  }
  return figures;
}

/** Options of {@link compareOnTasks}. */
export interface CompareOnTasksOptions extends CompareOptions {
  readonly tokenizer: Tokenizer;
}

/** Evaluates models on tasks, as {@link evaluate} does for one model; the score has the name of its task. */
export async function compareOnTasks(
  models: readonly ComparedModel[],
  tasks: readonly EvalTask[],
  options: CompareOnTasksOptions,
): Promise<Comparison> {
  checkOptions("compareOnTasks", options, { ...compareNames, tokenizer: true });
  const { tokenizer, seed = 0, maxRequests = 64, signal, onProgress } = options;
  if (tasks.length === 0) throw new InvalidInputError("tasks", "must not be empty");
  const chat = createChat(tokenizer);
  const all: Awaited<ReturnType<EvalTask["run"]>>[][] = [];
  for (const { label, sampler } of models) {
    const limit = new EpisodeLimit(maxRequests);
    const inTurn = <T>(request: () => Promise<T>) => limit.run(1, request);
    const context = { sampler, chat, tokenizer, seed, signal, inTurn };
    const of: Awaited<ReturnType<EvalTask["run"]>>[] = [];
    for (const [at, task] of tasks.entries()) {
      of.push(await task.run(context));
      onProgress?.(label, at + 1, tasks.length);
    }
    all.push(of);
  }
  const answersOf = (of: (typeof all)[number], task: number) =>
    (of[task] ?? []).map(({ answer, scores }): ComparedAnswer => {
      const value = mean(scores.map((score) => score ?? 0));
      const isUnparsed = scores.every((score) => score === undefined);
      return { text: answer, scores: { [tasks[task]?.name ?? ""]: isUnparsed ? null : value }, truncated: false };
    });
  return {
    scores: tasks.map(({ name }) => ({ name, better: "higher" })),
    results: all.map((of) =>
      Object.assign(
        {},
        ...tasks.map(({ name }, at) =>
          scoreFigures(
            answersOf(of, at).map((answer) => ({ answer })),
            [name],
          ),
        ),
      ),
    ),
    items: tasks.flatMap(({ name }, task) =>
      (all[0]?.[task] ?? []).map(({ question }, at) => ({
        task: name,
        question,
        answers: all.map((of) => answersOf(of, task)[at] as ComparedAnswer),
      })),
    ),
  };
}
