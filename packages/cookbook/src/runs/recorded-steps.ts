/**
 * The skeleton of every training loop: removes what a crash left unfinished, checks the budget, evaluates, records, saves, stops on a
 * signal, and ends with a `done` event. What a step does is up to the loop.
 */
import { type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { Sampler, Scorer, Trainer } from "../clients.ts";
import { type BeforeStep, measureSpending, type Spending, type TokenCounts } from "../cost/budget.ts";
import { settled } from "../settled.ts";
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

/** Events of a loop over recorded steps, with the detail of its steps (`D`) and its result (`R`). The last one is always `done`. */
export type RecordedEvent<D extends object = object, R extends RunResult = RunResult> =
  | (RecordedStep & D)
  | { readonly type: "checkpoint"; readonly record: CheckpointRecord }
  | ({ readonly type: "done" } & R);

/** A step that was taken. */
export interface TakenStep<D extends object> {
  readonly metrics: Readonly<Record<string, number>>;
  /** Goes into the event. */
  readonly detail: D;
  /** How long its parts took. */
  readonly seconds?: Readonly<Record<string, number>>;
}

/** An evaluation whose best weights are saved for sampling. */
interface Evaluation {
  /** Figures for the metrics, under `test/`. */
  readonly figures: (step: number) => Promise<Readonly<Record<string, number>>>;
  /** The figure that decides; absent: nothing is kept. */
  readonly best?: { readonly name: string; readonly better: "higher" | "lower" } | undefined;
  /** Deletes weights that are no longer the best. @defaultValue they stay */
  readonly forget?: ((path: string) => Promise<void>) | undefined;
  /** Whether weights that no step has trained can be the best. @defaultValue true */
  readonly keepsUntrained?: boolean;
}

/** What a loop does. */
export interface StepsOf<D extends object, R extends RunResult = RunResult> {
  readonly totalSteps: number;
  /**
   * Steps that are submitted before the oldest of them is awaited. Above 1, `take` must submit everything before its first `await`, so
   * that a save which is due after a step is submitted before the next step. @defaultValue 1
   */
  readonly depth?: number;
  /** Later steps whose sampling is under way while one is trained: what they take is lost when the run stops, and within its budget. @defaultValue 0 */
  readonly ahead?: number;
  /** Steps of an epoch, in which checkpoints count. @defaultValue 1 */
  readonly batchesPerEpoch?: number;
  /** For loops whose tokens are known before a step is taken; others call `spend`. */
  readonly spending?: Spending;
  /**
   * Takes one step.
   * @param spend - notes tokens before they are submitted for training
   * @returns undefined when the signal ended it before anything was trained
   */
  take(step: number, spend: (tokens: TokenCounts) => Promise<void>): Promise<TakenStep<D> | undefined>;
  /** Evaluates the trainer's weights before a step, instead of the option `evaluate`, and keeps the best ones. */
  readonly evaluation?: Evaluation | undefined;
  /** Fields of a checkpoint after which `nextStep` comes. @defaultValue its `batch` */
  place?(nextStep: number): Pick<CheckpointRecord, "batch" | "epoch"> & Readonly<Record<string, unknown>>;
  /** Whether the checkpoint of a run that was stopped has weights for sampling, too. @defaultValue true */
  readonly isStoppedRunSampled?: boolean;
  /** Called after the last step: metrics of the trained weights, and what the result adds. */
  end?(): Promise<
    { readonly metrics: Readonly<Record<string, number>>; readonly result: Omit<R, keyof RunResult> } | undefined
  >;
}

type SkeletonOptions<D extends object> = Omit<RecordedOptions, "stopWhen"> & {
  readonly stopWhen?: ((progress: RecordedStep & D) => string | undefined) | undefined;
};

/** Runs the steps of a loop. Iterate to run it. */
export async function* recordedSteps<D extends object, R extends RunResult = RunResult>(
  options: SkeletonOptions<D>,
  loop: StepsOf<D, R>,
): AsyncGenerator<RecordedEvent<D, R>, R, void> {
  try {
    const result = yield* steps(options, loop);
    await options.run?.close(); // released before `done`, so that the receiver of `done` can write there
    yield { type: "done", ...result };
    return result;
  } finally {
    await options.run?.close();
  }
}

/** A step that was submitted and is not yet recorded. */
interface Pending<D extends object> {
  readonly step: number;
  readonly test: Evaluated;
  readonly taken: Promise<TakenStep<D> | undefined>;
  readonly saved: Promise<CheckpointRecord> | undefined;
}

async function* steps<D extends object, R extends RunResult>(
  options: SkeletonOptions<D>,
  loop: StepsOf<D, R>,
): AsyncGenerator<RecordedEvent<D, R>, R, void> {
  const { run, resumeFrom, saveEvery = 0, signal, stopWhen } = options;
  const { totalSteps, depth = 1, ahead = 0, batchesPerEpoch = 1 } = loop;
  const startStep = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, batchesPerEpoch);
  if (startStep >= totalSteps) return resultOf(totalSteps, { totalSteps, checkpoint: resumeFrom });
  await run?.rewind(startStep);
  const measured = await measureSpending(run, options.beforeStep);
  const evaluation = await openEvaluation(options, totalSteps, loop.evaluation ?? evaluationOf(options));
  const isSaved = (step: number) =>
    run !== undefined && saveEvery > 0 && (step + 1) % saveEvery === 0 && step + 1 < totalSteps;
  const save = (nextStep: number, kind: SaveKind) => settled(saveWeights(options, loop, nextStep, kind));
  let checkpoint = resumeFrom;
  let stopped: string | undefined;
  let next = startStep; // the step that is submitted next
  let since = performance.now();
  const pending: Pending<D>[] = [];

  while (next < totalSteps || pending.length > 0) {
    if (signal?.aborted) stopped ??= "interrupted";
    if (next < totalSteps && stopped === undefined && pending.length < depth) {
      stopped = await (loop.spending?.refusal(next) ?? measured.refusal(next, totalSteps, ahead));
      if (stopped !== undefined) continue;
      if (pending.length === 0) since = performance.now();
      const step = next;
      const test = await evaluation.at(step);
      if (test.best !== undefined) yield { type: "checkpoint", record: test.best };
      await loop.spending?.note(step);
      const taken = settled(loop.take(step, (tokens) => measured.note(step, tokens)));
      const saved = depth > 1 && isSaved(step) ? save(step + 1, "both") : undefined;
      pending.push({ step, test, taken, saved });
      next += 1;
      if (pending.length < depth && next < totalSteps) continue;
    }
    const oldest = pending.shift();
    if (oldest === undefined) break; // stopped, and no step is under way
    const { step, test } = oldest;
    const taken = await oldest.taken;
    if (taken === undefined) {
      stopped = "interrupted";
      next = step;
      break;
    }
    const metrics: MetricsRow = { step, progress: (step + 1) / totalSteps, ...taken.metrics, ...test.metrics };
    await run?.appendMetrics(metrics);
    await run?.appendTiming(step, { step: (performance.now() - since) / 1000, ...taken.seconds });
    since = performance.now();
    const done = { type: "step" as const, step, totalSteps, metrics, ...taken.detail };
    yield done;
    if (isSaved(step)) {
      checkpoint = await (oldest.saved ?? save(step + 1, "both"));
      await run?.appendCheckpoint(checkpoint);
      yield { type: "checkpoint", record: checkpoint };
    }
    stopped ??= stopWhen?.(done);
  }

  const isComplete = next >= totalSteps;
  if (next === startStep) return resultOf(next, { totalSteps, stopped, checkpoint }); // nothing was trained
  let end: Awaited<ReturnType<NonNullable<StepsOf<D, R>["end"]>>>;
  if (isComplete) {
    const test = await evaluation.at(totalSteps);
    end = await loop.end?.();
    if (test.best !== undefined) yield { type: "checkpoint", record: test.best };
    const metrics = { ...test.metrics, ...end?.metrics };
    if (Object.keys(metrics).length > 0) await run?.appendMetrics({ step: totalSteps, progress: 1, ...metrics });
  }
  const isAtEnd = checkpoint !== undefined && nextStepOf(checkpoint, batchesPerEpoch) === next;
  if (run !== undefined && (isComplete || !isAtEnd)) {
    checkpoint = await save(next, isComplete ? "final" : loop.isStoppedRunSampled === false ? "state" : "both");
    await run.appendCheckpoint(checkpoint);
    yield { type: "checkpoint", record: checkpoint };
  }
  return { ...resultOf<R>(next, { totalSteps, stopped, checkpoint }), ...end?.result };
}

