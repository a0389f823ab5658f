/**
 * Recipes: files with a default export that trains a model and measures it before and after. The command line and the bench
 * give it a service, a model, a folder and a seed.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Chat } from "@tinklet/models/chat";
import type { SamplingClient, ServiceClient, Tokenizer } from "@tinklet/sdk";
import type { BeforeStep } from "../cost/budget.ts";
import type { PromptTokens } from "../cost/prompt-tokens.ts";
import type { CostLimit } from "../cost/recipe-budget.ts";
import type { Example } from "../data/examples.ts";
import type { AnswerPair } from "../evaluation/answer-pairs.ts";
import type { EvalTask } from "../evaluation/tasks.ts";
import type { MetricsLogger } from "../loggers/index.ts";
import type { CheckpointRecord } from "../runs/run-folder.ts";
import type { RunResult } from "../runs/run-result.ts";
import { checkRecipe, Stopped, taskOf } from "./recipe-task.ts";

/** What a recipe is run with. */
export interface RecipeOptions {
  readonly service: ServiceClient;
  readonly baseModel: string;
  readonly tokenizer: Tokenizer;
  /** Run folder; the same call again resumes the run in it. */
  readonly folder: string;
  /** Name of the runs; a stage is added to it. @defaultValue the name of the folder */
  readonly name?: string | undefined;
  /** @defaultValue 0 */
  readonly seed?: number;
  /** At most so many steps in each stage. @defaultValue the recipe's own */
  readonly maxSteps?: number | undefined;
  /** @defaultValue the recipe's own, which is that of the bundled model */
  readonly learningRate?: number | undefined;
  /** Steps between the checkpoints that an interrupted run resumes from. @defaultValue 10 */
  readonly saveEvery?: number | undefined;
  /** A data file of the user's, or a dataset of the Hub, for {@link readData}. @defaultValue what the recipe generates */
  readonly data?: string | undefined;
  /**
   * The most that the stages may cost together; a step that would exceed it does not start. Answers that a recipe samples outside
   * of its stages, to evaluate, are not counted.
   */
  readonly costLimit?: CostLimit | undefined;
  /** Where the metrics of every stage go besides its folder. @defaultValue nowhere */
  readonly loggers?: readonly MetricsLogger[];
  readonly signal?: AbortSignal | undefined;
  /** Called with every event of the loops. */
  readonly onEvent?: (event: RecipeEvent) => void;
  /** Called with the recipe's notes. */
  readonly onNote?: (text: string) => void;
}

/** An event of a loop, with the stage that it belongs to. */
export interface RecipeEvent {
  readonly stage: string;
  readonly type: string;
  readonly step?: number;
  readonly totalSteps?: number;
  readonly metrics?: Readonly<Record<string, number>>;
  readonly record?: CheckpointRecord;
  readonly failed?: readonly { readonly group: string; readonly message: string }[];
  /** Of a `recovery`. */
  readonly message?: string;
  readonly prompts?: PromptTokens;
}

/** The tools of a recipe. */
export interface RecipeTask {
  readonly service: ServiceClient;
  readonly baseModel: string;
  readonly tokenizer: Tokenizer;
  readonly chat: Chat;
  readonly seed: number;
  readonly data: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** The model before any training. */
  readonly base: SamplingClient;
  /** What every loop needs, with the folder of a stage: spread it into a run. */
  readonly stage: (name: string) => {
    readonly service: ServiceClient;
    readonly baseModel: string;
    readonly folder: string;
    readonly name?: string;
    readonly seed: number;
    readonly saveEvery: number;
    readonly signal?: AbortSignal;
    readonly beforeStep?: BeforeStep;
  };
  /** That many steps, or fewer where the user wants fewer. */
  readonly steps: (count: number) => number;
  /** The user's learning rate, or this one. */
  readonly learningRate: (rate: number) => number;
  /** Runs a loop to its end and gives its last weights. @throws when it was stopped before its end */
  readonly follow: (stage: string, loop: AsyncGenerator<LoopEvent, RunResult, void>) => Promise<Finished>;
  /**
   * Answers of two models to up to three questions, for `answers` of the score: questions, conversations, or examples of data.
   * @param before - @defaultValue the base model
   */
  readonly compare: (
    after: SamplingClient,
    questions: readonly RecipeQuestion[],
    before?: SamplingClient,
  ) => Promise<AnswerPair[]>;
  readonly note: (text: string) => void;
}

/** A question of {@link RecipeTask.compare}. */
export type RecipeQuestion = string | { readonly question: string } | Example;

interface LoopEvent {
  readonly type: string;
}

/** A stage that is complete. */
export interface Finished {
  /** Weights to continue from. */
  readonly statePath: string;
  readonly samplerPath: string;
  readonly sampler: SamplingClient;
}

/** Scores of a recipe. */
export interface RecipeScore {
  readonly before: number;
  readonly after: number;
  /** Answers before and after, which `tinklet recipe run` shows. */
  readonly answers?: readonly AnswerPair[];
  /** Further figures. */
  readonly [figure: string]: unknown;
}

/** A recipe. */
export interface Recipe {
  /** One line. */
  readonly about: string;
  /** What `before` and `after` are. */
  readonly metric: string;
  /** Whether it learns from a user's data; where it does not, data is refused. @defaultValue false */
  readonly takesData?: boolean;
  /** @defaultValue "higher" */
  readonly better?: "higher" | "lower";
  /** The tasks by which it measures a model; `tinklet eval RECIPE` runs them. @defaultValue none */
  readonly tasks?: (tools: Pick<RecipeTask, "chat" | "tokenizer" | "seed">) => readonly EvalTask[];
  readonly run: (task: RecipeTask) => Promise<RecipeScore>;
}

/** The result of a recipe. */
export type RecipeResult =
  | ({ readonly metric: string; readonly better: "higher" | "lower" } & RecipeScore)
  | { readonly stopped: string };

/** Gives the default export of a recipe file its type. */
export function defineRecipe(recipe: Recipe): Recipe {
  return recipe;
}

/**
 * Runs a recipe and writes `result.json` into its folder.
 *
 * @throws InvalidInputError when it is not a recipe; the errors of the recipe itself.
 */
export async function runRecipe(recipe: Recipe, options: RecipeOptions): Promise<RecipeResult> {
  checkRecipe(recipe, options);
  const { folder } = options;
  await mkdir(folder, { recursive: true });
  try {
    const score = await recipe.run(await taskOf(options));
    const result = { metric: recipe.metric, better: recipe.better ?? "higher", ...score } as const;
    await writeFile(join(folder, "result.json"), `${JSON.stringify(result, null, 2)}\n`);
    return result;
  } catch (error) {
    if (error instanceof Stopped) return { stopped: error.reason };
    if (options.signal?.aborted && error === options.signal.reason) return { stopped: "interrupted" };
    throw error;
  }
}
