/** Learning from pairs of answers, one better than the other: DPO, and reward models by Bradley-Terry. One custom pass and one optimizer step each. */
import { createHash } from "node:crypto";
import { type CustomLossFn, InvalidInputError, ModelInput } from "@tinklet/sdk";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import type { Scorer } from "../clients.ts";
import { BatchedDataset } from "../data/dataset.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { EpisodeLimit } from "../environments/episode-limit.ts";
import { only, runNames, without } from "../option-names.ts";
import { type RunOptions, type RunStarts, runLoop } from "../runs/open-run.ts";
import { type RecordedEvent, type RecordedOptions, recordedNames, recordedSteps } from "../runs/recorded-steps.ts";
import type { RunRecovers } from "../runs/recovery.ts";
import type { RunResult } from "../runs/run-result.ts";
import { type AdamOptions, adamParams } from "./adam.ts";
import { inputTokens } from "./nll.ts";
import { bradleyTerry, dpo } from "./preference-losses.ts";
import { type Schedule, scheduleFactor } from "./schedule.ts";
import { repeatable } from "./supervised.ts";

/** Two answers to one prompt; the weights of each mark the tokens that are compared. */
export interface PreferencePair {
  readonly chosen: SupervisedDatum;
  readonly rejected: SupervisedDatum;
}

/** The loss over pairs. */
export type PreferenceMethod =
  | {
      readonly kind: "dpo";
      /** The weights that the policy is compared with: the same for the whole run, for example a sampling client of the base model. */
      readonly reference: Scorer;
      /** @defaultValue 0.1 */
      readonly beta?: number;
    }
  | { readonly kind: "bradley_terry"; readonly temperature?: number };

/** Settings of preference learning. */
export interface PreferenceSettings {
  readonly pairs: readonly PreferencePair[];
  readonly method: PreferenceMethod;
  readonly learningRate: number;
  /** Pairs per step. @defaultValue 8 */
  readonly batchSize?: number;
  /** @defaultValue 1 */
  readonly epochs?: number;
  /** Ends sooner than the epochs would. */
  readonly maxSteps?: number | undefined;
  /** Learning-rate schedule. @defaultValue "linear" */
  readonly schedule?: Schedule;
  /** Optimizer settings besides the learning rate: betas, epsilon, weight decay, gradient clipping. @defaultValue betas 0.9 and 0.95, eps 1e-8 */
  readonly adam?: AdamOptions;
  /** Random seed of the order. @defaultValue 0 */
  readonly seed?: number;
}

/** Options of {@link trainPreference}. */
export interface PreferenceOptions extends PreferenceSettings, RecordedOptions {}

const preferenceNames: OptionNames<PreferenceOptions> = {
  ...recordedNames,
  pairs: true,
  method: true,
  learningRate: true,
  batchSize: true,
  epochs: true,
  maxSteps: true,
  schedule: true,
  adam: true,
  seed: true,
};

/** How many steps preference learning has. */
export function preferenceSteps({ pairs, batchSize = 8, epochs = 1, maxSteps }: PreferenceSettings): number {
  return Math.min(Math.ceil(pairs.length / batchSize) * epochs, maxSteps ?? Number.POSITIVE_INFINITY);
}

/**
 * Trains on pairs of answers. Iterate to run it; the last event, `done`, says how it ended.
 *
 * @throws InvalidInputError naming an option.
 *
 * @example
 * ```ts
 * const method = { kind: "dpo", reference: await service.createSamplingClient({ baseModel }) } as const;
 * for await (const event of trainPreference({ trainer, pairs, method, learningRate: 1e-5 })) {
 *   if (event.type === "step") console.log(event.metrics["dpo/accuracy"]);
 * }
 * ```
 */
export async function* trainPreference(options: PreferenceOptions): AsyncGenerator<RecordedEvent, RunResult, void> {
  checkOptions("trainPreference", options, preferenceNames);
  const { trainer, pairs, method, batchSize = 8, seed = 0, schedule = "linear" } = options;
  if (pairs.length === 0) throw new InvalidInputError("pairs", "must not be empty");
  const kind: unknown = method?.kind;
  if (kind !== "dpo" && kind !== "bradley_terry")
    throw new InvalidInputError("method.kind", `must be dpo or bradley_terry, got ${String(kind)}`);
  const { forwardBackwardCustom, optimStep } = trainer;
  if (forwardBackwardCustom === undefined || optimStep === undefined)
    throw new InvalidInputError("trainer", "must have forwardBackwardCustom and optimStep, as a TrainingClient has");
  const dataset = new BatchedDataset(pairs, { batchSize, seed });
  const totalSteps = preferenceSteps(options);
  return yield* recordedSteps(options, {
    totalSteps,
    async take(step, spend) {
      const epoch = Math.floor(step / dataset.batchesPerEpoch);
      const batch = dataset.batch(epoch, step % dataset.batchesPerEpoch);
      const data = batch.flatMap(({ chosen, rejected }) => [chosen, rejected]);
      const tokens = inputTokens(data);
      await spend({ train: tokens, evaluate: tokens * (method.kind === "dpo" ? 2 : 1) });
      const lossFn = await lossOf(method, data);
      const learningRate = options.learningRate * scheduleFactor(schedule, { step, totalSteps });
      // Both are on the queue before either is awaited.
      const passed = forwardBackwardCustom.call(trainer, data, lossFn);
      const stepped = optimStep.call(trainer, adamParams(options.adam, learningRate));
      const [output, optimized] = await Promise.all([passed, stepped]);
      const metrics = repeatable({ ...output.metrics, ...optimized.metrics });
      return {
        metrics: {
          epoch,
          learning_rate: learningRate,
          loss: output.loss ?? 0,
          ...metrics,
          num_pairs: batch.length,
          num_tokens: tokens,
        },
        detail: {},
      };
    },
  });
}

