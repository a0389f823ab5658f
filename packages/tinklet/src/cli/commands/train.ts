/** `train`: fine-tunes on a data file. Parses options and prints; the cookbook trains, records the run and resumes it. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, extname, join } from "node:path";
import type {
  AnswerPair,
  Diagnosis,
  EarlyStopping,
  Finding,
  MetricsRow,
  ModelPrice,
  PreparedData,
  RunFolder,
  Schedule,
  SupervisedResult,
  TrainOn,
} from "@tinklet/cookbook";
import { omitUndefined } from "@tinklet/wire/options";
import { importAdapter, isAdapterFolder } from "../checkpoint/adapter-folder.ts";
import { fetchCheckpoint } from "../checkpoint/fetch-checkpoint.ts";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { writeWhole } from "../files.ts";
import { type ChosenModel, chosenModel, modelOptions, tokenizerFor } from "../model.ts";
import { CliError } from "../output/explain.ts";
import { counted, formatDollars } from "../output/format.ts";
import { type Input, UsageError } from "../parse.ts";
import { terminalPlot } from "../plot/plot-terminal.ts";
import { resolveCheckpoint } from "../references.ts";
import { checkFrom } from "../sampling.ts";
import { type Asked, answersOf } from "../training/answers.ts";
import { showFindings } from "../training/findings.ts";
import { loggersOf, logToOption, noteLoggers } from "../training/log-to.ts";
import { costOf, maxCostOptions, onward } from "../training/max-cost.ts";
import { type HeldOutLoss, heldOutLoss, nextCommands, resultFacts, showAnswers } from "../training/result-block.ts";
import { StepLine } from "../training/step-line.ts";
import { defaultEpochs } from "../training/train-defaults.ts";
import { trainOnOption } from "../training/train-on.ts";

/** For the bundled model; the cookbook's rule is for billions of parameters and gives much lower rates. */
const bundledLearningRate = 2e-3;

