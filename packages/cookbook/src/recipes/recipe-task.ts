/** Builds the task of a recipe from the options it is run with. */
import { basename, join, resolve } from "node:path";
import { createChat } from "@tinklet/models/chat";
import { InvalidInputError } from "@tinklet/sdk";
import { omitUndefined } from "@tinklet/wire/options";
import { checkRunName, runNameFrom } from "@tinklet/wire/run-name";
import { stageBudget } from "../cost/recipe-budget.ts";
import type { Example } from "../data/examples.ts";
import { compareAnswers } from "../evaluation/answer-pairs.ts";
import { withLoggers } from "../loggers/index.ts";
import type { Recipe, RecipeOptions, RecipeQuestion, RecipeTask } from "./recipe.ts";

/** A loop ended before its last step. */
export class Stopped extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super(reason);
    this.reason = reason;
  }
}

/** @throws InvalidInputError when it is no recipe, or takes no data and is given some. */
export function checkRecipe(recipe: Recipe, options: Pick<RecipeOptions, "data">): void {
  if (typeof recipe?.run !== "function" || typeof recipe.metric !== "string")
    throw new InvalidInputError("recipe", "must be what defineRecipe makes, as the file's default export");
  if (options.data !== undefined && recipe.takesData !== true)
    throw new InvalidInputError("data", "this recipe makes its own and takes none", {
      hint: "Copy the recipe, read your data in it (readData) and set takesData: true. The recipes sft and dpo take data as they are.",
    });
}

function exampleOf(question: RecipeQuestion): Example {
  if (typeof question === "object" && "kind" in question) return question;
  const content = typeof question === "string" ? question : question.question;
  return { kind: "chat", messages: [{ role: "user", content }] };
}

/** `tool-use-form` for the stage `form` of `tool-use`, and `math-rl` for its stage `rl`. */
const stageName = (recipe: string, stage: string): string =>
  recipe === stage || recipe.endsWith(`-${stage}`) ? recipe : `${recipe}-${stage}`;

export async function taskOf(options: RecipeOptions): Promise<RecipeTask> {
  const {
    service,
    baseModel,
    tokenizer,
    folder,
    seed = 0,
    maxSteps,
    data,
    saveEvery = 10,
    loggers = [],
    signal,
    onEvent,
    onNote,
  } = options;
  const { costLimit } = options;
  const recipeName = options.name === undefined ? basename(resolve(folder)) : checkRunName("name", options.name);
  const limitOf = (stage: string) => (costLimit === undefined ? undefined : stageBudget(folder, stage, costLimit));
  const base = await service.createSamplingClient({ baseModel });
  return {
    service,
    baseModel,
    tokenizer,
    chat: createChat(tokenizer),
    seed,
    data,
    signal,
    base,
    compare: (after, questions, before = base) =>
      compareAnswers(questions.map(exampleOf), { before, after, tokenizer, signal }),
    stage: (name) => ({
      service,
      baseModel,
      folder: join(folder, name),
      ...omitUndefined({ name: runNameFrom(stageName(recipeName, name)) }),
      seed,
      saveEvery,
      ...omitUndefined({ signal, beforeStep: limitOf(name) }),
    }),
    steps: (count) => Math.min(count, maxSteps ?? count),
    learningRate: (rate) => options.learningRate ?? rate,
    note: (text) => onNote?.(text),
    async follow(stage, loop) {
      const name = `${recipeName}/${stage}`;
      const onWarning = (text: string) => (onNote ?? console.warn)(text);
      const logged = withLoggers(loop, loggers, { name, onWarning });
      for (;;) {
        const { done, value } = await logged.next();
        if (!done) {
          onEvent?.({ stage, ...value });
          continue;
        }
        const { stopped, checkpoint } = value;
        if (stopped !== undefined) throw new Stopped(stopped);
        const { state_path: statePath, sampler_path: samplerPath } = checkpoint ?? {};
        if (statePath === undefined || samplerPath === undefined)
          throw new InvalidInputError("loop", `of ${stage} ended without a checkpoint`);
        return { statePath, samplerPath, sampler: await service.createSamplingClient({ modelPath: samplerPath }) };
      }
    },
  };
}
