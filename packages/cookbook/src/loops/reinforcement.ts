/**
 * Reinforcement learning over environments: roll out groups, compare rewards within each group, and train on what was sampled. On-policy,
 * every step samples with the current weights; `rollouts-ahead.ts` has the rule for rollouts that begin before earlier steps are trained.
 * A failed environment costs its group and is recorded.
 */

import { InvalidInputError, type LossFnConfig, type SamplingParamsInput } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { TokenCounts } from "../cost/budget.ts";
import type { PromptTokens } from "../cost/prompt-tokens.ts";
import type { EnvGroup, EpisodeFailure, RolloutSettings, TrajectoryGroup } from "../environments/index.ts";
import { checkRollout, rolloutSettingNames } from "../environments/rollout.ts";
import {
  type RecordedEvent,
  type RecordedOptions,
  recordedNames,
  recordedSteps,
  type TakenStep,
} from "../runs/recorded-steps.ts";
import { rolloutMetrics, rolloutSummaries } from "../runs/rollout-records.ts";
import type { RunResult } from "../runs/run-result.ts";
import { type AdamOptions, adamParams } from "./adam.ts";
import { type AdvantageKind, advantageKinds } from "./advantages.ts";
import { distanceMetrics, type KlOptions } from "./kl-advantages.ts";
import { addingTrainer, type PolicyStep, trainedLogprobs, trainStep } from "./policy-step.ts";
import { RolloutsAhead, type StepRollouts } from "./rollouts-ahead.ts";
import { type Schedule, scheduleFactor } from "./schedule.ts";
import { repeatable } from "./supervised.ts";

/** Losses that learn from advantages. */
export type PolicyLoss = "importance_sampling" | "ppo" | "cispo" | "dro";
export const policyLosses: readonly PolicyLoss[] = ["importance_sampling", "ppo", "cispo", "dro"];

/** Settings of reinforcement learning. */
export interface ReinforcementSettings extends RolloutSettings {
  /** Groups to train on, in a new order in each pass; or a function that gives the groups of a step, always the same for the same step. */
  readonly environments: readonly EnvGroup[] | ((step: number) => readonly EnvGroup[]);
  readonly steps: number;
  readonly learningRate: number;
  /** Groups per step, where `environments` is a list. @defaultValue 8 */
  readonly groupsPerStep?: number;
  /** @defaultValue "importance_sampling" */
  readonly lossFn?: PolicyLoss;
  /** Settings of the loss, for example `{ clip_low_threshold: 0.8 }`. */
  readonly lossFnConfig?: LossFnConfig;
  /** @defaultValue "centred" */
  readonly advantages?: AdvantageKind;
  /** Keeps the policy near a reference. @defaultValue none */
  readonly kl?: KlOptions | undefined;
  /** Optimizer steps per step, each on its part of the data; later ones are off-policy by as much. @defaultValue 1 */
  readonly substeps?: number;
  /**
   * Passes per step: each trains on its part of the groups as soon as these have ended, while later ones are still being rolled out. The
   * gradients add up to those of the whole, and one optimizer step follows. @defaultValue 1
   */
  readonly microBatches?: number;
  /**
   * How many steps may be trained between the weights that answers are sampled with and those that learn from them. Above 0, that many later
   * steps are rolled out while one is trained; `optim/steps_off_policy` has the difference. Rollouts never begin beyond the next checkpoint
   * (`saveEvery`), so that a killed run resumes exactly; a run that was stopped between checkpoints samples again. @defaultValue 0
   */
  readonly maxStepsOffPolicy?: number;
  /** Learning-rate schedule. @defaultValue "constant" */
  readonly schedule?: Schedule;
  /** Optimizer settings besides the learning rate: betas, epsilon, weight decay, gradient clipping. @defaultValue betas 0.9 and 0.95, eps 1e-8 */
  readonly adam?: AdamOptions;
  /** @defaultValue 0 */
  readonly seed?: number;
}