export const train: Command = {
  usage: "train DATA.jsonl [--model NAME] [--out FOLDER] [--dry-run]",
  about:
    "Fine-tunes a model on conversations or prompts with completions: JSONL, CSV, Parquet, or a dataset of the Hub (org/name:part).\n" +
    "The run is recorded in a folder. The same command resumes it at the step where it stopped; --eval-every, --save-every and\n" +
    "--epochs may then have other values.",
  arguments: ["DATA"],
  options: {
    ...modelOptions,
    name: { type: "string", value: "NAME", about: "name of the run (default: the name of the run folder)" },
    out: {
      type: "string",
      short: "o",
      value: "FOLDER",
      about: "run folder (default runs/NAME, else runs/NAME_OF_DATA)",
    },
    from: {
      type: "string",
      value: "CHECKPOINT",
      about:
        "start from these weights: NAME, NAME@CHECKPOINT, @latest, a run folder, tinker://…, or a PEFT adapter folder",
    },
    rank: { type: "string", value: "N", about: "rank of the LoRA adapter (default 32)" },
    "learning-rate": { type: "string", value: "X", about: "default: the cookbook's rule of thumb" },
    schedule: {
      type: "string",
      choices: ["constant", "linear", "cosine"],
      about: "learning rate schedule (default linear)",
    },
    "warmup-steps": { type: "string", value: "N", about: "steps of linear warmup (default 0)" },
    epochs: {
      type: "string",
      value: "N",
      about: "passes over the data (default 1; small files: up to 10, for 50 steps)",
    },
    "batch-size": { type: "string", value: "N", about: "examples per step (default 8)" },
    "max-steps": { type: "string", value: "N", about: "maximum number of steps" },
    "max-length": {
      type: "string",
      value: "N",
      about: "tokens per example; longer examples are truncated (default: the model's context length)",
    },
    ...trainOnOption,
    "test-share": {
      type: "string",
      value: "X",
      about: "held-out examples: a share below 1, or a number (default 0.1)",
    },
    "test-file": { type: "string", value: "FILE", about: "held-out examples from a file of their own" },
    "stop-early": {
      type: "string",
      value: "N",
      about: "stop when the test loss has not fallen in N evaluations (default: never)",
    },
    "eval-every": { type: "string", value: "N", about: "steps between evaluations; 0 for none (default 10)" },
    "save-every": { type: "string", value: "N", about: "steps between checkpoints; 0 for the last only (default 20)" },
    seed: { type: "string", value: "N", about: "of the data order and the initial weights (default 0)" },
    "dry-run": { type: "boolean", about: "show tokens, steps, time and cost without training" },
    ...maxCostOptions("the run costs more"),
    ...logToOption,
    "no-export": { type: "boolean", about: "do not download the adapter at the end" },
  },
  examples: [
    "train data.jsonl --local --name bike",
    "train data.jsonl --local --test-file test.jsonl --epochs 20 --stop-early 3",
    "train data.jsonl --model Qwen/Qwen3-8B --epochs 3 --dry-run",
    "train data.jsonl --local   # again: resumes",
    "train more.jsonl --local --from bike@step-20",
  ],
  async run(input, context) {
    const cookbook = await import("@tinklet/cookbook");
    const [file = ""] = input.positionals;
    const loggers = await loggersOf(input);
    const name = input.runName("name");
    // A dry run needs the data folder only for the checkpoint of --from.
    context.keepsNothing = input.flag("dry-run") && input.text("from") === undefined;
    const { model, settings: chosen, start } = await beginningOf(input, context);
    const testFile = input.text("test-file");
    if (testFile !== undefined && input.text("test-share") !== undefined)
      throw new UsageError("--test-file and --test-share exclude each other");
    const patience = input.integer("stop-early", 1);
    // With --max-length a dry run needs no server; without a key or a URL there is no server to ask for the context length.
    const counts = input.flag("dry-run") && (input.text("max-length") !== undefined || !context.hasServer);
    const needsServer = !context.isLocal && !counts;
    const ask = async (name: string) => (await context.service()).getTokenizer(name, { signal: context.signal });
    const tokenizer = await tokenizerFor(input, model, needsServer ? ask : undefined);
    const maxLength = input.integer("max-length", 2) ?? (await contextLength(model, input, context));
    const { trainOn, testShare, ...training } = chosen;
    const { seed, batchSize } = training;
    const testExamples = testFile === undefined ? undefined : await cookbook.readExamples(testFile);
    const prepare = {
      ...{ trainOn, testShare, seed, maxLength, testExamples },
      onWarning: (text: string) => context.output.note(text),
    };
    const data = await cookbook.prepareSupervised(file, tokenizer, prepare);
    const dataset = new cookbook.BatchedDataset(data.train, { batchSize, seed });
    const folder = input.text("out") ?? join("runs", name ?? basename(file, extname(file)));
    const epochs = chosen.epochs ?? (await recordedEpochs(folder)) ?? defaultEpochs(dataset.batchesPerEpoch);
    const settings = { ...chosen, epochs };
    const totalSteps = cookbook.totalStepsOf({ dataset, ...settings });
    const usual = await usualRate(model);
    const rate = input.number("learning-rate", 0) ?? usual;
    const { price, limit } = await costOf(input, model.name);

    if (input.flag("dry-run")) {
      const { dryRun } = await import("../training/dry-run.ts");
      const plan = { file, model, data, dataset, totalSteps, settings, maxLength, price, learningRate: rate };
      await dryRun(plan, context);
      return 0;
    }
    const learningRate = rate ?? missingRate(model);
    const { signal, output } = context;
    const early = patience === undefined ? undefined : await earlyStopping(patience, folder, { data, settings });
    const service = await context.service(model.serve);
    const loop = cookbook.runSupervised({
      ...training,
      ...{ epochs, service, keepBest: true },
      folder,
      baseModel: model.name,
      ...omitUndefined({ name, from: start }),
      data,
      learningRate,
      settings: {
        ...{ max_length: maxLength ?? null, train_on: trainOn, test_share: testFile === undefined ? testShare : 0 },
        ...omitUndefined({ test_file: testFile }),
      },
      ...(early === undefined ? {} : { stopWhen: ({ metrics }: { metrics: MetricsRow }) => early.observe(metrics) }),
      signal,
      ...(limit === undefined ? {} : { beforeStep: cookbook.budget(limit.price, limit.maxCost) }),
    });
    noteLoggers(loggers, folder, output);
    const startMs = performance.now();
    const run = cookbook.RunFolder.at(folder);
    const rates = input.text("learning-rate") === undefined ? undefined : usual;
    const findings = [...cookbook.dataFindings(data), cookbook.learningRateFinding(learningRate, rates) ?? []].flat();
    const result =
      early?.reason === undefined
        ? await follow(
            cookbook.withLoggers(loop, loggers, { onWarning: (text) => output.note(text) }),
            {
              ...{ folder, findings, diagnosis: new cookbook.Diagnosis() },
              fresh: introduction(data, totalSteps, model, { ...settings, learningRate }),
            },
            context,
          )
        : { nextStep: (await run.readMetrics()).length, totalSteps, stopped: early.reason };
    const isEarly = early?.reason !== undefined && result.stopped === early.reason;
    // Also for a run that was already complete, because its export may have failed.
    if ((isEarly || result.nextStep === result.totalSteps) && !input.flag("no-export"))
      await exportAdapter(run, context);
    return report(
      run,
      result,
      {
        data,
        price,
        startMs,
        isEarly,
        testFile,
        service,
        tokenizer,
        model: model.name,
        start,
        contextLength: maxLength,
      },
      context,
    );
  },
};

