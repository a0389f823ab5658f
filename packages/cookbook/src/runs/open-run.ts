/**
 * From a folder to a run that can be trained: starts one, or resumes the one in it, with no step repeated or left out. Also the
 * supervised and policy-gradient loops as runs in a folder.
 */
import { createHash } from "node:crypto";
import { basename, resolve } from "node:path";
import type { ModelLoss } from "@tinklet/sdk/recovery";
import { checkOptions, omitUndefined } from "@tinklet/wire/options";
import { checkRunName, nameKey, resumedFromKey, runNameFrom } from "@tinklet/wire/run-name";
import type { Service, Trainer } from "../clients.ts";
import { type BeforeStep, measureSpending, openSpending } from "../cost/budget.ts";
import { BatchedDataset } from "../data/dataset.ts";
import type { PreparedData } from "../data/prepare.ts";
import { reduced } from "../data/render.ts";
import { type AdamOptions, adamEps } from "../loops/adam.ts";
import {
  type PolicyGradientEvent,
  type PolicyGradientOptions,
  type PolicyGradientResult,
  type Problem,
  trainPolicyGradient,
} from "../loops/policy-gradient.ts";
import {
  type SupervisedEvent,
  type SupervisedOptions,
  type SupervisedResult,
  trainSupervised,
} from "../loops/supervised.ts";
import {
  only,
  policyGradientNames,
  policyGradientRunNames,
  runNames,
  supervisedNames,
  supervisedRunNames,
} from "../option-names.ts";
import { isGone, lostCheckpoint, newestTrainer } from "./lost-checkpoint.ts";
import { nextStepOf, totalStepsOf } from "./plan.ts";
import { type RunRecovers, RunRecovery, type RunRecoveryOptions } from "./recovery.ts";
import { type CheckpointRecord, type ClaimOptions, RunFolder } from "./run-folder.ts";
import type { RunResult } from "./run-result.ts";

/** The folder, the model and the adapter of a run. */
export interface RunOptions {
  /** Creates the training client, for example a `ServiceClient`. */
  readonly service: Service;
  /** Folder for the run's configuration, metrics and checkpoints. A run that is already in it is resumed. */
  readonly folder: string;
  /** Name of the run on the server; one that resumes keeps its name. @defaultValue the name of the folder */
  readonly name?: string | undefined;
  readonly baseModel: string;
  /** Rank of the LoRA adapter. @defaultValue 32 */
  readonly rank?: number;
  /** Random seed of the initial weights, of shuffling and of sampling. @defaultValue 0 */
  readonly seed?: number;
  /** A training checkpoint whose weights the run begins with, instead of an empty adapter. The optimizer starts without moments. */
  readonly from?: string | undefined;
  /** When the server has lost the model, go back to the newest checkpoint and train on; `false`: the run fails. @defaultValue `{}` */
  readonly recovery?: RunRecoveryOptions | false | undefined;
  readonly signal?: AbortSignal;
}

/** A run that is open: spread it into the options of a loop. */
export interface OpenRun {
  readonly run: RunFolder;
  readonly trainer: Trainer;
  /** The checkpoint that the trainer was made from; absent for a run that begins. */
  readonly resumeFrom: CheckpointRecord | undefined;
}

/**
 * Opens the folder of a run, checks that it has these settings, and creates the trainer: from the last checkpoint if there
 * is one.
 *
 * @param settings - everything that decides what the run computes, besides the model; written to `config.json`
 * @throws {@link DataError} when the folder holds a run with other settings, another process writes there, or the server does not
 *   have the last checkpoint any more.
 *
 * @example
 * ```ts
 * const opened = await openRun({ service, folder: "runs/mine", baseModel: "tinklet/base" }, { learning_rate: 1e-4 });
 * for await (const event of trainSupervised({ ...opened, dataset, learningRate: 1e-4 })) console.log(event.type);
 * ```
 */
export async function openRun(
  options: RunOptions,
  settings: Readonly<Record<string, unknown>>,
  claim: ClaimOptions = {},
): Promise<OpenRun> {
  checkOptions("openRun", options, runNames);
  const found = await claimed(options, settings, claim);
  try {
    return { ...found, trainer: await trainerFor(options, found) };
  } catch (error) {
    await found.run.close(); // the caller does not receive it
    throw error;
  }
}

/** A folder that belongs to this run, and the checkpoint to resume from. */
interface Claimed {
  readonly run: RunFolder;
  readonly resumeFrom: (CheckpointRecord & { readonly state_path: string }) | undefined;
}

