/**
 * Reinforcement learning over environments: roll out groups with the weights as they are, compare rewards within each group, and
 * train on what was sampled. On-policy: every step samples afresh. Failures of environments cost their group and are recorded.
 */
import { type AdamParamsInput, InvalidInputError, type LossFnConfig, type SamplingParamsInput } from "tinklet";
import { checkOptions, given, type OptionNames } from "tinklet/wire";
import type { TokenCounts } from "./budget.ts";
import type { TrainedStep } from "./clients.ts";
import {
  type AdvantageKind,
  advantageKinds,
  type EnvGroup,
  type EpisodeFailure,
  groupTokens,
  type PolicyTokens,
  type RolloutSettings,
  rolloutGroups,
  type TrajectoryGroup,
  toPolicyDatum,
} from "./environments/index.ts";
import { checkRollout, rolloutSettingNames } from "./environments/rollout.ts";
import { addKlAdvantages, type KlOptions } from "./kl-advantages.ts";
import { countingPrompts, type PromptTokens } from "./prompt-tokens.ts";
import { derivedSeed, permutation } from "./random.ts";
import {
  type RecordedEvent,
  type RecordedOptions,
  recordedNames,
  recordedSteps,
  type TakenStep,
} from "./recorded-steps.ts";
import { rolloutMetrics, rolloutSummaries } from "./rollout-records.ts";
import type { RunResult } from "./run-result.ts";
import { type Schedule, scheduleFactor } from "./schedule.ts";
import { repeatable } from "./supervised.ts";

/** Losses that learn from advantages. */
export type PolicyLoss = "importance_sampling" | "ppo" | "cispo" | "dro";
export const policyLosses: readonly PolicyLoss[] = ["importance_sampling", "ppo", "cispo", "dro"];

/** What decides the steps of reinforcement learning. */
export interface ReinforcementSettings extends RolloutSettings {
  /** Groups to go through, in a new order each time round; or the groups of a step, which must be the same whenever it is asked. */
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
  /** Learning-rate schedule. @defaultValue "constant" */
  readonly schedule?: Schedule;
  /** Optimizer settings besides the learning rate. */
  readonly adam?: Omit<AdamParamsInput, "learningRate">;
  /** @defaultValue 0 */
  readonly seed?: number;
}

/** Options of {@link trainReinforcement}. */
export interface ReinforcementOptions extends ReinforcementSettings, RecordedOptions {
  /** Called with each failure of an environment as it happens. */
  readonly onFailure?: (failure: EpisodeFailure) => void;
}

/** What a step of reinforcement learning tells. */
export interface ReinforcementDetail {
  readonly groups: readonly TrajectoryGroup[];
  /** Groups that could not be used, by their last failure. */
  readonly failed: readonly EpisodeFailure[];
  /** Not in the metrics: a step that runs again may find another cache. */
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
  schedule: true,
  adam: true,
  seed: true,
  onFailure: true,
};

/** After so many steps in a row without a group that can be used, a run ends: it would learn nothing for ever. */
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
  let empty = 0;
  const take = async (step: number, spend: (tokens: TokenCounts) => Promise<void>) => {
    const rolled = await rollOut(options, step);
    if (rolled === undefined) return undefined;
    empty = rolled.groups.length === 0 ? empty + 1 : 0;
    const [failure] = rolled.failed;
    if (empty >= emptySteps && failure !== undefined)
      throw new InvalidInputError(
        "environments",
        `had no usable group in ${emptySteps} steps in a row: ${failure.group}: ${failure.message}`,
      );
    return trainOn(options, step, rolled, spend);
  };
  return yield* recordedSteps(options, { totalSteps: options.steps, take });
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
    throw new InvalidInputError("groupSize", `must be an integer above 1, and is ${groupSize}`, {
      hint: "Rewards are compared within a group; a single answer has nothing to be compared with.",
    });
  }
  if (!policyLosses.includes(lossFn))
    throw new InvalidInputError("lossFn", `must be one of ${policyLosses.join(", ")}, and is ${String(lossFn)}`);
  if (options.advantages !== undefined && !advantageKinds.includes(options.advantages))
    throw new InvalidInputError("advantages", `must be centred or normalised, and is ${String(options.advantages)}`);
  if (!Number.isInteger(substeps) || substeps < 1)
    throw new InvalidInputError("substeps", `must be an integer above 0, and is ${substeps}`);
  const { temperature = 1, topK = -1, topP = 1 } = samplingParams as SamplingParamsInput;
  if (temperature !== 1 || topK > 0 || topP !== 1) {
    throw new InvalidInputError("samplingParams", "must leave temperature, topK and topP at their defaults", {
      hint: "Sampled log-probabilities ignore them, so training would be off-policy without anybody noticing.",
    });
  }
}

