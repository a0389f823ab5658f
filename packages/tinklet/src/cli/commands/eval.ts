/** `eval`: measures models on a data file or on the tasks of a recipe, side by side. Parses options and prints; the cookbook evaluates. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, extname, join, parse, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { AnswerScore, Comparison, EvaluationHead } from "@tinklet/cookbook";
import type { SamplingClient, Tokenizer } from "@tinklet/sdk";
import { writeFailure } from "@tinklet/sdk/files";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { type ChosenModel, chosenModel, modelOptions } from "../model.ts";
import { CliError } from "../output/explain.ts";
import { counted, formatDuration } from "../output/format.ts";
import { type Input, nearest, UsageError } from "../parse.ts";
import { openSampler } from "../sampling.ts";
import { trainOnOption } from "../training/train-on.ts";

const loadCookbook = () => import("@tinklet/cookbook");

/** Models that one evaluation compares at most. */
const maxModels = 16;

export const evalCommand: Command = {
  usage: "eval DATA|RECIPE [--from CHECKPOINT ...] [--base] [--score exact|json|FILE.mjs ...]",
  about:
    "Measures models on a data file: the loss of its answers, and scores of sampled ones. Several --from are compared side by side.\n" +
    "DATA is a file or Hub dataset as for train. RECIPE is a recipe with tasks of its own, such as math-rl. A FILE.mjs exports a function\n" +
    "(answer, item) as default, which returns a number from 0 to 1, true, false, or undefined for an answer that cannot be parsed;\n" +
    "item has question, expected and messages.",
  arguments: ["DATA|RECIPE"],
  options: {
    ...modelOptions,
    from: {
      type: "string",
      multiple: true,
      value: "CHECKPOINT",
      about: "model to measure (repeatable): tinker://…, @latest, RUN:NAME, RUN, a run folder, or an adapter folder",
    },
    base: { type: "boolean", about: "measure the base model too (without --from it is the only one)" },
    score: {
      type: "string",
      multiple: true,
      value: "SCORE",
      about: "exact, json or a FILE.mjs (repeatable; default exact), or none for the loss alone",
    },
    regex: { type: "string", value: "PATTERN", about: "score: the answer matches this regular expression" },
    judge: {
      type: "string",
      value: "MODEL",
      about: "score: this model, a base model or a checkpoint, gives each answer 0 to 10",
    },
    "max-tokens": { type: "string", value: "N", about: "maximum length of an answer (default 128)" },
    temperature: { type: "string", short: "t", value: "T", about: "0 is greedy decoding (default 0)" },
    limit: { type: "string", value: "N", about: "only the first N examples" },
    "max-length": {
      type: "string",
      value: "N",
      about: "tokens per example in the loss; longer ones are truncated (default: the model's context length)",
    },
    ...trainOnOption,
    seed: { type: "string", value: "N", about: "of sampling, and of a recipe's tasks (default 0)" },
    out: { type: "string", short: "o", value: "FOLDER", about: "folder of the result (default runs/evals/NAME)" },
  },
  examples: [
    "eval test.jsonl --local --from runs/data --base",
    "eval test.jsonl --local --from runs/a --from runs/b --score json",
    "eval test.jsonl --local --from runs/data --score ./score.mjs --limit 20",
    "eval math-rl --local --from runs/math-rl/rl --base",
  ],
  async run(input, context) {
    const { output, signal } = context;
    const cookbook = await loadCookbook();
    const [source = ""] = input.positionals;
    const { name } = parse(source);
    const kind = await kindOf(source);
    const settings = settingsOf(input);
    if (kind === "recipe") refuseDataOptions(input);
    const scores = kind === "recipe" ? [] : await scoresOf(input);
    const judged = input.text("judge");
    // Read before any model is loaded, so that a mistake in the data costs no time.
    const recipe = kind === "recipe" ? await recipeWithTasks(source) : undefined;
    const examples = recipe === undefined ? await cookbook.readExamples(source, { signal }) : [];
    const createdAt = new Date();
    const startMs = performance.now();
    const models = await openModels(input, context);
    const [{ tokenizer }] = models as [OpenedModel, ...OpenedModel[]];
    // Created before the models answer, so that a folder that cannot be written costs no time.
    const folder = await madeFolder(input.text("out"), name);
    const onProgress = (model: string, done: number, total: number) =>
      output.progress(`${model}: ${done} of ${total} ${recipe === undefined ? "examples" : "tasks"}`, {
        always: done === total,
      });
    const { seed, maxTokens, temperature, limit } = settings;
    let comparison: Comparison;
    if (recipe !== undefined) {
      const { createChat } = await import("@tinklet/models/chat");
      const tasks = recipe.tasks?.({ chat: createChat(tokenizer), tokenizer, seed }) ?? [];
      comparison = await cookbook.compareOnTasks(models, tasks, { tokenizer, seed, signal, onProgress });
    } else {
      const contextLength = await contextLengthOf(models, context);
      const room = contextLength === undefined ? undefined : contextLength - 1; // log-probs need room for one more token
      const maxLength = input.integer("max-length", 2) ?? room;
      const taken = limit === undefined ? examples : examples.slice(0, limit);
      const items = cookbook.evaluationItems(taken, tokenizer, { trainOn: settings.trainOn, maxLength });
      if (judged !== undefined) scores.push(await judgeOf(judged, input, context));
      const options = { name, scores, maxTokens, temperature, contextLength, seed, signal, onProgress };
      comparison = await cookbook.compareOnData(models, items, options);
    }
    output.endProgress();
    const seconds = (performance.now() - startMs) / 1000;
    const head: EvaluationHead = {
      ...{ name, data: source, kind, createdAt, seconds, settings: recorded(input, settings) },
      models: models.map(({ label, model, path }) => ({ label, model, path })),
    };
    await cookbook.writeEvaluation(folder, head, comparison);
    show(cookbook.evaluationSummary(head, comparison), comparison, { head, folder }, context);
    return 0;
  },
};

