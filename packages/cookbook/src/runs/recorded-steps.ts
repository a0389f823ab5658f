/**
 * The skeleton of a run whose steps come one after the other: takes back what a crash left behind, asks the budget, evaluates,
 * records, saves, stops when told, and ends with one last event. What a step is, the loop says.
 */
import { type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { Sampler, Scorer, Trainer } from "../clients.ts";
import { type BeforeStep, measureSpending, type TokenCounts } from "../cost/budget.ts";
import { nextStepOf } from "./plan.ts";
import type { CheckpointRecord, MetricsRow, RunFolder } from "./run-folder.ts";
import type { RunResult } from "./run-result.ts";

/** Options that every loop over recorded steps has. */
export interface RecordedOptions {
  readonly trainer: Trainer;
  /** Run folder for metrics and checkpoints. @defaultValue none: nothing is written or saved */
  readonly run?: RunFolder;
  /** Save after every so many steps. 0: only at the end. @defaultValue 0 */
  readonly saveEvery?: number;
  /** How long checkpoints other than the last and the best are kept, in seconds. @defaultValue 7 days */
  readonly ttlSeconds?: number;
  /** The checkpoint that the trainer was made from, when resuming: its step is the first. {@link openRun} finds it. */
  readonly resumeFrom?: CheckpointRecord | undefined;
  /** Figures of the weights as they are, for the metrics under `test/`. */
  readonly evaluate?: (
    sampler: Sampler & Partial<Scorer>,
    step: number,
  ) => Promise<Readonly<Record<string, number>>> | Readonly<Record<string, number>>;
  /** Evaluate before every so many steps, and after the last one. 0: never. @defaultValue 10 */
  readonly evalEvery?: number;
  /** A figure of `evaluate`: whenever it is higher than ever, the weights are saved for sampling, and kept. */
  readonly keepBest?: string | undefined;
  /**
   * Aborting it ends the run with a checkpoint of every step trained so far: answers that are being sampled are given up, a
   * training step that is under way is finished.
   */
  readonly signal?: AbortSignal;
  /** Asked before each step, with the largest step so far as what it may take; a text ends the run and says why. {@link budget} makes one. */
  readonly beforeStep?: BeforeStep | undefined;
  /** Asked after each step; a text ends the run like an abort and says why. */
  readonly stopWhen?:
    | ((progress: { readonly step: number; readonly metrics: MetricsRow }) => string | undefined)
    | undefined;
}

/** Names of the options that every loop over recorded steps has. */
export const recordedNames: OptionNames<RecordedOptions> = {
  trainer: true,
  run: true,
  saveEvery: true,
  ttlSeconds: true,
  resumeFrom: true,
  evaluate: true,
  evalEvery: true,
  keepBest: true,
  signal: true,
  beforeStep: true,
  stopWhen: true,
};

/** Event: one training step has finished. */
export interface RecordedStep {
  readonly type: "step";
  /** Counted from 0. */
  readonly step: number;
  readonly totalSteps: number;
  readonly metrics: MetricsRow;
}

/** Events of a loop over recorded steps, with what its steps tell. The last one is always `done`. */
export type RecordedEvent<D extends object = object> =
  | (RecordedStep & D)
  | { readonly type: "checkpoint"; readonly record: CheckpointRecord }
  | ({ readonly type: "done" } & RunResult);

/** A step that was taken. */
export interface TakenStep<D extends object> {
  readonly metrics: Readonly<Record<string, number>>;
  /** Goes into the event. */
  readonly detail: D;
  /** How long its parts took. */
  readonly seconds?: Readonly<Record<string, number>>;
}

/** What a loop does. */
export interface StepsOf<D extends object> {
  readonly totalSteps: number;
  /** Later steps whose sampling is under way while one is trained: what they take is lost when the run stops, and within its budget. @defaultValue 0 */
  readonly ahead?: number;
  /**
   * Takes one step.
   * @param spend - notes tokens before they are submitted for training
   * @returns undefined when the signal ended it before anything was trained
   */
  take(step: number, spend: (tokens: TokenCounts) => Promise<void>): Promise<TakenStep<D> | undefined>;
}

/** Runs the steps of a loop. Iterate to run it. */
export async function* recordedSteps<D extends object>(
  options: RecordedOptions,
  loop: StepsOf<D>,
): AsyncGenerator<RecordedEvent<D>, RunResult, void> {
  try {
    const result = yield* steps(options, loop);
    await options.run?.close(); // whoever is told that it is done may write there
    yield { type: "done", ...result };
    return result;
  } finally {
    await options.run?.close();
  }
}

async function* steps<D extends object>(
  options: RecordedOptions,
  { totalSteps, take, ahead = 0 }: StepsOf<D>,
): AsyncGenerator<RecordedEvent<D>, RunResult, void> {
  const { run, resumeFrom, saveEvery = 0, signal, stopWhen } = options;
  const startStep = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, 1);
  await run?.rewind(startStep);
  const spending = await measureSpending(run, options.beforeStep);
  const evaluation = await openEvaluation(options, totalSteps);
  let checkpoint = resumeFrom;
  let stopped: string | undefined;
  let step = startStep;
  for (; step < totalSteps && stopped === undefined; step++) {
    stopped = signal?.aborted ? "interrupted" : await spending.refusal(step, totalSteps, ahead);
    if (stopped !== undefined) break;
    const since = performance.now();
    const test = await evaluation.at(step);
    if (test.best !== undefined) yield { type: "checkpoint", record: test.best };
    const taken = await take(step, (tokens) => spending.note(step, tokens));
    if (taken === undefined) {
      stopped = "interrupted";
      break;
    }
    const metrics: MetricsRow = { step, progress: (step + 1) / totalSteps, ...taken.metrics, ...test.metrics };
    await run?.appendMetrics(metrics);
    await run?.appendTiming(step, { step: (performance.now() - since) / 1000, ...taken.seconds });
    yield { type: "step", step, totalSteps, metrics, ...taken.detail };
    if (run !== undefined && saveEvery > 0 && (step + 1) % saveEvery === 0 && step + 1 < totalSteps) {
      checkpoint = await save(options, step + 1, false);
      yield { type: "checkpoint", record: checkpoint };
    }
    stopped = stopWhen?.({ step, metrics });
  }
  const complete = step >= totalSteps;
  if (complete && step > startStep) {
    const test = await evaluation.at(totalSteps);
    if (test.best !== undefined) yield { type: "checkpoint", record: test.best };
    if (test.metrics !== undefined) await run?.appendMetrics({ step: totalSteps, progress: 1, ...test.metrics });
  }
  if (run !== undefined && step > startStep && (complete || checkpoint?.batch !== step)) {
    checkpoint = await save(options, step, complete);
    yield { type: "checkpoint", record: checkpoint };
  }
  return {
    nextStep: step,
    totalSteps,
    ...(complete ? {} : omitUndefined({ stopped })),
    ...omitUndefined({ checkpoint }),
  };
}