/** What a run of an earlier release, which did not record these settings, has of them. */
const unrecordedOf = (config: Readonly<Record<string, unknown>>) => ({
  adam_eps: (config["adam"] as AdamOptions | undefined)?.eps ?? 1e-12,
  reduction: "sum",
});

/** A setting of the run in a folder; undefined where there is no run. */
async function settingOf(folder: string, name: keyof ReturnType<typeof unrecordedOf>): Promise<unknown> {
  const config = await RunFolder.at(folder).readConfig();
  return config === undefined ? undefined : (config[name] ?? unrecordedOf(config)[name]);
}

/** Adam with the epsilon that was asked for, else that of the run in the folder, else the default. */
async function adamOf(folder: string, adam: AdamOptions | undefined): Promise<AdamOptions & { readonly eps: number }> {
  const eps = adam?.eps ?? Number((await settingOf(folder, "adam_eps")) ?? adamEps);
  return { ...adam, eps };
}

async function claimed(
  options: RunOptions,
  settings: Readonly<Record<string, unknown>>,
  claim: ClaimOptions,
): Promise<Claimed> {
  const { folder, baseModel, rank = 32, seed = 0, from } = options;
  if (options.name !== undefined) checkRunName("name", options.name);
  const run = await RunFolder.open(folder);
  const start = omitUndefined({ load_checkpoint_path: from });
  const all = { model_name: baseModel, lora_rank: rank, seed, ...start, ...settings };
  const before = Object.entries(unrecordedOf((await run.readConfig()) ?? {})).filter(([name]) => name in all);
  const resumed = await run.claim(all, { ...claim, unrecorded: Object.fromEntries(before) });
  return { run, resumeFrom: resumed ? await run.lastCheckpoint() : undefined };
}

/** The metadata that name the run's models. */
function nameOf(options: RunOptions): Readonly<Record<string, string>> {
  const name = options.name ?? runNameFrom(basename(resolve(options.folder)));
  return name === undefined ? {} : { [nameKey]: name };
}

/** A trainer from a checkpoint of the run. */
function resumedFrom(options: RunOptions, path: string): PromiseLike<Trainer> {
  const { service, signal } = options;
  const userMetadata = { ...nameOf(options), [resumedFromKey]: path };
  return service.createTrainingClientFromStateWithOptimizer(path, { userMetadata, ...omitUndefined({ signal }) });
}

async function trainerFor(options: RunOptions, { run, resumeFrom }: Claimed): Promise<Trainer> {
  const { service, baseModel, rank = 32, seed = 0, from, signal } = options;
  const call = { userMetadata: nameOf(options), ...omitUndefined({ signal }) };
  if (resumeFrom !== undefined) {
    try {
      return await resumedFrom(options, resumeFrom.state_path);
    } catch (error) {
      throw isGone(error) ? await lostCheckpoint(resumeFrom, { run, service }, error) : error;
    }
  }
  if (from !== undefined) return service.createTrainingClientFromState(from, call);
  return service.createLoraTrainingClient({ baseModel, rank, seed, ...call });
}