type Kind = EvaluationHead["kind"];

/** Whether the argument is a recipe: a name of the cookbook or a program; everything else is data. */
async function kindOf(source: string): Promise<Kind> {
  if (/\.[cm]?[jt]s$/.test(source)) return "recipe";
  if (existsSync(source) || /[/\\.:]/.test(source)) return "data";
  const { recipeNames } = await loadCookbook();
  const names = await recipeNames();
  if (names.includes(source)) return "recipe";
  const close = nearest(source, names);
  throw new UsageError(
    `"${source}" is neither a file nor a recipe${close === undefined ? "" : `. Did you mean ${close}?`}`,
    `Give a data file (data.jsonl) or a recipe: ${names.join(", ")}.`,
  );
}

async function recipeWithTasks(name: string) {
  const { loadRecipe, recipeNames } = await loadCookbook();
  const recipe = await loadRecipe(name);
  if (recipe.tasks !== undefined) return recipe;
  const names = await recipeNames();
  const all = await Promise.all(names.map(async (one) => ({ one, tasks: (await loadRecipe(one)).tasks })));
  const has = all.filter(({ tasks }) => tasks !== undefined).map(({ one }) => one);
  throw new CliError(`The recipe ${name} has no tasks: it measures the model only while it runs.`, {
    hint: `Recipes with tasks: ${has.join(", ")}. A recipe of your own gets them by tasks: () => […].`,
  });
}

function refuseDataOptions(input: Input): void {
  const used = [
    ...["regex", "judge", "max-tokens", "temperature", "limit", "max-length", "train-on"].filter(
      (name) => input.text(name) !== undefined,
    ),
    ...(input.texts("score").length > 0 ? ["score"] : []),
  ];
  const [first] = used;
  if (first !== undefined) throw new UsageError(`--${first} is for data files; a recipe's tasks have their own scores`);
}

function settingsOf(input: Input) {
  return {
    maxTokens: input.integer("max-tokens", 1) ?? 128,
    temperature: input.number("temperature", 0) ?? 0,
    seed: input.integer("seed", 0) ?? 0,
    limit: input.integer("limit", 1),
    trainOn: (input.text("train-on") ?? "all_answers") as "all_answers",
  };
}

const recorded = (input: Input, { maxTokens, temperature, seed, limit, trainOn }: ReturnType<typeof settingsOf>) => ({
  ...{ max_tokens: maxTokens, temperature, seed, limit: limit ?? null, train_on: trainOn },
  ...{ regex: input.text("regex") ?? null, judge: input.text("judge") ?? null },
});

