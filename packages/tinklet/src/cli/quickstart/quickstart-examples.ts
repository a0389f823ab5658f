/** `quickstart`: supervised training on examples, with answers before and after. */
import { join } from "node:path";
import { bundledModel } from "@tinklet/models/config";
import type { SamplingClient, ServiceClient, Tokenizer, TrainingClient } from "@tinklet/sdk";
import { omitUndefined } from "@tinklet/wire/options";
import { fetchCheckpoint } from "../checkpoint/fetch-checkpoint.ts";
import type { Context } from "../context.ts";
import { formatCount, formatDuration } from "../output/format.ts";
import { terminalPlot } from "../plot/plot-terminal.ts";
import { write } from "../sampling.ts";
import { openStudio } from "../studio.ts";
import { StepLine } from "../training/step-line.ts";

/** Options of both quickstarts. */
export interface QuickstartOptions {
  /** Folder of the bundled model. */
  readonly model: string;
  readonly out: string | undefined;
  readonly seed: number;
  readonly steps: number | undefined;
}

/** Chosen so that the style changes and the answers stay correct; docs/cli.md compares three learning rates. */
const settings = { rank: 16, learningRate: 2e-3, batchSize: 8, epochs: 1 };
/** Prompts before and after training. The base model can answer them, and the training data does not contain them. */
export const quickstartPrompts = [
  "What is the capital of Spain?",
  "How many legs does a dog have?",
  "What does a farmer do?",
];
/** Greedy decoding, so that differences come from training and not from sampling. */
const sampling = { maxTokens: 48, temperature: 0 };

export async function quickstartByExamples(options: QuickstartOptions, context: Context): Promise<number> {
  const { output, signal } = context;
  const { BatchedDataset, evaluateNll, prepareSupervised, RunFolder, trainSupervised } = await import(
    "@tinklet/cookbook"
  );
  const { loadTokenizer } = await import("@tinklet/sdk");
  const startMs = performance.now();
  const { seed } = options;
  const tokenizer = await loadTokenizer(options.model);
  const data = await prepareSupervised(dataFile(options.model, "pirate/train.jsonl"), tokenizer);
  const heldOut = await prepareSupervised(dataFile(options.model, "pirate/heldout.jsonl"), tokenizer);
  const run = await RunFolder.open(options.out ?? join("runs", "quickstart"));
  await run.clear(({ quickstart }) => quickstart !== undefined);
  const service = await localService(options.model, context);
  const sampler = await service.createSamplingClient({ baseModel: bundledModel });
  if (!output.isJson) output.note(output.style("Before", "bold"));
  const before = await answers(sampler, tokenizer, seed, context);

  const trainer = await service.createLoraTrainingClient({
    ...{ name: "quickstart", baseModel: bundledModel, rank: settings.rank, seed },
  });
  const dataset = new BatchedDataset(data.train, { batchSize: settings.batchSize, seed });
  await run.writeConfig({ quickstart: "examples", model_name: bundledModel, seed, ...settings });
  const nllBefore = await evaluateNll(trainer, heldOut.train);
  const { epochs, learningRate } = settings;
  const loop = trainSupervised({
    ...{ trainer, dataset, run, learningRate, epochs, signal, saveEvery: 0, evalEvery: 0 },
    ...omitUndefined({ maxSteps: options.steps }),
  });
  output.note(
    `\n${output.style("Training", "bold")} on ${data.train.length} short conversations, LoRA rank ${settings.rank}`,
  );
  tellStudio(trainer, context);
  const points = await watch(loop, output);
  signal.throwIfAborted();
  if (!output.isJson) {
    output.line(
      terminalPlot([{ name: "loss", points }], {
        width: Math.min(output.width, 72),
        height: 10,
        style: output.style.bind(output),
      }),
    );
  }
  const nllAfter = await evaluateNll(trainer, heldOut.train);

  if (!output.isJson) output.note(`\n${output.style("After", "bold")}, on questions that were not in the data`);
  const after = await answers(await trainer.saveWeightsAndGetSamplingClient(), tokenizer, seed, context);
  const seconds = (performance.now() - startMs) / 1000;
  const adapter = await saveAdapter(trainer, service, run.path, context);
  const change = (1 - nllAfter / nllBefore) * 100;
  if (output.isJson) {
    output.event({
      type: "done",
      seconds,
      nll_before: nllBefore,
      nll_after: nllAfter,
      before,
      after,
      run: run.path,
      adapter,
    });
    return 0;
  }
  output.line(
    `\nThe loss on unseen conversations ${nllAfter < nllBefore ? "fell" : "rose"} from ${nllBefore.toFixed(2)} to ${nllAfter.toFixed(2)} (${change.toFixed(0)} %) in ${formatDuration(seconds)}.`,
  );
  output.note(
    `It is per token, as the loss of the steps, and higher: these ${heldOut.train.length} conversations are on topics that the training data does not have.`,
  );
  output.line(`The adapter is in ${adapter}. Try next:\n`);
  output.line(`  npx tinklet chat --local --from ${run.path}`);
  output.line(`  npx tinklet plot ${run.path} --out loss.svg`);
  output.line("  npx tinklet quickstart --rl");
  return 0;
}

