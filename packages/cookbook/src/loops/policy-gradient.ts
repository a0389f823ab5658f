/**
 * Policy gradient over prompts with a reward: the shortest way into reinforcement learning. Each prompt is an environment of one
 * turn; `reinforcement.ts` does the rest. A reward that fails ends the run.
 */

import { InvalidInputError, type SamplingParamsInput } from "@tinklet/sdk";
import { checkOptions } from "@tinklet/wire/options";
import type { Trainer } from "../clients.ts";
import type { PromptTokens } from "../cost/prompt-tokens.ts";
import type { Action, EnvGroup, TrajectoryGroup } from "../environments/index.ts";
import { only, policyGradientNames } from "../option-names.ts";
import type { CheckpointRecord, MetricsRow, RunFolder } from "../runs/run-folder.ts";
import type { RunResult } from "../runs/run-result.ts";
import type { AdamOptions } from "./adam.ts";
import { advantagesOf } from "./advantages.ts";
import { type ReinforcementOptions, reinforcementNames, trainReinforcement } from "./reinforcement.ts";
import type { Schedule } from "./schedule.ts";

/** A prompt whose sampled answers are rewarded. Further fields are passed on to the reward function. */
export interface Problem {
  /** Token ids of the prompt. */
  readonly prompt: readonly number[];
}

/** One sampled answer. */
export type Answer = Action;

/** An answer with its reward and its advantage over its group. */
export interface ScoredAnswer extends Answer {
  readonly reward: number;
  /** The reward minus the mean of the group; exactly 0 where all rewards of the group are equal. */
  readonly advantage: number;
}

/** Options of {@link trainPolicyGradient}. */
export interface PolicyGradientOptions<P extends Problem> {
  readonly trainer: Trainer;
  readonly problems: readonly P[];
  /** The reward function: higher is better. Rewards are centred within each group. */
  readonly reward: (answer: Answer, problem: P) => number | Promise<number>;
  readonly steps: number;
  readonly learningRate: number;
  /** Answers per problem. @defaultValue 8 */
  readonly groupSize?: number;
  /** Problems per step. @defaultValue 8 */
  readonly groupsPerStep?: number;
  /** Temperature must stay at 1: log-probabilities are those of the untempered distribution. */
  readonly samplingParams?: Omit<SamplingParamsInput, "temperature" | "seed">;
  /** Learning-rate schedule. @defaultValue "constant" */
  readonly schedule?: Schedule;
  /** Optimizer settings besides the learning rate: betas, epsilon, weight decay, gradient clipping. @defaultValue betas 0.9 and 0.95, eps 1e-8 */
  readonly adam?: AdamOptions;
  /** @defaultValue 0 */
  readonly seed?: number;
  readonly run?: RunFolder;
  /** Save after every so many steps. 0: only at the end. @defaultValue 0 */
  readonly saveEvery?: number;
  /** The checkpoint that the trainer was made from, when resuming: its step is the first. {@link openRun} finds it. */
  readonly resumeFrom?: CheckpointRecord | undefined;
  /**
   * Aborting it ends the run with a checkpoint of every step trained so far: answers that are being sampled are given up, a
   * training step that is under way is finished.
   */
  readonly signal?: AbortSignal;
}

/** Event: one training step has finished. */
export interface PolicyStepDone<P extends Problem> {
  readonly type: "step";
  readonly step: number;
  readonly totalSteps: number;
  readonly metrics: MetricsRow;
  readonly groups: readonly { readonly problem: P; readonly answers: readonly ScoredAnswer[] }[];
  /** Not in the metrics: a step that runs again may find another cache. */
  readonly prompts: PromptTokens;
}

/** Events of {@link trainPolicyGradient}. The last one is always `done`. */
export type PolicyGradientEvent<P extends Problem> =
  | PolicyStepDone<P>
  | { readonly type: "checkpoint"; readonly record: CheckpointRecord }
  | ({ readonly type: "done" } & PolicyGradientResult);

/** How the run ended. */
export type PolicyGradientResult = RunResult;

/**
 * Trains on rewards. Iterate to run it; the last event, `done`, says how it ended (and so does the generator's return value).
 *
 * @example
 * ```ts
 * const short = (answer: Answer) => -answer.tokens.length;
 * for await (const event of trainPolicyGradient({ trainer, problems, reward: short, steps: 20, learningRate: 1e-4 })) {
 *   if (event.type === "step") console.log(event.metrics["env/all/reward/total"]);
 * }
 * ```
 */
export async function* trainPolicyGradient<P extends Problem>(
  options: PolicyGradientOptions<P>,
): AsyncGenerator<PolicyGradientEvent<P>, PolicyGradientResult, void> {
  checkOptions("trainPolicyGradient", options, policyGradientNames);
  const { problems, reward, ...rest } = options;
  if (problems.length === 0) throw new InvalidInputError("problems", "must not be empty");
  const groups = new Map(problems.map((problem, at) => [`problem ${at}`, problem]));
  const environments = [...groups].map(([name, problem]) => promptGroup(name, problem, reward));
  const loop = only<ReinforcementOptions>(rest, reinforcementNames) as Omit<ReinforcementOptions, "environments">;
  const events = trainReinforcement({ ...loop, environments, maxTurns: 1, strategy: { onFailure: "fail" } });
  for (;;) {
    const { done, value } = await events.next();
    if (done) return value;
    if (value.type !== "step") yield value;
    else {
      const { type, step, totalSteps, metrics, prompts } = value;
      const scored = value.groups.map((group) => ({
        problem: groups.get(group.name) as P,
        answers: scoredAnswers(group),
      }));
      yield { type, step, totalSteps, metrics, groups: scored, prompts };
    }
  }
}

/** A prompt as environments of one turn. */
function promptGroup<P extends Problem>(
  name: string,
  problem: P,
  reward: (answer: Answer, problem: P) => number | Promise<number>,
): EnvGroup {
  const env = {
    initialObservation: () => ({ tokens: problem.prompt }),
    step: async (answer: Action) => {
      const value = await reward(answer, problem);
      if (!Number.isFinite(value)) throw new InvalidInputError("reward", `must return a finite number, got ${value}`);
      return { reward: value, done: true };
    },
  };
  return { name, makeEnvs: ({ size }) => new Array(size).fill(env) };
}

function scoredAnswers({ trajectories, totalRewards }: TrajectoryGroup): ScoredAnswer[] {
  const advantages = advantagesOf(totalRewards);
  return trajectories.map(({ transitions: [turn] }, at) => ({
    ...(turn?.action as Action),
    reward: totalRewards[at] as number,
    advantage: advantages[at] as number,
  }));
}
