/**
 * The supervised loop: batches in, steps out, one step submitted ahead of the one that is waited for. Calls of a training
 * client take effect in order, so a save or an evaluation submitted right after a step sees exactly that step's weights.
 */

import { checkOptions, omitUndefined } from "@tinklet/wire/options";
import type { Trainer } from "../clients.ts";
import { type BeforeStep, openSpending } from "../cost/budget.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { supervisedNames } from "../option-names.ts";
import { batchOf, evaluatesBefore, nextStepOf, type Plan, totalStepsOf } from "../runs/plan.ts";
import type { CheckpointRecord, DataRow, MetricsRow, RunFolder } from "../runs/run-folder.ts";
import type { RunResult } from "../runs/run-result.ts";
import { settled } from "../settled.ts";
import { type AdamOptions, adamParams } from "./adam.ts";
import { evaluateNll, inputTokens, lossTokens, meanNll } from "./nll.ts";
import { type Schedule, scheduleFactor } from "./schedule.ts";

/** Options of {@link trainSupervised}. */
export interface SupervisedOptions extends Plan {
  readonly trainer: Trainer;
  /** Run folder for metrics and checkpoints. @defaultValue none: nothing is written or saved */
  readonly run?: RunFolder;
  readonly learningRate: number;
  /** Learning-rate schedule. @defaultValue "linear" */
  readonly schedule?: Schedule;
  /** Steps in which the learning rate rises to its full value. @defaultValue 0 */
  readonly warmupSteps?: number;
  /** Optimizer settings besides the learning rate: betas, epsilon, weight decay, gradient clipping. @defaultValue betas 0.9 and 0.95, eps 1e-8 */
  readonly adam?: AdamOptions;
  /** Save after every so many steps. 0: only at the end. @defaultValue 20 */
  readonly saveEvery?: number;
  /** How long checkpoints other than the last are kept, in seconds. @defaultValue 7 days */
  readonly ttlSeconds?: number;
  /** The checkpoint that the trainer was made from, when resuming: its step is the first. {@link openRun} finds it. */
  readonly resumeFrom?: CheckpointRecord | undefined;
  /** Aborting it ends the run after the steps that are under way, with a checkpoint. */
  readonly signal?: AbortSignal;
  /** Asked before each step is submitted; a text ends the run like an abort and says why. {@link budget} makes one. */
  readonly beforeStep?: BeforeStep | undefined;
  /** Asked after each step; a text ends the run like an abort and says why. */
  readonly stopWhen?: (progress: StepDone) => string | undefined;
}

/** Event: one training step has finished. */
export interface StepDone {
  readonly type: "step";
  /** Counted from 0. */
  readonly step: number;
  readonly totalSteps: number;
  readonly metrics: MetricsRow;
  /** Input tokens of this run so far, resumed ones included. */
  readonly elapsedTokens: number;
}

/** Events of {@link trainSupervised}. The last one is always `done`. */
export type SupervisedEvent =
  | StepDone
  | { readonly type: "checkpoint"; readonly record: CheckpointRecord }
  | ({ readonly type: "done" } & SupervisedResult);

/** How the run ended. */
export interface SupervisedResult extends RunResult {
  /** Loss on the held-out data after the last step; absent where this call did not take it. */
  readonly testNll?: number;
}

/** A step that is submitted and not yet awaited. */
interface Submitted {
  readonly step: number;
  readonly tokens: number;
  readonly row: () => Promise<MetricsRow>;
  readonly saved: Promise<CheckpointRecord> | undefined;
}

/**
 * Trains on batches of examples. Iterate to run it; the last event, `done`, says how it ended (and so does the generator's return
 * value).
 *
 * @example
 * ```ts
 * const dataset = new BatchedDataset(data, { batchSize: 8 });
 * for await (const event of trainSupervised({ trainer, dataset, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.step, event.metrics["train_mean_nll"]);
 * }
 * ```
 */
export async function* trainSupervised(
  options: SupervisedOptions,
): AsyncGenerator<SupervisedEvent, SupervisedResult, void> {
  try {
    checkOptions("trainSupervised", options, supervisedNames);
    const result = yield* steps(options);
    await options.run?.close(); // whoever is told that it is done may write there
    yield { type: "done", ...result };
    return result;
  } finally {
    await options.run?.close();
  }
}