/** A bundled data file: `data/` is next to the model files, or next to the folder `model`. */
export function dataFile(model: string, name: string): string {
  return join(model, ...(model.endsWith("model") && !model.endsWith("base-model") ? [".."] : []), "data", name);
}

/** A local server with the bundled model, on the usual data folder, so that the next commands find the run. */
export async function localService(model: string, context: Context): Promise<ServiceClient> {
  const { output } = context;
  if (!output.isJson) context.studio = await openStudio([]);
  const service = await context.startLocal([`${bundledModel}=${model}`]);
  const { supportedModels } = await service.getServerCapabilities();
  output.note(
    `${context.isAttached ? "It has" : "A Tinker server runs inside this process with"} ${supportedModels.map(({ modelName }) => modelName).join(", ")}.\n`,
  );
  return service;
}

/** Prints the studio's link to the run; it works while this command runs. */
export function tellStudio(trainer: TrainingClient, { output, studioUrl }: Context): void {
  const link = studioUrl(`/runs/${trainer.modelId}`);
  if (link !== undefined) output.note(`Watch it in a browser: ${link}`);
}

async function answers(
  sampler: Pick<SamplingClient, "sample">,
  tokenizer: Tokenizer,
  seed: number,
  { output, signal }: Context,
): Promise<Record<string, string>> {
  const written: Record<string, string> = {};
  for (const prompt of quickstartPrompts) {
    const tokens = tokenizer.applyChatTemplate([{ role: "user", content: prompt }], { addGenerationPrompt: true });
    const [answer] = await write({ sampler, tokenizer }, tokens, { ...sampling, seed }, { signal });
    written[prompt] = answer?.text.trim() ?? "";
    if (!output.isJson) output.line(`  ${output.style(prompt, "dim")}\n  ${written[prompt]}`);
  }
  return written;
}

async function watch(
  loop: ReturnType<typeof import("@tinklet/cookbook").trainSupervised>,
  output: Context["output"],
): Promise<[number, number][]> {
  const points: [number, number][] = [];
  const startMs = performance.now();
  let line: StepLine | undefined;
  for await (const event of loop) {
    if (event.type !== "step") continue;
    const { metrics, step, totalSteps } = event;
    line ??= new StepLine(totalSteps, startMs);
    const loss = metrics["train_mean_nll"] ?? Number.NaN;
    points.push([step, loss]);
    output.event({ type: "step", ...metrics });
    output.progress(line.text(step, metrics["num_tokens"] ?? 0, { loss: loss.toFixed(3) }), {
      always: step === totalSteps - 1,
    });
  }
  if (line !== undefined)
    output.note(
      `${points.length} ${points.length === 1 ? "step" : "steps"} in ${formatDuration(line.seconds)}, ${formatCount(line.tokensPerSecond)} tokens/s`,
    );
  return points;
}

/** Downloads the last checkpoint of a run as an adapter folder. */
export async function saveAdapter(
  trainer: TrainingClient,
  service: ServiceClient,
  folder: string,
  context: Context,
): Promise<string> {
  const { RunFolder } = await import("@tinklet/cookbook");
  const last = (await RunFolder.at(folder).readCheckpoints()).at(-1)?.sampler_path;
  const path = last ?? (await trainer.saveWeightsForSampler("final")).path;
  const adapter = join(folder, "adapter");
  await fetchCheckpoint(path, adapter, folder, context, service.createRestClient());
  return adapter;
}
