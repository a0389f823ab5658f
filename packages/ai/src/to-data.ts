/**
 * Trajectories and their rewards as data for the losses that learn from advantages. How sequences are put together is the cookbook's;
 * here is what must hold for it to be true: groups, rewards, and log-probs of the distribution that was drawn from.
 */
import { type AdvantageKind, advantagesOf, type PolicyDatum, toPolicyDatum, trajectoryTokens } from "@tinklet/cookbook";
import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { AgentTrajectory } from "./record.ts";

/** Options of {@link toData}. */
export interface ToDataOptions {
  /**
   * How many trajectories, one after the other, are attempts at the same task; their rewards are compared with each other.
   * @defaultValue all of them
   */
  readonly groupSize?: number;
  /** Rewards minus the mean of their group; `normalised`: also divided by its standard deviation. @defaultValue "centred" */
  readonly advantages?: AdvantageKind;
}
const optionNames: OptionNames<ToDataOptions> = { groupSize: true, advantages: true };

/**
 * Data for `importance_sampling` and `ppo`. Only sampled tokens are learned; prompts and tool results have the advantage 0. A prompt
 * that continues the turn before it continues its datum, so that a whole tool loop is one; any other begins a new one. Groups whose
 * rewards are all equal give none.
 *
 * @param rewards - one for each trajectory; higher is better
 *
 * @throws {@link InvalidInputError} where rewards or groups do not fit, or a turn was not drawn from the model's own distribution.
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
    throw new InvalidInputError("rewards", `are ${rewards.length}, and there are ${trajectories.length} trajectories`);
  }
  const notFinite = rewards.findIndex((reward) => !Number.isFinite(reward));
  if (notFinite >= 0)
    throw new InvalidInputError(`rewards[${notFinite}]`, `must be a finite number, and is ${rewards[notFinite]}`);
  if (trajectories.length === 0) return;
  if (!Number.isInteger(groupSize) || groupSize < 2 || trajectories.length % groupSize !== 0) {
    const problem = `must be an integer above 1 that divides ${trajectories.length}, the number of trajectories, and is ${groupSize}`;
    throw new InvalidInputError("groupSize", problem, {
      hint: "Rewards are compared within a group; a single attempt has nothing to be compared with.",
    });
  }
  for (const [at, { samplers }] of trajectories.entries()) {
    const shaped = samplers.find(
      ({ temperature, topK, topP, constrained }) => temperature !== 1 || topK > 0 || topP !== 1 || constrained,
    );
    if (shaped === undefined) continue;
    throw new InvalidInputError(
      `trajectories[${at}]`,
      "must be drawn with temperature 1, without topK, topP and schema",
      {
        hint: "Log-probs ignore them, so that training would be off-policy without anybody noticing.",
      },
    );
  }
}