async function* steps(options: SupervisedOptions): AsyncGenerator<SupervisedEvent, SupervisedResult, void> {
  const { run, trainer, dataset, resumeFrom, testData = [], evalEvery = 10, signal, stopWhen } = options;
  const totalSteps = totalStepsOf(options);
  const startStep = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, dataset.batchesPerEpoch);
  if (startStep >= totalSteps)
    return { nextStep: totalSteps, totalSteps, ...omitUndefined({ checkpoint: resumeFrom }) };
  await run?.rewind(startStep);
  if (startStep === 0) await run?.writeData(shownData(batchOf(options, 0)));
  const spending = await openSpending(options, run);
  let elapsedTokens = Number(resumeFrom?.["elapsed_tokens"] ?? 0);
  let submittedTokens = elapsedTokens;
  let stopped: string | undefined;
  let checkpoint = resumeFrom;
  let next = startStep;
  let since = performance.now();
  const pending: Submitted[] = [];

  while (next < totalSteps || pending.length > 0) {
    if (signal?.aborted) stopped ??= "interrupted";
    if (next < totalSteps && stopped === undefined && pending.length < 2) {
      stopped = await spending.refusal(next);
      if (stopped !== undefined) continue;
      await spending.note(next);
      const submitted = submitStep(options, next, totalSteps, submittedTokens);
      submittedTokens += submitted.tokens;
      pending.push(submitted);
      next += 1;
      if (pending.length < 2 && next < totalSteps) continue; // one ahead of the one that is awaited
    }
    const oldest = pending.shift();
    if (oldest === undefined) break; // stopped, and nothing is under way
    const metrics = await oldest.row();
    elapsedTokens += oldest.tokens;
    await run?.appendMetrics(metrics);
    await run?.appendTiming(oldest.step, { step: (performance.now() - since) / 1000 });
    since = performance.now();
    const done: StepDone = { type: "step", step: oldest.step, totalSteps, metrics, elapsedTokens };
    yield done;
    if (oldest.saved !== undefined) {
      checkpoint = await oldest.saved;
      await run?.appendCheckpoint(checkpoint);
      yield { type: "checkpoint", record: checkpoint };
    }
    stopped ??= stopWhen?.(done);
  }

  const result = { nextStep: next, totalSteps, ...(next === totalSteps ? {} : omitUndefined({ stopped })) };
  if (next === startStep) return { ...result, ...omitUndefined({ checkpoint }) }; // stopped before anything was submitted
  const complete = next === totalSteps;
  const testNll = complete && evalEvery > 0 && testData.length > 0 ? await evaluateNll(trainer, testData) : undefined;
  if (testNll !== undefined) await run?.appendMetrics({ step: totalSteps, progress: 1, "test/nll": testNll });
  if (run !== undefined && (complete || checkpoint === undefined || !isAt(checkpoint, next, options))) {
    checkpoint = await save(options, next, elapsedTokens, complete ? "final" : "state");
    await run.appendCheckpoint(checkpoint);
    yield { type: "checkpoint", record: checkpoint };
  }
  return { ...result, ...omitUndefined({ checkpoint, testNll }) };
}

/** Data that are recorded for whoever looks at the run, and tokens of them. */
const [recordedData, recordedTokens] = [8, 10_000];

/** The first data as the model sees them: whole sequences of text with one target for each place. */
function shownData(data: readonly SupervisedDatum[]): DataRow[] {
  let room = recordedTokens;
  return data.slice(0, recordedData).flatMap(({ modelInput, lossFnInputs: { target_tokens: targets, weights } }) => {
    room -= modelInput.length + 1;
    if (room < 0 || !modelInput.isText || targets.values.length !== modelInput.length) return [];
    const [learned, counted] = [targets.values, weights.values] as readonly ArrayLike<number | bigint>[];
    const tokens = [...modelInput.toInts().slice(0, 1), ...Array.from(learned!, Number)];
    return [{ tokens, weights: [0, ...Array.from(counted!, (weight) => Number(Number(weight).toFixed(6)))] }];
  });
}

const isAt = (record: CheckpointRecord, step: number, { dataset }: SupervisedOptions) =>
  nextStepOf(record, dataset.batchesPerEpoch) === step;

function submitStep(options: SupervisedOptions, step: number, totalSteps: number, tokensBefore: number): Submitted {
  const { trainer, dataset, testData = [], saveEvery = 20, schedule = "linear" } = options;
  const epoch = Math.floor(step / dataset.batchesPerEpoch);
  const data = batchOf(options, step);
  const factor = scheduleFactor(schedule, { step, totalSteps, warmupSteps: options.warmupSteps });
  const learningRate = options.learningRate * factor;
  const evaluated = settled(
    evaluatesBefore(options, step) ? evaluateNll(trainer, testData) : Promise.resolve(undefined),
  );
  const trained = settled(trainer.step(data, "cross_entropy", adamParams(options.adam, learningRate)));
  const tokens = inputTokens(data);
  const saves = options.run !== undefined && saveEvery > 0 && (step + 1) % saveEvery === 0 && step + 1 < totalSteps;
  const saved = saves ? settled(save(options, step + 1, tokensBefore + tokens, "both")) : undefined;
  const row = async (): Promise<MetricsRow> => {
    const testNll = await evaluated;
    const { output, metrics } = await trained;
    return {
      step,
      epoch,
      progress: (step + 1) / totalSteps,
      learning_rate: learningRate,
      ...repeatable(metrics),
      num_sequences: data.length,
      num_tokens: tokens,
      num_loss_tokens: lossTokens(data),
      train_mean_nll: meanNll(output, data),
      ...omitUndefined({ "test/nll": testNll }),
    };
  };
  return { step, tokens, row, saved };
}

/** The metrics that the same run would give again: without those that are times. */
export function repeatable(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => !/^time\/|_(ms|seconds)(:|$)/.test(name)));
}

/** Saves the weights as they are after the calls made so far. */
async function save(
  options: SupervisedOptions,
  nextStep: number,
  elapsedTokens: number,
  kind: "state" | "both" | "final",
): Promise<CheckpointRecord> {
  const { trainer, dataset, ttlSeconds = 7 * 24 * 3600 } = options;
  const name = kind === "final" ? "final" : String(nextStep).padStart(6, "0");
  const kept = kind === "final" ? {} : { ttlSeconds };
  const [state, sampler] = await Promise.all([
    trainer.saveState(name, kept),
    kind === "state" ? undefined : trainer.saveWeightsForSampler(name, kept),
  ]);
  return {
    name,
    batch: nextStep % dataset.batchesPerEpoch,
    epoch: Math.floor(nextStep / dataset.batchesPerEpoch),
    ...(kind === "final" ? { final: true } : {}),
    state_path: state.path,
    ...omitUndefined({ sampler_path: sampler?.path }),
    elapsed_tokens: elapsedTokens,
  };
}
