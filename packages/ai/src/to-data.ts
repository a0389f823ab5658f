/**
 * Converts trajectories and rewards to training data for policy-gradient losses. Checks groups, rewards and that each turn was sampled
 * from the model's own distribution; the cookbook builds the sequences.
 */
import { type AdvantageKind, advantagesOf, type PolicyDatum, toPolicyDatum, trajectoryTokens } from "@tinklet/cookbook";
import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { AgentTrajectory } from "./record.ts";

/** Options of {@link toData}. */
export interface ToDataOptions {
  /**
   * Number of consecutive trajectories that are attempts at the same task. Advantages are computed within these groups.
   * @defaultValue all trajectories form one group
   */
  readonly groupSize?: number;
  /** Rewards minus the mean of their group; `normalised`: also divided by its standard deviation. @defaultValue "centred" */
  readonly advantages?: AdvantageKind;
}
const optionNames: OptionNames<ToDataOptions> = { groupSize: true, advantages: true };

/**
 * Data for `importance_sampling` and `ppo`. Only sampled tokens are trained on; prompts and tool results have advantage 0. A turn whose
 * prompt extends the previous turn token by token is appended to the same datum, so a whole tool loop becomes one datum; any other prompt
 * starts a new one. Groups whose rewards are all equal give no data.
 *
 * @param rewards - one for each trajectory; higher is better
 *
 * @throws {@link InvalidInputError} if the number of rewards or the group size does not match the trajectories, or if a turn was sampled
 * with another temperature than 1, with topK or topP, or with a format.
 *
 * @example
 * ```ts
 * const runs = Array.from({ length: 8 }, () => generateText({ model: samplerModel(sampler), tools, prompt: "What is 17 * 23?" }));
 * const trajectories = await Promise.all(runs.map((run) => record(run)));
 * const rewards = (await Promise.all(runs)).map(({ text }) => (text === "391" ? 1 : 0));
 * const data = toData(trajectories, rewards);
 * if (data.length > 0) await trainer.step(data, "importance_sampling", { learningRate: 1e-4 });
 * ```
 */
export function toData(
  trajectories: readonly AgentTrajectory[],
  rewards: readonly number[],
  options: ToDataOptions = {},
): PolicyDatum[] {
  checkOptions("toData", options, optionNames);
  const { groupSize = trajectories.length, advantages: kind = "centred" } = options;
  check(trajectories, rewards, groupSize);
  const data: PolicyDatum[] = [];
  for (let first = 0; first < trajectories.length; first += groupSize) {
    const advantages = advantagesOf(rewards.slice(first, first + groupSize), kind);
    if (advantages.every((advantage) => advantage === 0)) continue;
    for (const [at, advantage] of advantages.entries()) {
      for (const sequence of trajectoryTokens(trajectories[first + at]!, advantage)) data.push(toPolicyDatum(sequence));
    }
  }
  return data;
}

function check(trajectories: readonly AgentTrajectory[], rewards: readonly number[], groupSize: number): void {
  if (rewards.length !== trajectories.length) {
    throw new InvalidInputError(
      "rewards",
      `must have one reward per trajectory: ${trajectories.length}, got ${rewards.length}`,
    );
  }
  const notFinite = rewards.findIndex((reward) => !Number.isFinite(reward));
  if (notFinite >= 0)
    throw new InvalidInputError(`rewards[${notFinite}]`, `must be a finite number, got ${rewards[notFinite]}`);
  if (trajectories.length === 0) return;
  if (!Number.isInteger(groupSize) || groupSize < 2 || trajectories.length % groupSize !== 0) {
    const problem = `must be an integer above 1 that divides the number of trajectories (${trajectories.length}), got ${groupSize}`;
    throw new InvalidInputError("groupSize", problem, {
      hint: "Advantages are computed within a group: sample at least two trajectories per task.",
    });
  }
  for (const [at, { samplers }] of trajectories.entries()) {
    const shaped = samplers.find(
      ({ temperature, topK, topP, constrained }) => temperature !== 1 || topK > 0 || topP !== 1 || constrained,
    );
    if (shaped === undefined) continue;
    throw new InvalidInputError(
      `trajectories[${at}]`,
      "must be sampled with temperature 1, without topK, topP and format",
      {
        hint: "The recorded log-probs do not include these settings, so the policy gradient would be biased.",
      },
    );
  }
}