/** Options of {@link runSupervised}: those of the loop, with data in place of the trainer, the dataset and the run folder, which it makes. */
export interface SupervisedRunOptions
  extends RunOptions,
    Omit<SupervisedOptions, "trainer" | "run" | "resumeFrom" | "dataset" | "testData" | "signal" | "forget"> {
  /** Training and evaluation data, from {@link prepareSupervised}. */
  readonly data: Pick<PreparedData, "train" | "test" | "digest"> &
    Partial<Pick<PreparedData, "reduction" | "isDefaultReduction">>;
  /** Examples per step. @defaultValue 8 */
  readonly batchSize?: number;
  /** Further settings for `config.json`, which a resumed run must agree with. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** Event before the first step. */
export interface RunStarts {
  readonly type: "start";
  readonly run: RunFolder;
  /** The first step of this call, counted from 0. */
  readonly startStep: number;
  readonly totalSteps: number;
  readonly resumeFrom: CheckpointRecord | undefined;
}

/**
 * Trains on examples, recorded in a folder: called again after an interruption, or a crash, it resumes where the run stopped.
 * The last event, `done`, says how the call ended: `stopped` has the reason where the run is not complete, for example a
 * {@link budget}. The intervals of evaluating and saving may change from call to call, and epochs and steps may grow; the schedule then spans
 * the longer run.
 *
 * @throws {@link DataError} when the folder holds a run with other settings or data, another process writes there, or the server
 *   does not have the last checkpoint any more.
 *
 * @example
 * ```ts
 * const data = await prepareSupervised("data.jsonl", tokenizer, { testShare: 0.1 });
 * for await (const event of runSupervised({ service, folder: "runs/mine", baseModel, data, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.step, event.metrics["train_mean_nll"]);
 *   if (event.type === "done") console.log(event.stopped ?? "complete", event.checkpoint?.state_path);
 * }
 * ```
 */
export async function* runSupervised(
  options: SupervisedRunOptions,
): AsyncGenerator<RunStarts | RunRecovers | SupervisedEvent, SupervisedResult, void> {
  checkOptions("runSupervised", options, supervisedRunNames);
  const { batchSize = 8, seed = 0, learningRate } = options;
  const data = await withReductionOfRun(options.folder, options.data);
  const dataset = new BatchedDataset(data.train, { batchSize, seed });
  const loop = { ...only<SupervisedOptions>(options, supervisedNames), learningRate, dataset, testData: data.test };
  return yield* inFolder(options, {
    settings: supervisedSettings({ ...options, data }),
    claim: {
      changeable: ["eval_every", "save_every", "ttl_seconds"],
      growing: ["num_epochs", "max_steps"],
    },
    adam: options.adam ?? {},
    batchesPerEpoch: dataset.batchesPerEpoch,
    totalSteps: totalStepsOf(loop),
    refusal: async (run, step) => (await openSpending(loop, run)).refusal(step),
    train: (opened) => trainSupervised({ ...loop, ...opened, forget: (path) => forget(options.service, path) }),
  });
}

/** Deletes weights on the server, where the service can. */
async function forget(service: Service, path: string): Promise<void> {
  await service.createRestClient?.().deleteCheckpointFromTinkerPath?.(path);
}

/** The data as the run in the folder began with them, where their reduction was left to the default. */
async function withReductionOfRun(
  folder: string,
  data: SupervisedRunOptions["data"],
): Promise<SupervisedRunOptions["data"]> {
  const recorded = data.isDefaultReduction === true ? await settingOf(folder, "reduction") : undefined;
  if ((recorded !== "sum" && recorded !== "mean") || recorded === data.reduction) return data;
  const { train, test } = data;
  return { ...data, train: reduced(train, recorded), test: reduced(test, recorded), reduction: recorded };
}

/** An open run with the optimizer settings that it keeps. */
interface OpenRunWithAdam extends OpenRun {
  readonly adam?: AdamOptions;
}

/** A loop, and what decides the run that it makes. */
export interface LoopInFolder<E, R> {
  /** Everything that decides what the run computes, besides the model; written to `config.json`. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly claim?: ClaimOptions;
  readonly totalSteps: number;
  readonly beforeStep?: BeforeStep | undefined;
  /** Optimizer settings, whose epsilon is recorded: a resumed run keeps the one it began with. @defaultValue not recorded */
  readonly adam?: AdamOptions;
  /** The loop itself, over the trainer and the folder. Its step is the checkpoint's `batch`. */
  readonly train: (opened: OpenRunWithAdam) => AsyncGenerator<E, R, void>;
}

/**
 * Runs a loop in a folder: begins, or resumes from the last checkpoint. A loop of your own becomes a run by this.
 *
 * @throws {@link DataError} as {@link openRun}.
 */
export async function* runLoop<E extends { readonly type: string }, R extends RunResult>(
  options: RunOptions,
  { beforeStep, ...loop }: LoopInFolder<E, R>,
): AsyncGenerator<RunStarts | RunRecovers | E | ({ readonly type: "done" } & RunResult), R | RunResult, void> {
  const { totalSteps } = loop;
  const refusal = async (run: RunFolder, step: number) =>
    (await measureSpending(run, beforeStep)).refusal(step, totalSteps);
  return yield* inFolder(options, { ...loop, batchesPerEpoch: 1, refusal });
}

interface Steps<E, R> extends Omit<LoopInFolder<E, R>, "beforeStep"> {
  /** Steps of an epoch, in which checkpoints count. */
  readonly batchesPerEpoch: number;
  /** Why a step may not begin; undefined where it may. */
  readonly refusal: (run: RunFolder, step: number) => Promise<string | undefined>;
}

async function* inFolder<E extends { readonly type: string }, R extends RunResult>(
  options: RunOptions,
  { settings, claim = {}, adam, totalSteps, batchesPerEpoch, refusal, train }: Steps<E, R>,
): AsyncGenerator<RunStarts | RunRecovers | E | ({ readonly type: "done" } & RunResult), R | RunResult, void> {
  const recovery = options.recovery === false ? undefined : new RunRecovery(options.service, options.recovery ?? {});
  const kept = adam === undefined ? undefined : await adamOf(options.folder, adam);
  const found = await claimed(options, { ...settings, ...(kept && { adam_eps: kept.eps }) }, claim);
  try {
    const { run, resumeFrom } = found;
    const startStep = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, batchesPerEpoch);
    // Asked before the trainer is created: a run that may not begin leaves nothing on the server.
    const stopped = startStep < totalSteps ? await refusal(run, startStep) : undefined;
    if (startStep >= totalSteps || stopped !== undefined) {
      const nextStep = Math.min(startStep, totalSteps);
      return yield* nothingToDo(run, { nextStep, totalSteps, ...omitUndefined({ stopped, checkpoint: resumeFrom }) });
    }
    yield { type: "start", run, startStep, totalSteps, resumeFrom };
    const loop = (trainer: Trainer, from: CheckpointRecord | undefined) =>
      train({ run, trainer, resumeFrom: from, ...(kept && { adam: kept }) });
    if (recovery === undefined) return yield* loop(await trainerFor(options, found), resumeFrom);
    return yield* recovering(options, found, { recovery, loop, totalSteps, batchesPerEpoch });
  } finally {
    await found.run.close();
  }
}

