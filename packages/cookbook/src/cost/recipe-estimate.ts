/** Tokens that a recipe would use, before anything is trained or paid for: it runs against a service that computes nothing. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SamplingClient, ServiceClient } from "@tinklet/sdk";
import type { Recipe, RecipeOptions, RecipeTask } from "../recipes/recipe.ts";
import { checkRecipe, taskOf } from "../recipes/recipe-task.ts";
import { type BeforeStep, sumOf, type TokenCounts } from "./budget.ts";
import { DryService } from "./dry-service.ts";

/** What a recipe would be run with. */
export type EstimateOptions = Pick<
  RecipeOptions,
  "baseModel" | "tokenizer" | "seed" | "maxSteps" | "learningRate" | "data" | "signal" | "onNote"
>;

/** What a stage takes. */
export interface StageEstimate {
  readonly stage: string;
  readonly steps: number;
  readonly tokens: Required<TokenCounts>;
}

/** What a recipe takes. */
export interface RecipeEstimate {
  readonly stages: readonly StageEstimate[];
  /** Asked outside of the stages: evaluations before and after them, answers that become data. */
  readonly outside: Required<TokenCounts>;
  readonly total: Required<TokenCounts>;
}

/** A stage ends after this many tokens, but not before its second step; its other steps are extrapolated. */
const enoughTokens = 500_000;

/**
 * Runs a recipe against a service that computes nothing, in a temporary folder, and counts tokens. Data are read; answers have their full
 * length and no meaning. Counts of training on examples are exact, counts of single answers are upper bounds. Conversations with an
 * environment that ends at an unreadable answer may be longer in a real run.
 *
 * @throws InvalidInputError when it is not a recipe; the errors of the recipe itself.
 *
 * @example
 * ```ts
 * const { total } = await estimateRecipe(await loadRecipe("sft"), { baseModel, tokenizer });
 * console.log(total.train, total.sample);
 * ```
 */
export async function estimateRecipe(recipe: Recipe, options: EstimateOptions): Promise<RecipeEstimate> {
  checkRecipe(recipe, options);
  const folder = await mkdtemp(join(tmpdir(), "tinklet-dry-run-"));
  try {
    const dry = new DryService(options.tokenizer);
    const stages: StageEstimate[] = [];
    const outside: Required<TokenCounts>[] = [];
    await recipe.run(await dryTask(options, { dry, folder, stages, outside }));
    outside.push(dry.taken());
    const total = whole([...stages.map(({ tokens }) => tokens), ...outside]);
    return { stages, outside: whole(outside), total };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const whole = (all: readonly TokenCounts[]): Required<TokenCounts> => ({ sample: 0, ...sumOf(all) });

interface DryRun {
  readonly dry: DryService;
  readonly folder: string;
  readonly stages: StageEstimate[];
  readonly outside: Required<TokenCounts>[];
}

async function dryTask(options: EstimateOptions, { dry, folder, stages, outside }: DryRun): Promise<RecipeTask> {
  const service = dry as unknown as ServiceClient; // it has what recipes and loops use
  const task = await taskOf({ ...options, service, folder });
  const beforeStep: BeforeStep = ({ step }) => (step >= 2 && dry.tokens > enoughTokens ? "enough" : undefined);
  return {
    ...task,
    stage: (name) => ({ ...task.stage(name), beforeStep }),
    async follow(stage, loop) {
      outside.push(dry.taken());
      for (;;) {
        const { done, value } = await loop.next();
        if (!done) continue;
        options.signal?.throwIfAborted();
        const { nextStep, totalSteps } = value;
        stages.push({ stage, steps: totalSteps, tokens: scaled(dry.taken(), totalSteps / Math.max(nextStep, 1)) });
        const sampler = (await dry.createSamplingClient()) as unknown as SamplingClient;
        return { statePath: "tinker://dry-run/state", samplerPath: "tinker://dry-run/sampler", sampler };
      }
    },
  };
}

const scaled = ({ train, evaluate, sample }: Required<TokenCounts>, factor: number): Required<TokenCounts> => ({
  train: Math.round(train * factor),
  evaluate: Math.round(evaluate * factor),
  sample: Math.round(sample * factor),
});
