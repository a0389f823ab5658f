/** From a data file to what the supervised loop trains and evaluates on, with the figures that a person wants to see first. */
import { createHash } from "node:crypto";
import type { Tokenizer } from "tinklet";
import { checkOptions, given, type OptionNames } from "tinklet/wire";
import { type DataSummary, summarize } from "./cost.ts";
import { DataError } from "./data-error.ts";
import { splitData } from "./dataset.ts";
import { type Example, readExamples, toExample } from "./examples.ts";
import {
  type DatumOptions,
  type Rendered,
  renderExample,
  type SupervisedDatum,
  type TrainOn,
  toDatum,
} from "./render.ts";

export interface PrepareOptions extends DatumOptions {
  /** Which tokens carry weight in the loss. @defaultValue "all_answers" */
  readonly trainOn?: TrainOn;
  /** Share (below 1) or number of distinct examples kept for evaluation. @defaultValue 0 */
  readonly testShare?: number;
  /** Random seed of the split. @defaultValue 0 */
  readonly seed?: number;
}

const prepareNames: OptionNames<PrepareOptions> = {
  trainOn: true,
  testShare: true,
  seed: true,
  maxLength: true,
  reduction: true,
};

/** Data that is ready to train on. */
export interface PreparedData {
  readonly train: readonly SupervisedDatum[];
  readonly test: readonly SupervisedDatum[];
  /** Figures of the training data. */
  readonly summary: DataSummary;
  /** Figures of the evaluation data. */
  readonly testSummary: DataSummary;
  /** Hash of tokens, weights and their order: a run is resumed only with the same data. */
  readonly digest: string;
}

/**
 * Reads, renders and splits a file of examples.
 *
 * @throws {@link DataError} naming file and line, or when nothing is left to learn from.
 */
export async function prepareSupervised(
  file: string,
  tokenizer: Tokenizer,
  options: PrepareOptions = {},
): Promise<PreparedData> {
  checkOptions("prepareSupervised", options, prepareNames);
  return prepared(file, await readExamples(file), tokenizer, options);
}

/**
 * Renders and splits examples that a program made: conversations, prompts with completions, or texts, as lines of a file would be.
 *
 * @throws {@link DataError} naming the example, counted from 1, or when nothing is left to learn from.
 *
 * @example
 * ```ts
 * const data = prepareExamples([{ prompt: "2 + 2 =", completion: " 4" }], tokenizer);
 * ```
 */
export function prepareExamples(
  examples: readonly object[],
  tokenizer: Tokenizer,
  options: PrepareOptions = {},
): PreparedData {
  checkOptions("prepareExamples", options, prepareNames);
  const file = "examples";
  if (examples.length === 0) throw new DataError({ file }, "are empty");
  const checked = examples.map((example, at) => toExample(example, { file, line: at + 1 }));
  return prepared(file, checked, tokenizer, options);
}

function prepared(
  file: string,
  examples: readonly Example[],
  tokenizer: Tokenizer,
  options: PrepareOptions,
): PreparedData {
  const { trainOn = "all_answers", testShare = 0, seed = 0, maxLength, reduction } = options;
  const rendered = examples.map((example) => renderExample(example, tokenizer, { trainOn }));
  const { train, test } = splitData(rendered, { share: testShare, seed, key: ({ tokens }) => tokens.join(",") });
  const data = (part: readonly Rendered[]) =>
    part.map((one) => toDatum(one, given({ maxLength, reduction }))).filter((datum) => datum !== undefined);
  const both = { train: data(train), test: data(test) };
  if (both.train.length === 0) {
    throw new DataError({ file }, "has no example with anything left to learn", {
      hint:
        maxLength === undefined ? undefined : `All answers lie beyond ${maxLength} tokens: raise the maximum length.`,
    });
  }
  return {
    ...both,
    summary: summarize(train, { maxLength }),
    testSummary: summarize(test, { maxLength }),
    digest: digestOf(rendered),
  };
}

function digestOf(rendered: readonly Rendered[]): string {
  const hash = createHash("sha256");
  for (const { tokens, weights } of rendered) hash.update(`${tokens.join(",")}|${weights.join(",")}\n`);
  return hash.digest("hex").slice(0, 16);
}
