/** Kinds of evaluation tasks: answers that must match, choices by their probability, and answers that a judge scores. */
import type { Chat, ChatMessage } from "@tinklet/models/chat";
import {
  InvalidInputError,
  ModelInput,
  type SampledSequence,
  type SamplingParamsInput,
  type Tokenizer,
} from "@tinklet/sdk";
import type { Sampler, Scorer } from "../clients.ts";

/** What tasks work with. */
export interface TaskContext {
  readonly sampler: Sampler & Partial<Scorer>;
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
  readonly seed: number;
  readonly signal: AbortSignal | undefined;
  /** Runs a request within the limit of concurrent items. */
  readonly inTurn: <T>(request: () => Promise<T>) => Promise<T>;
}

/** The result of one item. */
export interface ItemResult {
  readonly question: string;
  /** The first answer. */
  readonly answer: string;
  /** One per answer; undefined where it could not be parsed, which counts as 0 and is shown. */
  readonly scores: readonly (number | undefined)[];
}

/** A task of an evaluation. */
export interface EvalTask {
  readonly name: string;
  /** k of pass@k that are reported. */
  readonly passAt?: readonly number[];
  run(context: TaskContext): Promise<readonly ItemResult[]>;
}

/** A question, or the conversation that ends with it. */
export type Question = string | readonly ChatMessage[];

/** How answers are sampled. */
export interface SampledTask {
  readonly name: string;
  /** The longest answer, in tokens. @defaultValue 64 */
  readonly maxTokens?: number;
  /** Answers to each question. @defaultValue 1 */
  readonly samples?: number;
  /** @defaultValue 0 for one answer to each question, else 1 */
  readonly temperature?: number;
  /** k of pass@k, each at most `samples`. @defaultValue none */
  readonly passAt?: readonly number[];
}

/** A task by any score of an answer. A score is 0 to 1; undefined means that no answer could be read. */
export function scored<I extends { readonly question: Question }>(
  options: SampledTask & {
    readonly items: readonly I[];
    readonly score: (answer: string, item: I) => number | undefined | Promise<number | undefined>;
  },
): EvalTask {
  const { name, items, score, samples = 1, maxTokens = 64, passAt = [] } = options;
  if (items.length === 0) throw new InvalidInputError("items", `of ${name} must not be empty`);
  if (passAt.some((k) => !Number.isInteger(k) || k < 1 || k > samples))
    throw new InvalidInputError("passAt", `of ${name} must be integers from 1 to samples, which is ${samples}`);
  return {
    name,
    passAt,
    run: (context) =>
      Promise.all(
        items.map((item, index) =>
          context.inTurn(async () => {
            const texts = await answers(item.question, { ...options, samples, maxTokens }, index, context);
            const scores = await Promise.all(texts.map(async (text) => score(text, item)));
            for (const value of scores) {
              if (value !== undefined && !Number.isFinite(value))
                throw new InvalidInputError("score", `of ${name} must give finite numbers, got ${value}`);
            }
            return { question: textOf(item.question), answer: texts[0] ?? "", scores };
          }),
        ),
      ),
  };
}

/**
 * Answers that must match: the text that `parse` finds in an answer is the item's own. Spaces around it do not count.
 *
 * @param options.parse - undefined where there is no answer in the text. @defaultValue the whole text, unless it is empty
 */
export function exactMatch(
  options: SampledTask & {
    readonly items: readonly { readonly question: Question; readonly answer: string }[];
    readonly parse?: (text: string) => string | undefined;
  },
): EvalTask {
  const { parse = (text: string) => (text === "" ? undefined : text), ...rest } = options;
  return scored({
    ...rest,
    score: (text, { answer }) => {
      const found = parse(text);
      return found === undefined ? undefined : Number(found.trim() === answer.trim());
    },
  });
}