async function scoresOf(input: Input): Promise<AnswerScore[]> {
  const { exactScore, jsonScore, regexScore } = await loadCookbook();
  const pattern = input.text("regex");
  const given = input.texts("score");
  const isDefault = given.length === 0 && pattern === undefined && input.text("judge") === undefined;
  const names = [...new Set(isDefault ? ["exact"] : given)];
  if (names.includes("none") && (names.length > 1 || pattern !== undefined || input.text("judge") !== undefined))
    throw new UsageError("--score none goes without other scores");
  const scores: AnswerScore[] = [];
  for (const name of names) {
    if (name === "none") continue;
    if (name === "exact") scores.push(exactScore);
    else if (name === "json") scores.push(jsonScore);
    else scores.push(await scoreFile(name));
  }
  return pattern === undefined ? scores : [...scores, regexScore(pattern)];
}

/** A user's score: the default export of a module. */
async function scoreFile(file: string): Promise<AnswerScore> {
  if (!/\.m?js$/.test(file) || !existsSync(file)) {
    const close = nearest(file, ["exact", "json", "none"]);
    throw new UsageError(
      /\.m?js$/.test(file)
        ? `--score: there is no file ${file}`
        : `--score must be exact, json, none or a .mjs file, not "${file}"${close === undefined ? "" : `. Did you mean ${close}?`}`,
    );
  }
  const module = (await import(pathToFileURL(resolve(file)).href).catch((cause: Error) => {
    throw new CliError(`--score: ${file} could not be loaded: ${cause.message}`, { cause });
  })) as { default?: unknown };
  const { default: score } = module;
  if (typeof score !== "function")
    throw new CliError(`--score: the default export of ${file} must be a function (answer, item).`, {
      hint: "export default (answer, item) => answer === item.expected;",
    });
  return {
    name: basename(file, extname(file)),
    score: async (answer, item) => {
      try {
        return await score(answer, item);
      } catch (cause) {
        const said = cause instanceof Error ? cause.message : String(cause);
        throw new CliError(
          `--score: ${file} failed for the question ${JSON.stringify(item.question.slice(0, 80))}: ${said}`,
          {
            cause,
          },
        );
      }
    },
  };
}

interface OpenedModel {
  readonly label: string;
  readonly sampler: SamplingClient;
  readonly tokenizer: Tokenizer;
  /** Base model. */
  readonly model: string;
  readonly path: string | null;
}

/** The models in the order of the results: the base model first. */
async function openModels(input: Input, context: Context): Promise<OpenedModel[]> {
  const froms = [...new Set(input.texts("from"))];
  if (froms.length > maxModels)
    throw new UsageError(`--from is given ${froms.length} times, at most ${maxModels} are allowed`);
  const opened: OpenedModel[] = [];
  for (const from of froms) {
    const { sampler, tokenizer, name } = await openSampler(input.with("from", from), context);
    const rest = (await context.service()).createRestClient();
    const { baseModel } = await rest.getWeightsInfoByTinkerPath(name, { signal: context.signal });
    opened.push({ label: from, sampler, tokenizer, model: baseModel, path: name });
  }
  const bases = [...new Set(opened.map(({ model }) => model))];
  const [base = "", other] = bases;
  if (other !== undefined)
    throw new UsageError(`--from: checkpoints of one base model can be compared, not of ${base} and ${other}`);
  if (froms.length > 0 && !input.flag("base")) return opened;
  const chosen: ChosenModel =
    froms.length === 0 || input.text("model") !== undefined
      ? await chosenModel(input, context)
      : { name: base, serve: [] };
  if (froms.length > 0 && chosen.name !== base)
    throw new UsageError(`--model is ${chosen.name}, but the checkpoint of --from belongs to ${base}`);
  if (froms.length === 0) {
    const { sampler, tokenizer, name } = await openSampler(input, context);
    return [{ label: name, sampler, tokenizer, model: name, path: null }];
  }
  const sampler = await (await context.service()).createSamplingClient({ baseModel: base, signal: context.signal });
  const [{ tokenizer }] = opened as [OpenedModel];
  return [{ label: base, sampler, tokenizer, model: base, path: null }, ...opened];
}

