/** `recipe list|run|copy`: recipes of the cookbook, and copies of them. Parses options and prints; the cookbook runs the recipe. */
import { existsSync } from "node:fs";
import { join, parse } from "node:path";
import type { Diagnosis, RecipeEvent, RecipeResult } from "@tinklet/cookbook";
import { omitUndefined } from "@tinklet/wire/options";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { writeWhole } from "../files.ts";
import { chosenModel, modelOptions, tokenizerFor } from "../model.ts";
import { CliError } from "../output/explain.ts";
import type { Output } from "../output/output.ts";
import { showFindings } from "../training/findings.ts";
import { loggersOf, logToOption, noteLoggers } from "../training/log-to.ts";
import { costOf, maxCostOptions, onward } from "../training/max-cost.ts";
import { type FinishedRecipe, showRecipeResult } from "../training/recipe-result.ts";
import { cachedShare, StepLine } from "../training/step-line.ts";

const loadCookbook = () => import("@tinklet/cookbook");

export const recipeList: Command = {
  usage: "recipe list",
  about: "Lists the recipes. Each trains the bundled model in minutes and measures it before and after.",
  async run(_, { output }) {
    const { loadRecipe, recipeNames } = await loadCookbook();
    const names = await recipeNames();
    const recipes = await Promise.all(names.map(async (name) => ({ name, ...(await loadRecipe(name)) })));
    output.result({
      json: { recipes: recipes.map(({ name, about, metric }) => ({ name, about, metric })) },
      columns: ["RECIPE", "WHAT IT DOES"],
      rows: recipes.map(({ name, about }) => [name, about]),
    });
    output.note(
      "\nnpx tinklet recipe run NAME --local runs one; npx tinklet recipe copy NAME copies its file to edit.",
    );
    return 0;
  },
};

export const recipeCopy: Command = {
  usage: "recipe copy NAME [FILE]",
  about:
    "Copies a recipe's file, to edit it. FILE is my-NAME.mjs unless given; a FILE that ends in .ts is TypeScript, which needs\n" +
    "Node 22.18 or later.",
  arguments: ["NAME", "FILE?"],
  options: { force: { type: "boolean", about: "write over a file that is there" } },
  examples: ["recipe copy math-rl", "recipe copy math-rl mine.ts", "recipe run ./my-math-rl.mjs --local"],
  async run(input, { output }) {
    const { recipeText } = await loadCookbook();
    const [name = "", file = `my-${name}.mjs`] = input.positionals;
    const text = await recipeText(name, /\.m?ts$/.test(file) ? "ts" : "js");
    if (existsSync(file) && !input.flag("force"))
      throw new CliError(`${file} exists.`, { hint: "Choose another name, or replace the file with --force." });
    await writeWhole(file, text);
    if (output.isJson) output.event({ recipe: name, file });
    else {
      const path = /[/\\]/.test(file) ? file : `./${file}`; // a bare word would be a recipe's name
      output.line(`Wrote ${file}. Run it:\n\n  npx tinklet recipe run ${path} --local`);
    }
    return 0;
  },
};