/** Answers that a judge scores from 0 to 1, for example another model; undefined where it could not decide. The answer comes first, as in {@link scored}. */
export function judged(
  options: SampledTask & {
    readonly items: readonly { readonly question: Question }[];
    readonly judge: (answer: string, question: string) => Promise<number | undefined>;
  },
): EvalTask {
  const { judge, ...rest } = options;
  return scored({ ...rest, score: (answer, { question }) => judge(answer, textOf(question)) });
}

/** Choices by their mean log-probability per token after the question: nothing is sampled. The sampler must compute log-probabilities. */
export function multipleChoice(options: {
  readonly name: string;
  readonly items: readonly {
    readonly question: Question;
    readonly choices: readonly string[];
    /** Index of the right choice. */
    readonly answer: number;
  }[];
}): EvalTask {
  const { name, items } = options;
  if (items.length === 0) throw new InvalidInputError("items", `of ${name} must not be empty`);
  for (const [at, { choices, answer }] of items.entries()) {
    if (choices.length < 2 || choices[answer] === undefined || choices.includes(""))
      throw new InvalidInputError(
        `items[${at}]`,
        `of ${name} must have two or more choices, none empty, and the index of one`,
      );
  }
  return {
    name,
    run: (context) => Promise.all(items.map((item) => context.inTurn(() => chosen(item, context)))),
  };
}

async function chosen(
  item: { readonly question: Question; readonly choices: readonly string[]; readonly answer: number },
  { sampler, chat, tokenizer, signal }: TaskContext,
): Promise<ItemResult> {
  const prompt = chat.encode(chat.render(messagesOf(item.question)));
  const means = await Promise.all(
    item.choices.map(async (choice) => {
      const tokens = tokenizer.encode(choice, { addSpecialTokens: false });
      if (sampler.computeLogprobs === undefined)
        throw new InvalidInputError("sampler", "must have computeLogprobs, as a SamplingClient has");
      const call = signal === undefined ? {} : { signal };
      const all = await sampler.computeLogprobs(ModelInput.fromInts([...prompt, ...tokens]), call);
      return all.slice(prompt.length).reduce<number>((sum, one) => sum + (one ?? 0), 0) / tokens.length;
    }),
  );
  const best = means.indexOf(Math.max(...means));
  const answer = item.choices[best] ?? "";
  return { question: textOf(item.question), answer, scores: [best < 0 ? undefined : Number(best === item.answer)] };
}

async function answers(
  question: Question,
  settings: SampledTask & { readonly samples: number },
  index: number,
  context: TaskContext,
): Promise<string[]> {
  const { chat } = context;
  const rendered = chat.render(messagesOf(question));
  const sequences = await sampled(chat.encode(rendered), settings, index, context);
  return sequences.map(({ tokens }) => chat.parse(tokens, rendered).text.trim());
}

/** Samples the answers to item `index`. The same item, settings and seed give the same requests in every evaluation. */
export async function sampled(
  prompt: readonly number[],
  settings: Omit<SampledTask, "name" | "passAt">,
  index: number,
  {
    sampler,
    chat,
    seed,
    signal,
  }: Pick<TaskContext, "sampler" | "seed" | "signal"> & { chat: Pick<Chat, "endTokenIds"> },
): Promise<readonly SampledSequence[]> {
  const { samples = 1, maxTokens = 64, temperature = samples === 1 ? 0 : 1 } = settings;
  // Sample i of a request draws from seed + i.
  const samplingParams = { maxTokens, temperature, stop: chat.endTokenIds, seed: seed + index * samples };
  const { sequences } = await sampler.sample(ModelInput.fromInts(prompt), {
    numSamples: samples,
    samplingParams: samplingParams as SamplingParamsInput,
    ...(signal === undefined ? {} : { signal }),
  });
  return sequences;
}

const messagesOf = (question: Question): readonly ChatMessage[] =>
  typeof question === "string" ? [{ role: "user", content: question }] : question;
export const textOf = (question: Question): string => String(messagesOf(question).at(-1)?.content);