/** The judge: a checkpoint, or a base model of the server. */
async function judgeOf(judge: string, input: Input, context: Context): Promise<AnswerScore> {
  const { judgeScore } = await loadCookbook();
  const { createChat } = await import("@tinklet/models/chat");
  const { signal } = context;
  const service = await context.service();
  const { supportedModels } = await service.getServerCapabilities({ signal });
  const isBase = supportedModels.some(({ modelName }) => modelName === judge);
  const sampler = isBase
    ? await service.createSamplingClient({ baseModel: judge, signal })
    : (await openSampler(input.with("from", judge), context)).sampler;
  return judgeScore({ sampler, chat: createChat(await sampler.getTokenizer({ signal })), signal });
}

async function contextLengthOf([first]: readonly OpenedModel[], context: Context): Promise<number | undefined> {
  const { supportedModels } = await (await context.service()).getServerCapabilities({ signal: context.signal });
  return supportedModels.find(({ modelName }) => modelName === first?.model)?.maxContextLength;
}

/** Makes the folder of the result: the given one, or `runs/evals/NAME`, or the first of `-2`, `-3`, … that does not exist. */
async function madeFolder(given: string | undefined, name: string): Promise<string> {
  const parent = given ?? join("runs", "evals");
  await mkdir(parent, { recursive: true }).catch((cause: unknown) => Promise.reject(writeFailure(parent, cause)));
  if (given !== undefined) return given;
  for (let number = 1; ; number++) {
    const folder = join(parent, number === 1 ? name : `${name}-${number}`);
    try {
      await mkdir(folder);
      return folder;
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "EEXIST") throw writeFailure(folder, cause);
    }
  }
}

const cellOf = (name: string, { mean, low, high }: Comparison["results"][number][string]) =>
  name === "perplexity" ? mean.toPrecision(4) : `${mean.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`;

const shortened = (text: string) => (text.length > 300 ? `${text.slice(0, 299)}…` : text);

/** Items whose answers are printed. */
const shownItems = 3;

function show(
  summary: Readonly<Record<string, unknown>>,
  { scores, results, items }: Comparison,
  { head, folder }: { readonly head: EvaluationHead; readonly folder: string },
  { output }: Context,
): void {
  if (output.isJson) {
    output.result({ json: { ...summary, folder }, columns: [], rows: [] });
    return;
  }
  output.result({
    json: undefined,
    title: `${head.data}: ${counted(items.length, "example")}, ${formatDuration(head.seconds)}`,
    columns: ["MODEL", ...scores.map(({ name }) => name.toUpperCase())],
    rows: head.models.map(({ label }, at) => [
      label,
      ...scores.map(({ name }) => {
        const figures = results[at]?.[name];
        return figures === undefined ? "" : cellOf(name, figures);
      }),
    ]),
  });
  const unparsed = results.flatMap((figures, at) =>
    Object.entries(figures).flatMap(([name, { unparsed: count, items: of }]) =>
      count === 0
        ? []
        : [`${head.models[at]?.label}: ${count} of ${of} answers could not be parsed for ${name}; each counts as 0.`],
    ),
  );
  for (const line of unparsed) output.note(line);
  const truncated = items.flatMap(({ answers }) => answers).filter((answer) => answer.truncated).length;
  if (truncated > 0) output.note(`${counted(truncated, "answer")} ended at the token limit (--max-tokens).`);
  const shown = items.filter(({ answers }) => answers.some(({ text }) => text !== undefined)).slice(0, shownItems);
  const width = Math.max("expected".length, ...head.models.map(({ label }) => label.length));
  for (const { question, expected, answers } of shown) {
    output.line(`\n${output.style(shortened(question), "dim")}`);
    if (expected !== undefined) output.line(`  ${"expected".padEnd(width)}  ${expected}`);
    for (const [at, { text }] of answers.entries())
      if (text !== undefined) output.line(`  ${(head.models[at]?.label ?? "").padEnd(width)}  ${text}`);
  }
  output.line(`\nAll answers: ${folder}/answers.jsonl`);
  output.note(`In a browser: npx tinklet studio ${folder.startsWith("runs") ? "runs" : folder}`);
}
