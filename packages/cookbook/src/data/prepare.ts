/** From a data file to the data of the supervised loop: training and evaluation sets, with a summary of their sizes. */
import { createHash } from "node:crypto";
import type { Tokenizer } from "@tinklet/sdk";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { type DataSummary, summarize } from "../cost/cost.ts";
import { convertAll, DataError } from "./data-error.ts";
import { splitData } from "./dataset.ts";
import { type Example, readExamples, toExample } from "./examples.ts";
import type { HistoryPolicies, HistoryPolicy } from "./history.ts";
import {
  type DatumOptions,
  type Reduction,
  type Rendered,
  renderExamples,
  type SupervisedDatum,
  type TrainOn,
  toDatum,
} from "./render.ts";

export interface PrepareOptions extends Omit<DatumOptions, "reduction"> {
  /** How the tokens of an example share its weight. @defaultValue "mean", or what a run that is resumed began with */
  readonly reduction?: Reduction | undefined;
  /** Which tokens carry weight in the loss. @defaultValue "all_answers" */
  readonly trainOn?: TrainOn;
  /** For conversations whose earlier answers the template rewrites. @defaultValue {@link historyPolicies} */
  readonly history?: HistoryPolicy | HistoryPolicies;
  /** Share (below 1) or number of distinct examples kept for evaluation. Ignored with `testExamples`. @defaultValue 0 */
  readonly testShare?: number;
  /** Examples for evaluation, for example of a test file ({@link readExamples}). @defaultValue none: `testShare` decides */
  readonly testExamples?: readonly Example[] | undefined;
  /** Random seed of the split. @defaultValue 0 */
  readonly seed?: number;
  /** Called with a warning when conversations were split into several examples. @defaultValue `console.warn` */
  readonly onWarning?: (text: string) => void;
}

const prepareNames: OptionNames<PrepareOptions> = {
  trainOn: true,
  history: true,
  onWarning: true,
  testShare: true,
  testExamples: true,
  seed: true,
  maxLength: true,
  reduction: true,
};

/** Data that is ready to train on. */
export interface PreparedData {
  readonly train: readonly SupervisedDatum[];
  readonly test: readonly SupervisedDatum[];
  /** The examples that `train` and `test` were made from. */
  readonly examples: { readonly train: readonly Example[]; readonly test: readonly Example[] };
  /** Number of training examples that are equal to an earlier one. */
  readonly repeated: number;
  /** Number of evaluation examples that are in the training data too; only a test file of its own can have any. */
  readonly leaked: number;
  /** Figures of the training data. */
  readonly summary: DataSummary;
  /** Figures of the evaluation data. */
  readonly testSummary: DataSummary;
  /** Conversations that the template could not show as one example, and how many examples they became. */
  readonly split: { readonly conversations: number; readonly examples: number };
  /** Hash of tokens, weights and their order: a run is resumed only with the same data. */
  readonly digest: string;
  readonly reduction: Reduction;
  /** Whether `reduction` is the default. A run that is resumed then keeps the one it began with. */
  readonly isDefaultReduction: boolean;
}

/**
 * Reads, renders and splits a file of examples.
 *
 * @throws {@link DataError} naming file and line, or when no example has a token to learn.
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
  const checked = convertAll(examples, (example, at) => toExample(example, { file, line: at + 1 }));
  return prepared(file, checked, tokenizer, options);
}

function prepared(
  file: string,
  examples: readonly Example[],
  tokenizer: Tokenizer,
  options: PrepareOptions,
): PreparedData {
  const { trainOn = "all_answers", testShare = 0, seed = 0, maxLength, reduction = "mean" } = options;
  const render = renderExamples(tokenizer, { trainOn, ...omitUndefined({ history: options.history }) });
  const rendered = convertAll(examples, (example) => ({ example, parts: render(example) }));
  const heldOut = convertAll(options.testExamples ?? [], (example) => ({ example, parts: render(example) }));
  const parts = [...rendered, ...heldOut].map((one) => one.parts);
  const split = splitOf(parts);
  if (split.conversations > 0) (options.onWarning ?? console.warn)(splitWarning(split));
  // Splits whole conversations: parts of one conversation must not be in both training and evaluation.
  const apart =
    options.testExamples === undefined
      ? splitData(rendered, { share: testShare, seed, key: keyOf })
      : { train: rendered, test: heldOut };
  const [train, test] = [apart.train.flatMap((one) => one.parts), apart.test.flatMap((one) => one.parts)];
  const data = (part: readonly Rendered[]) =>
    part.map((one) => toDatum(one, omitUndefined({ maxLength, reduction }))).filter((datum) => datum !== undefined);
  const both = { train: data(train), test: data(test) };
  if (both.train.length === 0) {
    throw new DataError({ file }, "has no example with anything left to learn", {
      hint:
        maxLength === undefined ? undefined : `All answers lie beyond ${maxLength} tokens: raise the maximum length.`,
    });
  }
  const trained = new Set(apart.train.map(keyOf));
  return {
    ...both,
    examples: {
      train: apart.train.map(({ example }) => example),
      test: apart.test.map(({ example }) => example),
    },
    repeated: apart.train.length - trained.size,
    leaked: apart.test.filter((one) => trained.has(keyOf(one))).length,
    summary: summarize(train, { maxLength }),
    testSummary: summarize(test, { maxLength }),
    split,
    digest: digestOf(parts.flat()),
    reduction,
    isDefaultReduction: options.reduction === undefined,
  };
}

/** Equal examples have equal keys. */
const keyOf = ({ parts }: { readonly parts: readonly Rendered[] }) =>
  parts.map(({ tokens }) => tokens.join(",")).join("|");

function splitOf(rendered: readonly (readonly Rendered[])[]): PreparedData["split"] {
  const several = rendered.filter((parts) => parts.length > 1);
  return { conversations: several.length, examples: several.flat().length };
}

const splitWarning = ({ conversations, examples }: PreparedData["split"]) =>
  `${conversations} conversation${conversations === 1 ? "" : "s"} became ${examples} examples: the model's chat template rewrites earlier answers, so each answer is learned with the context in which it was given.`;

function digestOf(rendered: readonly Rendered[]): string {
  const hash = createHash("sha256");
  for (const { tokens, weights } of rendered) hash.update(`${tokens.join(",")}|${weights.join(",")}\n`);
  return hash.digest("hex").slice(0, 16);
}
