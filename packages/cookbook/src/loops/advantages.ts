/** From rewards to advantages: within a group, and on the tokens of its trajectories. */
import { type PolicyTokens, type TrajectoryGroup, trajectoryTokens } from "../environments/index.ts";

/** How rewards become advantages: minus the group's mean, and divided by its standard deviation where `normalised`. */
export type AdvantageKind = "centred" | "normalised";
export const advantageKinds: readonly AdvantageKind[] = ["centred", "normalised"];

/**
 * Advantages within one group; exactly 0 where all rewards are equal.
 *
 * @example
 * ```ts
 * advantagesOf([1, 0, 0, 1]); // [0.5, -0.5, -0.5, 0.5]
 * ```
 */
export function advantagesOf(rewards: readonly number[], kind: AdvantageKind = "centred"): number[] {
  // Compared, not subtracted: the mean of equal rewards is not always bit-identical to their value.
  if (rewards.every((reward) => reward === rewards[0])) return rewards.map(() => 0);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const centred = rewards.map((reward) => reward - mean);
  if (kind === "centred") return centred;
  const deviation = Math.sqrt(centred.reduce((sum, one) => sum + one * one, 0) / rewards.length);
  return centred.map((one) => one / (deviation + 1e-6));
}

/**
 * The sequences of a group. Rewards are compared among trajectories of the same player: the one who begins a game, or has the better
 * cards, wins more often with any policy, and would otherwise get a positive advantage for it.
 *
 * @param options.keepEqual - keeps groups whose rewards are all equal, for which the result is otherwise empty: there a KL penalty makes the
 *   advantages differ.
 */
export function groupTokens(
  group: TrajectoryGroup,
  options: { readonly advantages?: AdvantageKind; readonly keepEqual?: boolean } = {},
): PolicyTokens[] {
  const { trajectories, totalRewards } = group;
  const all: number[] = totalRewards.map(() => 0);
  for (const player of new Set(trajectories.map((trajectory) => trajectory.player))) {
    const own = trajectories.flatMap((trajectory, at) => (trajectory.player === player ? [at] : []));
    const rewards = own.map((at) => totalRewards[at] as number);
    advantagesOf(rewards, options.advantages).forEach((advantage, i) => {
      all[own[i] as number] = advantage;
    });
  }
  if (!options.keepEqual && all.every((advantage) => advantage === 0)) return [];
  return trajectories.flatMap((trajectory, at) => trajectoryTokens(trajectory, all[at] as number));
}