/** Reads the options of the training loop. @throws {@link UsageError} */
function settingsOf(input: Input) {
  const maxSteps = input.integer("max-steps", 1);
  return {
    rank: input.integer("rank", 1) ?? 32,
    schedule: (input.text("schedule") ?? "linear") as Schedule,
    warmupSteps: input.integer("warmup-steps", 0) ?? 0,
    epochs: input.integer("epochs", 1),
    batchSize: input.integer("batch-size", 1) ?? 8,
    ...omitUndefined({ maxSteps }),
    trainOn: (input.text("train-on") ?? "all_answers") as TrainOn,
    testShare: input.number("test-share", 0) ?? 0.1,
    evalEvery: input.integer("eval-every", 0) ?? 10,
    saveEvery: input.integer("save-every", 0) ?? 20,
    seed: input.integer("seed", 0) ?? 0,
  };
}
type ChosenSettings = ReturnType<typeof settingsOf>;
export type TrainSettings = Omit<ChosenSettings, "epochs"> & { readonly epochs: number };

/** The epochs of the run in a folder, so that the same command resumes it. */
async function recordedEpochs(folder: string): Promise<number | undefined> {
  const { RunFolder } = await import("@tinklet/cookbook");
  const epochs = (await RunFolder.at(folder).readConfig())?.["num_epochs"];
  return typeof epochs === "number" && Number.isInteger(epochs) && epochs > 0 ? epochs : undefined;
}

/** @throws {@link UsageError} if nothing is evaluated */
async function earlyStopping(
  patience: number,
  folder: string,
  { data, settings }: { readonly data: PreparedData; readonly settings: TrainSettings },
): Promise<EarlyStopping> {
  if (data.test.length === 0 || settings.evalEvery === 0)
    throw new UsageError(
      "--stop-early needs held-out examples and evaluations (--test-share, --test-file, --eval-every)",
    );
  const { EarlyStopping, RunFolder } = await import("@tinklet/cookbook");
  return new EarlyStopping(patience, await RunFolder.at(folder).readMetrics());
}

/** The start of the run: a base model, or the checkpoint of `--from`, which determines base model and rank. */
async function beginningOf(
  input: Input,
  context: Context,
): Promise<{
  readonly model: ChosenModel;
  readonly settings: ChosenSettings;
  /** The checkpoint of `--from`. */
  readonly start?: string;
}> {
  const settings = settingsOf(input);
  const from = input.text("from");
  checkFrom(from);
  if (from === undefined) return { model: await chosenModel(input, context), settings };
  const named = input.text("model") === undefined ? undefined : await chosenModel(input, context);
  const rest = (await context.service(named?.serve ?? [])).createRestClient();
  const start = isAdapterFolder(from)
    ? await importAdapter(from, named?.name, context)
    : await resolveCheckpoint(from, "training", async () => rest);
  const { baseModel, loraRank: rank = settings.rank } = await rest.getWeightsInfoByTinkerPath(start, {
    signal: context.signal,
  });
  if (named !== undefined && named.name !== baseModel)
    throw new UsageError(`--model is ${named.name}, but the checkpoint of --from belongs to ${baseModel}`);
  if (input.text("rank") !== undefined && settings.rank !== rank)
    throw new UsageError(`--rank is ${settings.rank}, but the checkpoint of --from has rank ${rank}`);
  return { model: named ?? { name: baseModel, serve: [] }, settings: { ...settings, rank }, start };
}

/** The model's context length, as reported by the server. */
async function contextLength(model: ChosenModel, input: Input, context: Context): Promise<number | undefined> {
  if (input.flag("dry-run") && !context.isLocal) return undefined;
  const service = await context.service(model.serve);
  const { supportedModels } = await service.getServerCapabilities({ signal: context.signal });
  return supportedModels.find(({ modelName }) => modelName === model.name)?.maxContextLength;
}

/** The default learning rate; `undefined` for models without one. */
async function usualRate(model: ChosenModel): Promise<number | undefined> {
  const { bundledModel } = await import("@tinklet/models/config");
  if (model.name === bundledModel) return bundledLearningRate;
  const { recommendedLearningRate } = await import("@tinklet/cookbook");
  // The rule depends little on the width for Qwen models. For other models there is no default.
  return /qwen/i.test(model.name) ? recommendedLearningRate(model.name, { hiddenSize: 4096 }) : undefined;
}

