/** Answers to the same questions before and after training, to be read side by side. */
import type { Tokenizer } from "@tinklet/sdk";
import type { Sampler } from "../clients.ts";
import type { Example } from "../data/examples.ts";
import { itemsToAsk } from "./data-items.ts";
import { sampled } from "./tasks.ts";

/** A question with the answers of both models. */
export interface AnswerPair {
  readonly question: string;
  /** Absent if there is no model to compare with. */
  readonly before?: string;
  readonly after: string;
  /** The answer of the data. */
  readonly expected?: string;
}

/** Options of {@link compareAnswers}. */
export interface CompareAnswersOptions {
  readonly before?: Sampler | undefined;
  readonly after: Sampler;
  readonly tokenizer: Tokenizer;
  /** Maximum tokens of an answer. @defaultValue 64 */
  readonly maxTokens?: number;
  /** Context length of the model; questions that leave no room for an answer are left out. @defaultValue no limit */
  readonly contextLength?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Number of questions in results of training. */
export const shownAnswers = 3;

/** Answers the examples by greedy decoding. Plain texts, which ask nothing, are left out. */
export async function compareAnswers(
  examples: readonly Example[],
  { before, after, tokenizer, maxTokens = 64, contextLength, signal }: CompareAnswersOptions,
): Promise<AnswerPair[]> {
  const items = itemsToAsk(examples, tokenizer);
  const answer = async (sampler: Sampler, at: number): Promise<string> => {
    const { prompt = [], textOf, endTokenIds } = items[at] as (typeof items)[number];
    const room = Math.min(maxTokens, (contextLength ?? Number.POSITIVE_INFINITY) - prompt.length);
    const context = { sampler, seed: 0, signal, chat: { endTokenIds } };
    const [sequence] = await sampled(prompt, { maxTokens: room }, at, context);
    return sequence === undefined ? "" : textOf(sequence);
  };
  const asked = items.flatMap(({ prompt }, at) =>
    prompt !== undefined && prompt.length > 0 && prompt.length < (contextLength ?? Number.POSITIVE_INFINITY)
      ? [at]
      : [],
  );
  return Promise.all(
    asked.slice(0, shownAnswers).map(async (at) => {
      const { question, expected } = items[at] as (typeof items)[number];
      const [first, second] = await Promise.all([
        before === undefined ? undefined : answer(before, at),
        answer(after, at),
      ]);
      return {
        question,
        ...(first === undefined ? {} : { before: first }),
        after: second,
        ...(expected === undefined ? {} : { expected }),
      };
    }),
  );
}
