/**
 * The supervised loop. One step is submitted ahead of the one that is awaited. Calls of a training client take effect in
 * order, so a save or an evaluation submitted right after a step has exactly that step's weights.
 */

import { checkOptions, omitUndefined } from "@tinklet/wire/options";
import type { Trainer } from "../clients.ts";
import { type BeforeStep, openSpending } from "../cost/budget.ts";
import type { SupervisedDatum } from "../data/render.ts";
import { supervisedNames } from "../option-names.ts";
import { batchOf, evaluatesBefore, type Plan, totalStepsOf } from "../runs/plan.ts";
import { recordedSteps, type TakenStep } from "../runs/recorded-steps.ts";
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
  /**
   * Whether the weights with the lowest loss on the held-out data are saved for sampling as `best-STEP`, without expiry. The step after an
   * evaluation is then submitted when the evaluation has ended. @defaultValue false
   */
  readonly keepBest?: boolean;
  /** Deletes saved weights that are no longer the best; {@link runSupervised} has one. @defaultValue they stay */
  readonly forget?: (path: string) => Promise<void>;
  /** How long checkpoints other than the last and the best are kept, in seconds. @defaultValue 7 days */
  readonly ttlSeconds?: number;
  /** The checkpoint that the trainer was made from, when resuming: its step is the first. {@link openRun} finds it. */
  readonly resumeFrom?: CheckpointRecord | undefined;
  /** Aborting it ends the run after the steps that are under way, with a checkpoint. */
  readonly signal?: AbortSignal;
  /** Called before each step is submitted; a string ends the run like an abort and is the reason. {@link budget} makes one. */
  readonly beforeStep?: BeforeStep | undefined;
  /** Called after each step; a string ends the run like an abort and is the reason. */
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
  checkOptions("trainSupervised", options, supervisedNames);
  const { run, trainer, dataset, resumeFrom, testData = [], evalEvery = 10, saveEvery = 20 } = options;
  const totalSteps = totalStepsOf(options);
  if (resumeFrom === undefined && totalSteps > 0) await run?.writeData(shownData(batchOf(options, 0)));
  const evaluates = evalEvery > 0 && testData.length > 0;
  let testNll: number | undefined;
  let submittedTokens = Number(resumeFrom?.["elapsed_tokens"] ?? 0);
  return yield* recordedSteps<StepDetail, SupervisedResult>(
    { ...options, saveEvery, keepBest: undefined },
    {
      totalSteps,
      depth: 2, // the server has its next step while this process records the last one
      batchesPerEpoch: dataset.batchesPerEpoch,
      spending: await openSpending(options, run),
      isStoppedRunSampled: false,
      evaluation:
        options.keepBest !== true || !evaluates
          ? undefined
          : {
              figures: async () => {
                testNll = await evaluateNll(trainer, testData);
                return { nll: testNll };
              },
              best: { name: "nll", better: "lower" },
              keepsUntrained: false,
              forget: options.forget,
            },
      take(step) {
        const data = batchOf(options, step);
        submittedTokens += inputTokens(data);
        return takeStep(options, { step, totalSteps, data, elapsedTokens: submittedTokens });
      },
      place: (nextStep) => ({
        batch: nextStep % dataset.batchesPerEpoch,
        epoch: Math.floor(nextStep / dataset.batchesPerEpoch),
        elapsed_tokens: submittedTokens,
      }),
      async end() {
        if (!evaluates) return undefined;
        testNll = options.keepBest === true ? testNll : await evaluateNll(trainer, testData);
        return testNll === undefined ? undefined : { metrics: { "test/nll": testNll }, result: { testNll } };
      },
    },
  );
}

type StepDetail = Pick<StepDone, "elapsedTokens">;

/** Limits of `train_data.jsonl`: examples and tokens. */
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

/** Submits one step; everything is submitted before the first `await`. */
async function takeStep(
  options: SupervisedOptions,
  at: {
    readonly step: number;
    readonly totalSteps: number;
    readonly data: readonly SupervisedDatum[];
    readonly elapsedTokens: number;
  },
): Promise<TakenStep<StepDetail>> {
  const { trainer, dataset, testData = [], schedule = "linear", warmupSteps } = options;
  const { step, totalSteps, data, elapsedTokens } = at;
  const learningRate = options.learningRate * scheduleFactor(schedule, { step, totalSteps, warmupSteps });
  const evaluated =
    options.keepBest !== true && evaluatesBefore(options, step) ? settled(evaluateNll(trainer, testData)) : undefined;
  const trained = settled(trainer.step(data, "cross_entropy", adamParams(options.adam, learningRate)));
  const testNll = await evaluated;
  const { output, metrics } = await trained;
  return {
    metrics: {
      epoch: Math.floor(step / dataset.batchesPerEpoch),
      learning_rate: learningRate,
      ...repeatable(metrics),
      num_sequences: data.length,
      num_tokens: inputTokens(data),
      num_loss_tokens: lossTokens(data),
      train_mean_nll: meanNll(output, data),
      ...omitUndefined({ "test/nll": testNll }),
    },
    detail: { elapsedTokens },
  };
}

/** The metrics that a repeated run would reproduce: without times. */
export function repeatable(metrics: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => !/^time\/|_(ms|seconds)(:|$)/.test(name)));
}
