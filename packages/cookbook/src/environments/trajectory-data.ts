/**
 * From trajectories to data for a policy loss. A prompt that continues the tokens of the last turn continues its datum, so that a
 * conversation becomes one; any other prompt begins a new one.
 */
import { Datum, ModelInput } from "@tinklet/sdk";
import type { Action, Trajectory, TrajectoryGroup } from "./env.ts";

/** How rewards become advantages: minus the group's mean, and divided by its standard deviation where `normalised`. */
export type AdvantageKind = "centred" | "normalised";
export const advantageKinds: readonly AdvantageKind[] = ["centred", "normalised"];

/** A datum for the losses that learn from advantages. */
export type PolicyDatum = Datum<"target_tokens" | "logprobs" | "advantages">;

/** The contents of a datum that is not built yet: advantages may still change. All lists but `tokens` are as long as the targets. */
export interface PolicyTokens {
  readonly tokens: readonly number[];
  readonly logprobs: number[];
  readonly advantages: number[];
  /** 1 where the token was sampled. */
  readonly mask: number[];
  /** The actions that the sampled tokens belong to, in order. */
  readonly actions: readonly Action[];
}

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

/** The token sequences of one trajectory with its advantage on every sampled token. */
export function trajectoryTokens(trajectory: Trajectory, advantage: number): PolicyTokens[] {
  const done: PolicyTokens[] = [];
  let tokens: number[] = [];
  let logprobs: number[] = [];
  let advantages: number[] = [];
  let mask: number[] = [];
  let actions: Action[] = [];
  const add = (more: readonly number[], own: { readonly logprobs: readonly number[] } | undefined) => {
    more.forEach((token, i) => {
      tokens.push(token);
      logprobs.push(own?.logprobs[i] ?? 0);
      advantages.push(own === undefined ? 0 : advantage);
      mask.push(own === undefined ? 0 : 1);
    });
  };
  const end = () => {
    // The first token is never a target.
    if (mask.includes(1))
      done.push({
        tokens,
        logprobs: logprobs.slice(1),
        advantages: advantages.slice(1),
        mask: mask.slice(1),
        actions,
      });
    tokens = [];
    actions = [];
    [logprobs, advantages, mask] = [[], [], []];
  };
  for (const { observation, action } of trajectory.transitions) {
    if (!continues(observation.tokens, tokens)) end();
    add(observation.tokens.slice(tokens.length), undefined);
    add(action.tokens, action);
    actions.push(action);
  }
  end();
  return done;
}

/** Whether a prompt begins with these tokens. */
export function continues(prompt: readonly number[], tokens: readonly number[]): boolean {
  return prompt.length >= tokens.length && tokens.every((token, i) => token === prompt[i]);
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

/** The datum of a sequence. */
export function toPolicyDatum({ tokens, logprobs, advantages }: PolicyTokens): PolicyDatum {
  return new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1), logprobs, advantages },
  });
}