/** @param ended.stopped - ignored where the run is complete */
function resultOf<R extends RunResult>(
  nextStep: number,
  ended: {
    readonly totalSteps: number;
    readonly stopped?: string | undefined;
    readonly checkpoint: CheckpointRecord | undefined;
  },
): R {
  const { totalSteps, checkpoint } = ended;
  const stopped = nextStep >= totalSteps ? undefined : ended.stopped;
  return { nextStep, totalSteps, ...omitUndefined({ stopped, checkpoint }) } as R; // `end` adds the rest
}

interface Evaluated {
  readonly metrics?: Readonly<Record<string, number>>;
  /** The checkpoint of the best weights, where these are. */
  readonly best?: CheckpointRecord;
}

/** The option `evaluate`, by a sampler with the weights as they are. */
function evaluationOf({
  trainer,
  evaluate,
  keepBest,
}: Pick<RecordedOptions, "trainer" | "evaluate" | "keepBest">): Evaluation | undefined {
  if (evaluate === undefined) return undefined;
  return {
    figures: async (step) => evaluate(await trainer.saveWeightsAndGetSamplingClient(), step),
    best: keepBest === undefined ? undefined : { name: keepBest, better: "higher" },
  };
}

/** Evaluations of a run; knows the best so far from what the run recorded. */
async function openEvaluation(
  { run, trainer, evalEvery = 10, resumeFrom }: Omit<RecordedOptions, "stopWhen">,
  totalSteps: number,
  evaluation: Evaluation | undefined,
) {
  const { best, keepsUntrained = true } = evaluation ?? {};
  const sign = best?.better === "lower" ? -1 : 1;
  const seen = best === undefined ? [] : ((await run?.readMetrics()) ?? []);
  let highest = seen.reduce((most, row) => {
    const value = row[`test/${best?.name}`];
    return value === undefined ? most : Math.max(most, sign * value);
  }, Number.NEGATIVE_INFINITY);
  return {
    at: async (step: number): Promise<Evaluated> => {
      const due = evalEvery > 0 && (step % evalEvery === 0 || step === totalSteps);
      if (evaluation === undefined || !due) return {};
      const figures = await evaluation.figures(step);
      const metrics = Object.fromEntries(Object.entries(figures).map(([name, value]) => [`test/${name}`, value]));
      const value = best === undefined ? undefined : figures[best.name];
      if (run === undefined || best === undefined || value === undefined || !(sign * value > highest))
        return { metrics };
      highest = sign * value;
      if (!keepsUntrained && step === 0 && resumeFrom === undefined) return { metrics };
      const { name, path } = await saveBest(run, trainer, step, evaluation.forget);
      const record = { name, batch: step, sampler_path: path, [`test/${best.name}`]: value };
      await run.appendCheckpoint(record);
      return { metrics, best: record };
    },
  };
}