/** Options of {@link trainReinforcement}. */
export interface ReinforcementOptions extends ReinforcementSettings, RecordedOptions {
  /** Called with each failure of an environment as it happens. */
  readonly onFailure?: (failure: EpisodeFailure) => void;
}

/** Details of a step of reinforcement learning. */
export interface ReinforcementDetail {
  readonly groups: readonly TrajectoryGroup[];
  /** Groups that could not be used, by their last failure. */
  readonly failed: readonly EpisodeFailure[];
  /** Prompt tokens, and how many came from the prefix cache. Not in the metrics, because a repeated step may find another cache. */
  readonly prompts: PromptTokens;
}
export type ReinforcementEvent = RecordedEvent<ReinforcementDetail>;

export const reinforcementNames: OptionNames<ReinforcementOptions> = {
  ...recordedNames,
  ...rolloutSettingNames,
  environments: true,
  steps: true,
  learningRate: true,
  groupsPerStep: true,
  lossFn: true,
  lossFnConfig: true,
  advantages: true,
  kl: true,
  substeps: true,
  microBatches: true,
  maxStepsOffPolicy: true,
  schedule: true,
  adam: true,
  seed: true,
  onFailure: true,
};

/** Steps in a row without a usable group after which a run ends: it would not learn anything. */
const emptySteps = 3;

/**
 * Trains on the rewards of environments. Iterate to run it; the last event, `done`, says how it ended.
 *
 * @throws InvalidInputError naming an option; the failure of an environment with the strategy `fail`, or when three steps in a
 *   row had no group that could be used.
 *
 * @example
 * ```ts
 * const environments = questions.map(({ question, right }) => problemEnv({ chat, tokenizer, question, check: (said) => said === right }));
 * for await (const event of trainReinforcement({ trainer, environments, steps: 20, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.metrics["env/all/reward/total"]);
 * }
 * ```
 */
export async function* trainReinforcement(
  options: ReinforcementOptions,
): AsyncGenerator<ReinforcementEvent, RunResult, void> {
  checkOptions("trainReinforcement", options, reinforcementNames);
  checkReinforcement(options);
  const { trainer, signal, steps: totalSteps, maxStepsOffPolicy: ahead = 0, microBatches = 1 } = options;
  if (microBatches > 1) addingTrainer(trainer);
  const rollouts = new RolloutsAhead(options);
  let empty = 0;
  const take = async (step: number, spend: (tokens: TokenCounts) => Promise<void>) => {
    try {
      const taken = await trainOn(options, step, await rollouts.of(step), spend);
      const { groups, failed } = taken.detail;
      empty = groups.length === 0 ? empty + 1 : 0;
      if (empty < emptySteps || failed[0] === undefined) return taken;
      const problem = `had no usable group in ${emptySteps} steps in a row: ${failed[0].group}: ${failed[0].message}`;
      throw new InvalidInputError("environments", problem);
    } catch (error) {
      // The SDK rejects with the signal's reason; other samplers may make an AbortError of their own.
      if (signal?.aborted && (error === signal.reason || (error as Error)?.name === "AbortError")) return undefined;
      throw error;
    }
  };
  try {
    return yield* recordedSteps(options, { totalSteps, ahead, take });
  } finally {
    await rollouts.close();
  }
}

/** @throws InvalidInputError naming the option. */
export function checkReinforcement(options: ReinforcementSettings): void {
  checkRollout(options);
  const { environments, groupSize = 8, samplingParams = {}, lossFn = "importance_sampling", substeps = 1 } = options;
  if (typeof environments !== "function" && !(Array.isArray(environments) && environments.length > 0))
    throw new InvalidInputError(
      "environments",
      "must be a list of groups that is not empty, or a function of the step",
    );
  if (groupSize < 2 && options.kl === undefined) {
    throw new InvalidInputError("groupSize", `must be an integer above 1, got ${groupSize}`, {
      hint: "Rewards are compared within a group; a single answer has nothing to be compared with.",
    });
  }
  if (!policyLosses.includes(lossFn))
    throw new InvalidInputError("lossFn", `must be one of ${policyLosses.join(", ")}, got ${String(lossFn)}`);
  if (options.advantages !== undefined && !advantageKinds.includes(options.advantages))
    throw new InvalidInputError("advantages", `must be centred or normalised, got ${String(options.advantages)}`);
  if (!Number.isInteger(substeps) || substeps < 1)
    throw new InvalidInputError("substeps", `must be an integer above 0, got ${substeps}`);
  checkParts(options);
  const { temperature = 1, topK = -1, topP = 1 } = samplingParams as SamplingParamsInput;
  if (temperature !== 1 || topK > 0 || topP !== 1) {
    throw new InvalidInputError("samplingParams", "must leave temperature, topK and topP at their defaults", {
      hint: "Sampled log-probabilities ignore them, so training would be off-policy without a warning.",
    });
  }
}