function missingRate(model: ChosenModel): never {
  throw new UsageError(`--learning-rate is missing: no default is known for ${model.name} (1e-4 is a low first value)`);
}

function introduction(
  data: PreparedData,
  totalSteps: number,
  model: ChosenModel,
  { rank, learningRate, epochs }: Pick<TrainSettings, "rank" | "epochs"> & { readonly learningRate: number },
): string {
  const { summary, test } = data;
  const lost = [
    ...(summary.truncated > 0 ? [`${summary.truncated} cut to the context`] : []),
    ...(summary.dropped > 0 ? [`${summary.dropped} dropped, with nothing left to learn`] : []),
  ];
  return [
    `${counted(data.train.length, "example")} to train on, ${test.length} to test on${lost.length === 0 ? "" : ` (${lost.join(", ")})`}.`,
    `${counted(totalSteps, "step")} (${counted(epochs, "epoch")}) of LoRA rank ${rank} over ${model.name}, learning rate ${Number(learningRate.toPrecision(3))}.`,
  ].join("\n");
}

/** Runs the loop and prints its events. */
async function follow(
  loop: ReturnType<typeof import("@tinklet/cookbook").runSupervised>,
  about: {
    readonly folder: string;
    readonly fresh: string;
    readonly diagnosis: Diagnosis;
    readonly findings: readonly Finding[];
  },
  { output, signal }: Context,
): Promise<SupervisedResult> {
  let line: StepLine | undefined;
  signal.addEventListener(
    "abort",
    () => output.note("\nStopping after the steps under way; once more to stop at once."),
    { once: true },
  );
  const { bestName } = await import("@tinklet/cookbook");
  for await (const event of loop) {
    if (event.type === "done") {
      output.endProgress();
      if (line === undefined && event.stopped === undefined)
        output.note(`${about.folder} is complete: ${counted(event.totalSteps, "step")}.`);
      return event;
    }
    if (event.type === "start") {
      const { startStep, totalSteps, resumeFrom } = event;
      line = new StepLine(totalSteps);
      output.note(
        resumeFrom === undefined
          ? about.fresh
          : `Resuming ${about.folder} at step ${startStep + 1} of ${totalSteps} from ${resumeFrom.state_path}`,
      );
      if (resumeFrom === undefined) showFindings(about.findings, output);
      output.progress("Making the trainer …");
      continue;
    }
    if (event.type === "checkpoint") {
      output.event({ type: "checkpoint", ...event.record });
      if (!bestName.test(event.record.name))
        output.note(`Saved ${event.record.name}: ${event.record.sampler_path ?? event.record.state_path}`);
      continue;
    }
    if (event.type === "recovery") {
      output.event({ ...event });
      output.endProgress();
      output.note(event.message);
      continue;
    }
    const { metrics, step, totalSteps } = event;
    output.event({ type: "step", ...metrics });
    const test = metrics["test/nll"];
    const figures = {
      loss: (metrics["train_mean_nll"] ?? Number.NaN).toFixed(4),
      ...omitUndefined({ test: test?.toFixed(4) }),
    };
    line ??= new StepLine(totalSteps);
    output.progress(line.text(step, metrics["num_tokens"] ?? 0, figures), { always: step === totalSteps - 1 });
    showFindings(about.diagnosis.observe(step, totalSteps, metrics), output);
  }
  throw new Error("the loop ended without saying how"); // it always does
}

/** Downloads the final weights into the run folder, unless an earlier call did. */
async function exportAdapter(run: RunFolder, context: Context): Promise<void> {
  const records = await run.readCheckpoints();
  const path = records.findLast((record) => record.sampler_path !== undefined)?.sampler_path;
  const [folder, note] = [join(run.path, "adapter"), join(run.path, "adapter.json")];
  const said = `${JSON.stringify({ tinker_path: path })}\n`;
  if (path === undefined) return;
  if (existsSync(folder) && (await readFile(note, "utf8").catch(() => "")) === said) return;
  const rest = (await context.service()).createRestClient();
  await fetchCheckpoint(path, folder, run.path, context, rest).catch((cause: Error & { status?: number }) => {
    if (cause.status !== 404) throw cause;
    throw new CliError(
      `${run.path} is complete, but the server no longer has its checkpoint ${path}, so no adapter was written.`,
      {
        cause,
        hint: "It was deleted, or this is not the server, account or data folder (--data-dir) that has it. To train again, choose another --out.",
      },
    );
  });
  await writeWhole(note, said);
}