async function lossOf(method: PreferenceMethod, data: readonly SupervisedDatum[]): Promise<CustomLossFn> {
  if (method.kind === "bradley_terry") return bradleyTerry(omitUndefined({ temperature: method.temperature }));
  return dpo({ reference: await scoreAnswers(method.reference, data), ...omitUndefined({ beta: method.beta }) });
}

/**
 * The log-probability of each datum's marked tokens under fixed weights.
 *
 * @throws InvalidInputError when the scorer leaves out a token.
 */
export async function scoreAnswers(scorer: Scorer, data: readonly SupervisedDatum[]): Promise<number[]> {
  const limit = new EpisodeLimit(128);
  return Promise.all(
    data.map(({ modelInput, lossFnInputs }) =>
      limit.run(1, async () => {
        const targets = lossFnInputs.target_tokens.values;
        const tokens = [...modelInput.toInts(), Number(targets[targets.length - 1])];
        const logprobs = await scorer.computeLogprobs(ModelInput.fromInts(tokens));
        return Array.from(lossFnInputs.weights.values, Number).reduce((sum, weight, i) => {
          if (weight === 0) return sum;
          const logprob = logprobs[i + 1];
          if (typeof logprob !== "number")
            throw new InvalidInputError("reference", `gave no log-probability for token ${i + 1} of ${tokens.length}`);
          return sum + weight * logprob;
        }, 0);
      }),
    ),
  );
}

/** Options of {@link runPreference}: those of the loop, without the trainer and the run folder, which it makes. */
export interface PreferenceRunOptions
  extends RunOptions,
    Omit<PreferenceOptions, "trainer" | "run" | "resumeFrom" | "signal" | "seed"> {
  /** Further settings for `config.json`, which a resumed run must agree with. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

const runOptionNames: OptionNames<PreferenceRunOptions> = {
  ...runNames,
  ...without(preferenceNames, ["trainer", "run", "resumeFrom"]),
  settings: true,
};

/**
 * Trains on pairs of answers, recorded in a folder: called again after an interruption it resumes where the run stopped.
 *
 * @throws {@link DataError} when the folder holds a run with other settings or pairs, or another process writes there.
 */
export async function* runPreference(
  options: PreferenceRunOptions,
): AsyncGenerator<RunStarts | RunRecovers | RecordedEvent, RunResult, void> {
  checkOptions("runPreference", options, runOptionNames);
  const { pairs, method, learningRate, beforeStep } = options;
  return yield* runLoop(options, {
    settings: settingsOf(options),
    claim: { changeable: ["save_every", "eval_every"], growing: ["num_epochs", "max_steps"] },
    totalSteps: preferenceSteps(options),
    beforeStep,
    adam: options.adam ?? {},
    train: (opened) => {
      const loop = only<PreferenceOptions>(options, preferenceNames);
      return trainPreference({ ...loop, pairs, method, learningRate, ...opened });
    },
  });
}

function settingsOf(options: PreferenceRunOptions): Record<string, unknown> {
  const { method, adam } = options;
  const digest = createHash("sha256");
  for (const { chosen, rejected } of options.pairs)
    for (const { modelInput, lossFnInputs } of [chosen, rejected])
      digest.update(`${modelInput.toInts().join(",")}|${Array.from(lossFnInputs.weights.values, Number).join(",")}\n`);
  return {
    learning_rate: options.learningRate,
    lr_schedule: options.schedule ?? "linear",
    num_epochs: options.epochs ?? 1,
    batch_size: options.batchSize ?? 8,
    max_steps: options.maxSteps ?? null,
    loss: method.kind,
    ...(method.kind === "dpo" ? { dpo_beta: method.beta ?? 0.1 } : { temperature: method.temperature ?? 1 }),
    save_every: options.saveEvery ?? 0,
    eval_every: options.evalEvery ?? 10,
    ...omitUndefined({ adam }),
    ...options.settings,
    data_digest: digest.digest("hex").slice(0, 16),
  };
}