function checkParts({ microBatches = 1, maxStepsOffPolicy = 0, substeps = 1, kl }: ReinforcementSettings): void {
  if (!Number.isInteger(maxStepsOffPolicy) || maxStepsOffPolicy < 0)
    throw new InvalidInputError("maxStepsOffPolicy", `must be an integer from 0, got ${maxStepsOffPolicy}`);
  if (!Number.isInteger(microBatches) || microBatches < 1)
    throw new InvalidInputError("microBatches", `must be an integer above 0, got ${microBatches}`);
  if (microBatches === 1) return;
  if (substeps > 1) throw new InvalidInputError("microBatches", "cannot be combined with substeps");
  if (kl !== undefined && kl.centred !== false)
    throw new InvalidInputError("microBatches", "cannot be combined with a centred kl", {
      hint: "The mean is over the whole batch, which is unknown while groups are rolled out. Set kl.centred to false.",
    });
}

async function trainOn(
  options: ReinforcementOptions,
  step: number,
  rollouts: StepRollouts,
  spend: (tokens: TokenCounts) => Promise<void>,
): Promise<TakenStep<ReinforcementDetail>> {
  const { run, kl, schedule = "constant", maxStepsOffPolicy = 0 } = options;
  const learningRate = options.learningRate * scheduleFactor(schedule, { step, totalSteps: options.steps });
  const trained = await trainStep(options, rollouts, { adam: adamParams(options.adam, learningRate), spend });
  const { groups, failed } = await rollouts.all;
  for (const { group, env, kind, message } of rollouts.failures)
    await run?.appendFailure({ step, group, env, kind, message });
  const { sampledAt } = rollouts;
  await run?.writeRollouts(step, rolloutSummaries(groups, { step, sampledAt, trained: trainedLogprobs(trained) }));
  return {
    metrics: {
      learning_rate: learningRate,
      ...repeatable(trained.metrics),
      ...policyMetrics(trained),
      ...distanceMetrics(kl?.centred === false ? "teacher_kl" : "kl_policy_base", trained.distances),
      ...(maxStepsOffPolicy > 0 ? { "optim/steps_off_policy": step - sampledAt } : {}),
      ...rolloutMetrics(groups, failed),
    },
    detail: { groups, failed, prompts: rollouts.prompts },
  };
}

/** How far the trainer's log-probabilities are from the sampler's, on the first part; the official cookbook's names. */
function policyMetrics({ first }: PolicyStep): Record<string, number> {
  let [count, kl, squares, entropy] = [0, 0, 0, 0];
  first?.sequences.forEach(({ logprobs, mask }, at) => {
    const now = first.output.lossFnOutputs[at]?.["logprobs"]?.values ?? [];
    mask.forEach((own, i) => {
      if (own === 0 || now[i] === undefined) return;
      const difference = (logprobs[i] as number) - Number(now[i]);
      count += 1;
      kl += difference;
      squares += difference ** 2 / 2;
      entropy -= logprobs[i] as number;
    });
  });
  if (count === 0) return {};
  return {
    "optim/kl_sample_train_v1": kl / count,
    "optim/kl_sample_train_v2": squares / count,
    "optim/entropy": entropy / count,
  };
}