interface Evaluated {
  readonly metrics?: Readonly<Record<string, number>>;
  /** The checkpoint of the best weights, where these are. */
  readonly best?: CheckpointRecord;
}

/** Evaluations of a run; knows the best so far from what the run recorded. */
async function openEvaluation(options: RecordedOptions, totalSteps: number) {
  const { run, trainer, evaluate, evalEvery = 10, keepBest } = options;
  const seen = keepBest === undefined ? [] : ((await run?.readMetrics()) ?? []);
  let highest = seen.reduce((most, row) => Math.max(most, row[`test/${keepBest}`] ?? most), Number.NEGATIVE_INFINITY);
  return {
    at: async (step: number): Promise<Evaluated> => {
      const due = evalEvery > 0 && (step % evalEvery === 0 || step === totalSteps);
      if (evaluate === undefined || !due) return {};
      const figures = await evaluate(await trainer.saveWeightsAndGetSamplingClient(), step);
      const metrics = Object.fromEntries(Object.entries(figures).map(([name, value]) => [`test/${name}`, value]));
      const value = keepBest === undefined ? undefined : figures[keepBest];
      if (run === undefined || value === undefined || !(value > highest)) return { metrics };
      highest = value;
      const name = `best-${String(step).padStart(6, "0")}`;
      const { path } = await trainer.saveWeightsForSampler(name);
      const best = { name, batch: step, sampler_path: path, [`test/${keepBest}`]: value };
      await run.appendCheckpoint(best);
      return { metrics, best };
    },
  };
}

async function save(options: RecordedOptions, nextStep: number, final: boolean): Promise<CheckpointRecord> {
  const { trainer, run, ttlSeconds = 7 * 24 * 3600 } = options;
  const name = final ? "final" : String(nextStep).padStart(6, "0");
  const kept = final ? {} : { ttlSeconds };
  const [state, sampler] = await Promise.all([
    trainer.saveState(name, kept),
    trainer.saveWeightsForSampler(name, kept),
  ]);
  const paths = { state_path: state.path, sampler_path: sampler.path };
  const record = { name, batch: nextStep, ...(final ? { final } : {}), ...paths };
  await run?.appendCheckpoint(record);
  return record;
}