/** The rollouts of a step; undefined when the signal ended them. */
async function rollOut(options: ReinforcementOptions, step: number): Promise<ReinforcementDetail | undefined> {
  const { trainer, run, signal, seed = 0, onFailure } = options;
  const { sampler, prompts } = countingPrompts(await trainer.saveWeightsAndGetSamplingClient());
  const failures: EpisodeFailure[] = [];
  try {
    const rolled = await rolloutGroups(groupsOf(options, step), {
      ...(Object.fromEntries(
        Object.entries(options).filter(([name]) => Object.hasOwn(rolloutSettingNames, name)),
      ) as RolloutSettings),
      sampler,
      seed: derivedSeed(seed, step),
      signal,
      onFailure: (failure) => {
        failures.push(failure);
        onFailure?.(failure);
      },
    });
    for (const { group, env, kind, message } of failures) await run?.appendFailure({ step, group, env, kind, message });
    return { ...rolled, prompts };
  } catch (error) {
    // The SDK rejects with the signal's reason; other samplers may make an AbortError of their own.
    if (signal?.aborted && (error === signal.reason || (error as Error)?.name === "AbortError")) return undefined;
    throw error;
  }
}

/** The groups of a step. A list is gone through in a new order each time round. */
function groupsOf(
  { environments, groupsPerStep = 8, seed = 0 }: ReinforcementSettings,
  step: number,
): readonly EnvGroup[] {
  if (typeof environments === "function") return environments(step);
  return Array.from({ length: groupsPerStep }, (_, index) => {
    const at = step * groupsPerStep + index;
    const order = permutation(environments.length, derivedSeed(seed, 0x9b, Math.floor(at / environments.length)));
    return environments[order[at % environments.length] as number] as EnvGroup;
  });
}

async function trainOn(
  options: ReinforcementOptions,
  step: number,
  { groups, failed, prompts }: ReinforcementDetail,
  spend: (tokens: TokenCounts) => Promise<void>,
): Promise<TakenStep<ReinforcementDetail>> {
  const {
    trainer,
    run,
    kl,
    lossFn = "importance_sampling",
    lossFnConfig,
    substeps = 1,
    schedule = "constant",
  } = options;
  const sequences = groups.flatMap((group) =>
    groupTokens(group, { keepEqual: kl !== undefined, ...given({ advantages: options.advantages }) }),
  );
  const divergence = kl === undefined || sequences.length === 0 ? undefined : await addKlAdvantages(sequences, kl);
  await spend(tokensOf(groups, sequences, kl !== undefined));
  const learningRate = options.learningRate * scheduleFactor(schedule, { step, totalSteps: options.steps });
  // With equal rewards in every group there is no gradient, and an empty batch is an error to most servers.
  const parts = chunks(sequences, substeps);
  const trained: TrainedStep[] = [];
  for (const part of parts)
    trained.push(
      await trainer.step(part.map(toPolicyDatum), lossFn, { ...options.adam, learningRate }, { lossFnConfig }),
    );
  await run?.writeRollouts(step, rolloutSummaries(step, groups));
  return {
    metrics: {
      learning_rate: learningRate,
      ...repeatable(trained.at(-1)?.metrics ?? {}),
      ...policyMetrics(parts[0] ?? [], trained[0]),
      ...given({ [kl?.centred === false ? "teacher_kl" : "kl_policy_base"]: divergence }),
      ...rolloutMetrics(groups, failed),
    },
    detail: { groups, failed, prompts },
  };
}

function tokensOf(
  groups: readonly TrajectoryGroup[],
  sequences: readonly PolicyTokens[],
  scored: boolean,
): TokenCounts {
  const turns = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ transitions }) => transitions));
  const count = (of: (turn: (typeof turns)[number]) => number) => turns.reduce((sum, turn) => sum + of(turn), 0);
  const train = sequences.reduce((sum, { tokens }) => sum + tokens.length - 1, 0);
  const prompts = count(({ observation }) => observation.tokens.length);
  return { train, evaluate: prompts + (scored ? train : 0), sample: count(({ action }) => action.tokens.length) };
}

function chunks<T>(all: readonly T[], count: number): T[][] {
  const size = Math.max(1, Math.ceil(all.length / count));
  return Array.from({ length: Math.ceil(all.length / size) }, (_, at) => all.slice(at * size, (at + 1) * size));
}

/** How far the trainer's log-probabilities are from the sampler's, on the first part; the official cookbook's names. */
function policyMetrics(part: readonly PolicyTokens[], trained: TrainedStep | undefined): Record<string, number> {
  let [count, first, second, entropy] = [0, 0, 0, 0];
  part.forEach(({ logprobs, mask }, at) => {
    const now = trained?.output.lossFnOutputs[at]?.["logprobs"]?.values ?? [];
    mask.forEach((own, i) => {
      if (own === 0 || now[i] === undefined) return;
      const difference = (logprobs[i] as number) - Number(now[i]);
      count += 1;
      first += difference;
      second += difference ** 2 / 2;
      entropy -= logprobs[i] as number;
    });
  });
  if (count === 0) return {};
  return {
    "optim/kl_sample_train_v1": first / count,
    "optim/kl_sample_train_v2": second / count,
    "optim/entropy": entropy / count,
  };
}