export const recipeRun: Command = {
  usage: "recipe run NAME|FILE [--local] [--out FOLDER] [--max-steps N] [--seed N] [--dry-run]",
  about:
    "Runs a recipe: trains, and measures the model before and after. The same command resumes an interrupted run. FILE is a\n" +
    "recipe of your own, for example a copy.",
  arguments: ["RECIPE"],
  options: {
    ...modelOptions,
    name: { type: "string", value: "NAME", about: "name of the runs (default: the name of the run folder)" },
    out: { type: "string", short: "o", value: "FOLDER", about: "run folder (default runs/NAME)" },
    data: {
      type: "string",
      value: "FILE",
      about: "your own data, for recipes that take data: JSONL, CSV, Parquet, or a Hub dataset (org/name:part)",
    },
    "learning-rate": { type: "string", value: "X", about: "default: the recipe's, chosen for the bundled model" },
    "max-steps": { type: "string", value: "N", about: "maximum number of steps of each stage" },
    seed: { type: "string", value: "N", about: "of the data, its order and the initial weights (default 0)" },
    "dry-run": { type: "boolean", about: "show tokens, steps and cost without training; needs no server" },
    ...maxCostOptions("all stages together cost more"),
    ...logToOption,
  },
  examples: [
    "recipe run math-rl --local",
    "recipe run sft --local --max-steps 5",
    "recipe run sft --model Qwen/Qwen3-8B --data data.jsonl --dry-run",
    "recipe run ./mine.js --local",
  ],
  async run(input, context) {
    const { Diagnosis, estimateRecipe, loadRecipe, runRecipe } = await loadCookbook();
    const [name = ""] = input.positionals;
    const recipe = await loadRecipe(name);
    const options = {
      maxSteps: input.integer("max-steps", 1),
      learningRate: input.number("learning-rate", 0),
      data: input.text("data"),
      seed: input.integer("seed", 0) ?? 0,
    };
    const loggers = await loggersOf(input);
    const runName = input.runName("name");
    const isDry = input.flag("dry-run");
    const model = await chosenModel(input, context, { askServer: !isDry });
    const { price, limit: costLimit } = await costOf(input, model.name);
    const { output, signal } = context;
    if (isDry) {
      const { showEstimate } = await import("../training/recipe-dry-run.ts");
      const tokenizer = await tokenizerFor(input, model);
      output.progress("Counting …");
      const estimate = await estimateRecipe(recipe, {
        ...omitUndefined(options),
        baseModel: model.name,
        tokenizer,
        signal,
      });
      output.endProgress();
      await showEstimate({ name: parse(name).name, model: model.name, estimate, price }, output);
      return 0;
    }
    const service = await context.service(model.serve);
    const ask = async (of: string) => service.getTokenizer(of, { signal: context.signal });
    const tokenizer = await tokenizerFor(input, model, context.isLocal ? undefined : ask);
    const folder = input.text("out") ?? (runName === undefined ? await defaultFolder(name) : join("runs", runName));
    output.note(`${output.style(parse(name).name, "bold")}: ${recipe.about}`);
    noteLoggers(loggers, folder, output);
    const since = performance.now();
    const result = await runRecipe(recipe, {
      ...omitUndefined({ ...options, name: runName, costLimit }),
      ...{ service, baseModel: model.name, tokenizer, folder, loggers, signal },
      onEvent: follower(output, () => new Diagnosis()),
      onNote: (text) => output.note(text),
    });
    const seconds = (performance.now() - since) / 1000;
    return report(result, { recipe: name, hasTasks: recipe.tasks !== undefined, folder, seconds }, context);
  },
};

/** `runs/NAME`; a file with the name of a bundled recipe gets another folder than that recipe. */
async function defaultFolder(recipe: string): Promise<string> {
  const { recipeNames } = await loadCookbook();
  const { name } = parse(recipe);
  return join("runs", recipe !== name && (await recipeNames()).includes(name) ? `my-${name}` : name);
}

/** Returns a listener that prints the events of the training loops. */
function follower(output: Output, newDiagnosis: () => Diagnosis): (event: RecipeEvent) => void {
  let line: { readonly stage: string; readonly of: StepLine; readonly diagnosis: Diagnosis } | undefined;
  const shown = ["env/all/reward/total", "train_mean_nll", "teacher_kl", "dpo/accuracy", "bt/accuracy", "test/nll"];
  return ({ stage, type, step, totalSteps, metrics, record, failed = [], prompts, message }) => {
    if (type === "recovery" && message !== undefined) {
      output.event({ type, stage, message });
      output.note(`${stage}: ${message}`);
    }
    if (type === "checkpoint") output.event({ type, stage, ...record });
    for (const { group, message } of failed) output.note(`${stage}: skipped ${group}: ${message}`);
    if (type !== "step" || step === undefined || totalSteps === undefined || metrics === undefined) return;
    output.event({ type, stage, ...metrics, ...omitUndefined({ cached_prompt_tokens: prompts?.cached }) });
    if (line?.stage !== stage) line = { stage, of: new StepLine(totalSteps), diagnosis: newDiagnosis() };
    const figures = shown.flatMap((name) =>
      metrics[name] === undefined ? [] : [[name.split("/").at(-1) ?? name, metrics[name].toFixed(3)] as const],
    );
    const shownFigures = { ...Object.fromEntries(figures), ...cachedShare(prompts) };
    const text = line.of.text(step, metrics["num_tokens"] ?? metrics["num_tokens:sum"] ?? 0, shownFigures);
    output.progress(`${stage}: ${text}`, { always: step === totalSteps - 1 });
    showFindings(line.diagnosis.observe(step, totalSteps, metrics), output, stage);
  };
}

async function report(result: RecipeResult, about: Omit<FinishedRecipe, "result">, context: Context): Promise<number> {
  const { output } = context;
  const { folder, seconds } = about;
  output.endProgress();
  if (output.isJson) output.event({ type: "done", run: folder, seconds, ...result });
  if ("stopped" in result) {
    const stopped = String(result.stopped);
    output.note(`Stopped: ${stopped}. ${onward(stopped)}`);
    return stopped === "interrupted" ? 130 : 0;
  }
  if (!output.isJson) await showRecipeResult({ ...about, result: result as FinishedRecipe["result"] }, context);
  return 0;
}
