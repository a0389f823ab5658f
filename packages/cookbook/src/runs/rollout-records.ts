/** What is recorded of rollouts: figures by the official cookbook's names, and one line per trajectory in its format. */
import type { Action, EpisodeFailure, TrajectoryGroup } from "../environments/index.ts";

/** Figures of the groups of a step, all of them under `env/all/`, and per tag where a tag marks some groups only. */
export function rolloutMetrics(
  groups: readonly TrajectoryGroup[],
  failed: readonly EpisodeFailure[],
): Record<string, number> {
  const metrics: Record<string, number> = {};
  const tags = new Set(groups.flatMap((group) => group.tags));
  for (const tag of tags) {
    const own = groups.filter((group) => group.tags.includes(tag));
    if (own.length < groups.length) Object.assign(metrics, prefixed(`env/${tag}/`, groupMetrics(own)));
  }
  const retried = groups.reduce((sum, { failures }) => sum + failures.length, 0);
  return {
    ...metrics,
    ...prefixed("env/all/", groupMetrics(groups)),
    "env/all/failed_groups": failed.length,
    "env/all/failed_episodes": retried + failed.length,
  };
}

const prefixed = (prefix: string, metrics: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(metrics).map(([name, value]) => [prefix + name, value]));

const meanOf = (values: readonly number[]) =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;

function groupMetrics(groups: readonly TrajectoryGroup[]): Record<string, number> {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const turns = trajectories.flatMap(({ transitions }) => transitions);
  const equal = groups.filter(({ totalRewards: [first, ...rest] }) => rest.every((reward) => reward === first));
  const good = equal.filter(({ totalRewards: [first = 0] }) => first >= 0.5);
  const [actionTokens, observationTokens] = [
    turns.map(({ action }) => action.tokens.length),
    turns.map(({ observation }) => observation.tokens.length),
  ];
  const share = (count: number) => (groups.length === 0 ? 0 : count / groups.length);
  return {
    "reward/total": meanOf(groups.flatMap(({ totalRewards }) => totalRewards)),
    ac_tokens_per_turn: meanOf(actionTokens),
    ob_tokens_per_turn: meanOf(observationTokens),
    frac_cut: meanOf(turns.map(({ action }) => Number(action.stopReason === "length"))),
    turns_per_episode: trajectories.length === 0 ? 0 : turns.length / trajectories.length,
    total_episodes: trajectories.length,
    total_turns: turns.length,
    "by_group/frac_mixed": share(groups.length - equal.length),
    "by_group/frac_all_good": share(good.length),
    "by_group/frac_all_bad": share(equal.length - good.length),
    ...averages([
      ...turns.map(({ metrics }) => metrics),
      ...groups.flatMap(({ groupRewards }) => groupRewards.map(({ metrics = {} }) => metrics)),
    ]),
  };
}

/** The mean of each figure over those that have it, in the order of their names. */
function averages(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const names = [...new Set(all.flatMap((metrics) => Object.keys(metrics)))].sort();
  return Object.fromEntries(
    names.map((name) => [name, meanOf(all.flatMap((metrics) => (metrics[name] === undefined ? [] : [metrics[name]])))]),
  );
}

/** Sampled tokens of one file that are recorded with their log-probabilities: about 400 kB. Later turns have only their figures. */
const recordedTokens = 20_000;

const rounded = (values: readonly number[]) => values.map((value) => Number(value.toFixed(4)));

/** The origin of the groups of a step, and their training. */
export interface RolloutOrigin {
  readonly step: number;
  /** The step whose weights sampled them. */
  readonly sampledAt: number;
  /** The trainer's log-probabilities of what was trained on. */
  readonly trained: ReadonlyMap<Action, readonly number[]>;
}

/**
 * One record per trajectory, in the official cookbook's format; `ac_tokens`, `ac_logprobs` (when sampled) and `ac_train_logprobs` (when trained
 * on) are ours, and readers of that format skip them.
 */
export function rolloutSummaries(
  groups: readonly TrajectoryGroup[],
  { step, sampledAt, trained }: RolloutOrigin,
): object[] {
  let room = recordedTokens;
  const sampled = (action: Action): object => {
    const { tokens, logprobs } = action;
    if (tokens.length > room) return {};
    room -= tokens.length;
    const now = trained.get(action);
    return {
      ac_tokens: tokens,
      ac_logprobs: rounded(logprobs),
      ...(now === undefined ? {} : { ac_train_logprobs: rounded(now) }),
    };
  };
  return groups.flatMap(({ trajectories, tags, groupRewards, totalRewards, name }, groupIndex) =>
    trajectories.map(({ transitions }, index) => ({
      schema_version: 1,
      split: "train",
      iteration: step,
      group_idx: groupIndex,
      group_name: name,
      traj_idx: index,
      tags,
      sampling_client_step: sampledAt,
      total_reward: totalRewards[index],
      final_reward: groupRewards[index]?.reward ?? 0,
      trajectory_metrics: groupRewards[index]?.metrics ?? {},
      steps: transitions.map(({ observation, action, reward, done, metrics, logs }, at) => ({
        step_idx: at,
        ob_len: observation.tokens.length,
        ac_len: action.tokens.length,
        reward,
        episode_done: done,
        metrics,
        logs,
        ...sampled(action),
      })),
      final_ob_len: 0,
    })),
  );
}