/** Runs a loop, again and again from its newest checkpoint if its model gets lost. */
async function* recovering<E extends { readonly type: string }, R extends RunResult>(
  options: RunOptions,
  { run, resumeFrom: first }: Claimed,
  about: {
    readonly recovery: RunRecovery;
    readonly loop: (trainer: Trainer, from: CheckpointRecord | undefined) => AsyncGenerator<E, R, void>;
    readonly totalSteps: number;
    readonly batchesPerEpoch: number;
  },
): AsyncGenerator<RunRecovers | E | ({ readonly type: "done" } & RunResult), R | RunResult, void> {
  const { recovery, loop, totalSteps, batchesPerEpoch } = about;
  const { service, signal } = options;
  const { maxAttempts } = recovery;
  let resumeFrom: Claimed["resumeFrom"] = first;
  let lost: { readonly reason: ModelLoss; readonly message: string; readonly model: string | undefined } | undefined;
  for (;;) {
    let trainer: Trainer | undefined;
    try {
      if (lost === undefined) trainer = await trainerFor(options, { run, resumeFrom });
      else {
        const newest = await newestTrainer({ run, service }, (path) => resumedFrom(options, path));
        resumeFrom = newest.resumeFrom;
        trainer = newest.trainer ?? (await trainerFor(options, { run, resumeFrom: undefined }));
        await run.removeCheckpoints(({ state_path: path }) => newest.gone.some((gone) => gone.state_path === path));
        const step = resumeFrom === undefined ? 0 : nextStepOf(resumeFrom, batchesPerEpoch);
        const { reason, message } = lost;
        const repeated = (await run.readMetrics()).filter((row) => row.step >= step).length;
        await run.appendRecovery({
          ...{ step, repeated_steps: repeated, reason, message, attempt: recovery.attempts },
          ...{ checkpoint: resumeFrom?.name ?? null, gone: newest.gone.map(({ name }) => name) },
          lost_model: lost.model ?? null,
        });
        const from = resumeFrom === undefined ? "its beginning" : `the checkpoint ${resumeFrom.name}`;
        const text = `The run goes back to ${from}: step ${step + 1} of ${totalSteps} comes next.`;
        const attempt = recovery.attempts;
        yield { type: "recovery", stage: "recovered", reason, message: text, attempt, maxAttempts, delayMs: 0 };
        lost = undefined;
      }
      return yield* recovery.observed(loop(recovery.checked(trainer), resumeFrom), trainer);
    } catch (error) {
      // Any failure while the run recovers leads to the next attempt.
      const reason: ModelLoss | undefined = lost?.reason ?? (await recovery.reasonOf(error, trainer));
      if (reason === undefined || recovery.isExhausted) throw error;
      const model: string | undefined = trainer?.modelId ?? lost?.model;
      lost = { reason, message: error instanceof Error ? error.message : String(error), model };
      const delayMs = recovery.next();
      const message = `The server has lost the model (${reason}): ${lost.message}`;
      if (signal?.aborted !== true) {
        yield { type: "recovery", stage: "lost", reason, message, attempt: recovery.attempts, maxAttempts, delayMs };
        await recovery.clock.sleep(delayMs, signal).catch(() => {});
      }
      if (!signal?.aborted) continue;
      const last = await run.lastCheckpoint();
      const nextStep = last === undefined ? 0 : nextStepOf(last, batchesPerEpoch);
      const result = { nextStep, totalSteps, stopped: "interrupted", ...omitUndefined({ checkpoint: last }) };
      return yield* nothingToDo(run, result);
    }
  }
}