/** Prints the result and the next commands. */
async function report(
  run: RunFolder,
  result: SupervisedResult,
  about: Asked & {
    readonly data: PreparedData;
    readonly price: ModelPrice | undefined;
    readonly startMs: number;
    /** Whether it ended by early stopping. */
    readonly isEarly: boolean;
    readonly testFile: string | undefined;
  },
  context: Context,
): Promise<number> {
  const { data, price, startMs, isEarly, testFile } = about;
  const seconds = (performance.now() - startMs) / 1000;
  const rows = await run.readMetrics();
  const checkpoints = await run.readCheckpoints();
  const checkpoint = checkpoints.at(-1);
  const isDone = isEarly || result.stopped === undefined;
  const loss = heldOutLoss(rows, checkpoints);
  const best = loss === undefined || loss.best.loss === loss.after ? undefined : loss.best.path;
  const path = best ?? checkpoints.findLast((record) => record.sampler_path !== undefined)?.sampler_path;
  const answers = isDone && path !== undefined ? await answersOf(path, about, context) : [];
  const { output, isLocal, isAttached, studioUrl } = context;
  if (isDone) await writeWhole(join(run.path, "result.json"), resultFile(rows, loss, answers));
  if (output.isJson) {
    output.event({
      type: "done",
      run: run.path,
      next_step: result.nextStep,
      total_steps: result.totalSteps,
      stopped: result.stopped ?? null,
      test_nll_before: loss?.before ?? null,
      test_nll_after: loss?.after ?? null,
      best_step: loss?.best.step ?? null,
      best_checkpoint: loss?.best.checkpoint ?? null,
      answers,
      ...checkpoint,
    });
    return result.stopped === "interrupted" ? 130 : 0;
  }
  const losses = (name: string) =>
    rows.flatMap((row): [number, number][] => (row[name] === undefined ? [] : [[row.step, row[name]]]));
  const series = [
    { name: "train_mean_nll", points: losses("train_mean_nll") },
    { name: "test/nll", points: losses("test/nll") },
  ].filter(({ points }) => points.length > 0);
  output.line(
    terminalPlot(series, { width: Math.min(output.width, 80), height: 10, style: output.style.bind(output) }),
  );
  output.line();
  if (result.stopped !== undefined && !isEarly) {
    output.line(
      `Stopped after step ${result.nextStep} of ${result.totalSteps}: ${result.stopped}. ${onward(result.stopped)}`,
    );
    return result.stopped === "interrupted" ? 130 : 0;
  }
  const finished = {
    ...{ folder: run.path, rows, checkpoints, heldOut: data.test.length, seconds, isLocal, testFile },
    cost: price === undefined ? undefined : await costOfRun(rows, data, price),
    studioUrl: isAttached ? studioUrl("/runs") : undefined,
  };
  const end = isEarly ? `Stopped early, because ${result.stopped}.` : "Done.";
  output.line(`${end} ${path ?? checkpoint?.state_path ?? ""}`);
  for (const line of resultFacts(finished)) output.line(line);
  showAnswers(answers, data.test.length === 0 ? "questions of the training data" : "held-out questions", output);
  output.line();
  for (const line of nextCommands(finished)) output.line(line);
  return 0;
}

/** The content of `result.json`, which the studio shows. */
function resultFile(
  rows: readonly MetricsRow[],
  loss: HeldOutLoss | undefined,
  answers: readonly AnswerPair[],
): string {
  const train = rows.flatMap((row) => row["train_mean_nll"] ?? []);
  const { step, loss: value, checkpoint } = loss?.best ?? {};
  return `${JSON.stringify(
    {
      ...{ metric: loss === undefined ? "train_mean_nll" : "test/nll", better: "lower" },
      ...{ before: loss?.before ?? train[0] ?? null, after: loss?.after ?? train.at(-1) ?? null },
      best: loss === undefined ? null : { step, value, checkpoint: checkpoint ?? null },
      tokens: rows.reduce((sum, row) => sum + (row["num_tokens"] ?? 0), 0),
      answers,
    },
    null,
    2,
  )}\n`;
}

async function costOfRun(rows: readonly MetricsRow[], data: PreparedData, price: ModelPrice): Promise<string> {
  const { trainingCost } = await import("@tinklet/cookbook");
  const train = rows.reduce((sum, row) => sum + (row["num_tokens"] ?? 0), 0);
  const evaluations = rows.filter((row) => row["test/nll"] !== undefined).length;
  const cost = trainingCost(price, { train, evaluate: evaluations * data.testSummary.tokens });
  return `${formatDollars(cost)}, by prices of ${price.asOf}`;
}