/**
 * Saves the best weights: as `best` if the ones before can be deleted, because a server does not overwrite sampler weights; else as
 * `best-STEP`. A crash between both loses no best weights: the evaluation is repeated when the run resumes.
 */
async function saveBest(
  run: RunFolder,
  trainer: Pick<Trainer, "saveWeightsForSampler">,
  step: number,
  forget: Evaluation["forget"],
): Promise<{ readonly name: string; readonly path: string }> {
  const save = async (name: string) => ({ name, path: (await trainer.saveWeightsForSampler(name)).path });
  const numbered = `best-${String(step).padStart(6, "0")}`;
  if (forget === undefined) return save(numbered);
  // Removed from the record first, so that no row refers to deleted weights.
  for (const { sampler_path: path } of await run.removeCheckpoints(({ name }) => bestName.test(name))) {
    if (path !== undefined) await forget(path).catch(() => {}); // already deleted, or left to the server's retention
  }
  return save("best").catch(() => save(numbered));
}

/** Names of the best weights of a run. */
export const bestName = /^best(-\d+)?$/;

/** What a checkpoint has: the state to train on, weights for sampling as well, or both without an expiry. */
type SaveKind = "state" | "both" | "final";

/** Saves the weights as they are after the calls made so far. */
async function saveWeights<D extends object, R extends RunResult>(
  { trainer, ttlSeconds = 7 * 24 * 3600 }: SkeletonOptions<D>,
  loop: StepsOf<D, R>,
  nextStep: number,
  kind: SaveKind,
): Promise<CheckpointRecord> {
  const final = kind === "final";
  const name = final ? "final" : String(nextStep).padStart(6, "0");
  const kept = final ? {} : { ttlSeconds };
  const place = loop.place?.(nextStep) ?? { batch: nextStep };
  const [state, sampler] = await Promise.all([
    trainer.saveState(name, kept),
    kind === "state" ? undefined : trainer.saveWeightsForSampler(name, kept),
  ]);
  const paths = { state_path: state.path, ...omitUndefined({ sampler_path: sampler?.path }) };
  return { name, ...place, ...(final ? { final } : {}), ...paths };
}
