/**
 * Keeps a run within a sum of money (`tinklet train --max-cost`, `beforeStep: budget(price, 30)`). The rule: before a step is
 * submitted, the price of everything that the run has submitted so far plus that of this step, its evaluations included, must not
 * exceed the sum. Tokens are recorded in `spending.jsonl` before they are sent and never removed, so that steps in flight, lost
 * steps, and earlier calls count.
 */
import { omitUndefined } from "@tinklet/wire/options";
import { inputTokens } from "../loops/nll.ts";
import { batchOf, evaluatesBefore, type Plan, totalStepsOf } from "../runs/plan.ts";
import type { RunFolder, SpendingRow } from "../runs/run-folder.ts";
import { trainingCost } from "./cost.ts";
import type { ModelPrice } from "./prices.ts";

/** Tokens that were submitted or will be. */
export interface TokenCounts {
  readonly train: number;
  /** Of forward passes only. */
  readonly evaluate: number;
  /** Sampled. @defaultValue 0 */
  readonly sample?: number;
}

/** A step that is about to be submitted. */
export interface PlannedStep {
  readonly step: number;
  readonly totalSteps: number;
  /** Of this step, with the evaluations before it and, if it is the last, after it. */
  readonly tokens: TokenCounts;
  /** Of everything that this run has submitted, earlier calls and steps that were lost included. */
  readonly spent: TokenCounts;
}

/** Asked before each step is submitted; a text ends the run like an abort and says why. */
export type BeforeStep = (planned: PlannedStep) => string | undefined | Promise<string | undefined>;

/**
 * Keeps a run within a sum: for `beforeStep` of the loops. What earlier calls and lost steps cost counts as well; a step that
 * would take the whole beyond the sum, its evaluations included, is not submitted.
 *
 * @param maxCost - US dollars for the whole run
 *
 * @example
 * ```ts
 * for await (const event of trainSupervised({ ...settings, beforeStep: budget(price, 30) })) {
 *   if (event.type === "done" && event.stopped !== undefined) console.log(event.stopped);
 * }
 * ```
 */
export function budget(price: ModelPrice, maxCost: number): BeforeStep {
  return ({ tokens, spent }) => {
    const cost = trainingCost(price, sumOf([spent, tokens]));
    if (cost <= maxCost) return undefined;
    const [so, then] = [trainingCost(price, spent), cost].map((dollars) => `$${dollars.toPrecision(3)}`);
    return `the run has cost ${so} and the next step would make it ${then}, more than the $${maxCost} allowed`;
  };
}

/** The spending of one run: what it has submitted, and whether it may submit more. */
export interface Spending {
  /** Whether a step may be submitted: a text says why not. Notes nothing. */
  readonly refusal: (step: number) => Promise<string | undefined>;
  /** Notes a step, which is submitted next. */
  readonly note: (step: number) => Promise<void>;
}

/** @param run - where the tokens are noted; without one they are only counted */
export async function openSpending(
  plan: Plan & { readonly beforeStep?: BeforeStep | undefined },
  run: RunFolder | undefined,
): Promise<Spending> {
  let spent = await spentBy(run);
  return {
    refusal: async (step) => plan.beforeStep?.(plannedStep(plan, step, spent)),
    note: async (step) => {
      const { tokens } = plannedStep(plan, step, spent);
      await run?.appendSpending({ step, train_tokens: tokens.train, evaluate_tokens: tokens.evaluate });
      spent = sumOf([spent, tokens]);
    },
  };
}

/** Everything that a run has submitted, according to its folder. */
export async function spentBy(run: RunFolder | undefined): Promise<TokenCounts> {
  return sumOf(((await run?.readSpending()) ?? []).map(countsOf));
}

/** A line of `spending.jsonl` as counts. */
const countsOf = (row: SpendingRow): TokenCounts => ({
  train: row.train_tokens,
  evaluate: row.evaluate_tokens,
  ...omitUndefined({ sample: row.sample_tokens }),
});

/** The spending of a run whose steps are known only when they were sampled. */
export interface MeasuredSpending {
  /**
   * Whether a step may begin, if it is as large as the largest so far: a text says why not.
   * @param ahead - so many later ones begin with it
   */
  readonly refusal: (step: number, totalSteps: number, ahead?: number) => Promise<string | undefined>;
  /** Notes what a step takes, before it is trained; also part by part. */
  readonly note: (step: number, tokens: TokenCounts) => Promise<void>;
}

/** @param run - where the tokens are noted; without one they are only counted */
export async function measureSpending(
  run: RunFolder | undefined,
  beforeStep: BeforeStep | undefined,
): Promise<MeasuredSpending> {
  let spent = sumOf([]);
  let largest = spent;
  let current = { step: -1, tokens: spent };
  const count = (step: number, tokens: TokenCounts) => {
    spent = sumOf([spent, tokens]);
    current = { step, tokens: current.step === step ? sumOf([current.tokens, tokens]) : tokens };
    if (total(current.tokens) > total(largest)) largest = current.tokens;
  };
  for (const row of (await run?.readSpending()) ?? []) count(row.step, countsOf(row));
  return {
    refusal: async (step, totalSteps, ahead = 0) => {
      const begun = Math.min(ahead + 1, totalSteps - step);
      return beforeStep?.({ step, totalSteps, tokens: sumOf(new Array(begun).fill(largest)), spent });
    },
    note: async (step, tokens) => {
      const { train, evaluate, sample = 0 } = tokens;
      await run?.appendSpending({ step, train_tokens: train, evaluate_tokens: evaluate, sample_tokens: sample });
      count(step, tokens);
    },
  };
}

const total = ({ train, evaluate, sample = 0 }: TokenCounts): number => train + evaluate + sample;

/** A step before it is submitted. @param spent - of everything before it */
export function plannedStep(plan: Plan, step: number, spent: TokenCounts): PlannedStep {
  const { evalEvery = 10, testData = [] } = plan;
  const totalSteps = totalStepsOf(plan);
  const before = evaluatesBefore(plan, step) ? 1 : 0;
  const after = evalEvery > 0 && step === totalSteps - 1 ? 1 : 0;
  const tokens = { train: inputTokens(batchOf(plan, step)), evaluate: (before + after) * inputTokens(testData) };
  return { step, totalSteps, tokens, spent };
}

/** Of several. `sample` is there where one of them has it. */
export function sumOf(all: readonly TokenCounts[]): TokenCounts {
  return all.reduce(
    (a, b) => ({
      train: a.train + b.train,
      evaluate: a.evaluate + b.evaluate,
      ...(a.sample === undefined && b.sample === undefined ? {} : { sample: (a.sample ?? 0) + (b.sample ?? 0) }),
    }),
    { train: 0, evaluate: 0 },
  );
}