/** Ends a call that trains nothing, with a `done` event like any other. */
async function* nothingToDo<R extends object>(
  run: RunFolder,
  result: R,
): AsyncGenerator<{ readonly type: "done" } & R, R, void> {
  await run.close();
  yield { type: "done", ...result };
  return result;
}

/** Settings of a supervised run that determine its results, by the official cookbook's names where it has them. */
function supervisedSettings(options: SupervisedRunOptions): Record<string, unknown> {
  const { data, adam, ttlSeconds } = options;
  return {
    learning_rate: options.learningRate,
    lr_schedule: options.schedule ?? "linear",
    warmup_steps: options.warmupSteps ?? 0,
    num_epochs: options.epochs ?? 1,
    batch_size: options.batchSize ?? 8,
    max_steps: options.maxSteps ?? null,
    eval_every: options.evalEvery ?? 10,
    save_every: options.saveEvery ?? 20,
    ...omitUndefined({ ttl_seconds: ttlSeconds, adam }),
    ...options.settings,
    ...omitUndefined({ reduction: data.reduction }),
    data_digest: data.digest,
  };
}

/** Options of {@link runPolicyGradient}: those of the loop, without the trainer and the run folder, which it makes. */
export interface PolicyGradientRunOptions<P extends Problem>
  extends RunOptions,
    Omit<PolicyGradientOptions<P>, "trainer" | "run" | "resumeFrom" | "signal" | "seed"> {
  /** Further settings for `config.json`, which a resumed run must agree with: what the reward depends on, for example. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/**
 * Trains on rewards, recorded in a folder: called again after an interruption it resumes where the run stopped. The interval of
 * saving may change from call to call, and the number of steps may grow.
 *
 * @throws {@link DataError} when the folder holds a run with other settings or problems, or another process writes there.
 *
 * @example
 * ```ts
 * const options = { service, folder: "runs/rl", baseModel, problems, reward, steps: 20, learningRate: 1e-4, saveEvery: 5 };
 * for await (const event of runPolicyGradient(options)) {
 *   if (event.type === "step") console.log(event.step, event.metrics["env/all/reward/total"]);
 * }
 * ```
 */
export async function* runPolicyGradient<P extends Problem>(
  options: PolicyGradientRunOptions<P>,
): AsyncGenerator<RunStarts | RunRecovers | PolicyGradientEvent<P>, PolicyGradientResult, void> {
  checkOptions("runPolicyGradient", options, policyGradientRunNames);
  const { steps: totalSteps, problems, reward, learningRate } = options;
  return yield* runLoop(options, {
    settings: policySettings(options),
    claim: { changeable: ["save_every"], growing: ["steps"] },
    totalSteps,
    adam: options.adam ?? {},
    train: (opened) => {
      const loop = only<PolicyGradientOptions<P>>(options, policyGradientNames);
      return trainPolicyGradient({ ...loop, problems, reward, steps: totalSteps, learningRate, ...opened });
    },
  });
}

function policySettings<P extends Problem>(options: PolicyGradientRunOptions<P>): Record<string, unknown> {
  const { samplingParams, adam, schedule = "constant" } = options;
  const problems = createHash("sha256");
  for (const { prompt } of options.problems) problems.update(`${prompt.join(",")}\n`);
  return {
    steps: options.steps,
    learning_rate: options.learningRate,
    lr_schedule: schedule,
    group_size: options.groupSize ?? 8,
    groups_per_batch: options.groupsPerStep ?? 8,
    save_every: options.saveEvery ?? 0,
    ...omitUndefined({ sampling_params: samplingParams, adam }),
    ...options.settings,
    data_digest: problems.digest("hex").slice(0, 16),
  };
}
