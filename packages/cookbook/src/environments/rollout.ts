/**
 * Rolls out groups of environments against a sampler: concurrently up to a limit, each call of an environment with a time
 * limit, each failure handled by a strategy. A failed environment costs its group, never the run; a failed sampler is the
 * server's failure and is thrown.
 */
import { setMaxListeners } from "node:events";
import { type Clock, InvalidInputError, type SamplingParamsInput, systemClock } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { Sampler } from "../clients.ts";
import { derivedSeed } from "../random.ts";
import type {
  Action,
  Env,
  EnvGroup,
  EpisodeFailure,
  GroupReward,
  Observation,
  Trajectory,
  TrajectoryGroup,
} from "./env.ts";
import { actions, checkedObservation, checkReward, episode, invalid } from "./episode.ts";
import { EpisodeLimit } from "./episode-limit.ts";
import { EnvironmentError, type GuardOptions, guardedCall } from "./guarded-call.ts";

/**
 * What happens to a group in which an episode failed.
 *
 * - `fail`: the failure ends the run. For finding mistakes.
 * - `retry`: the whole group is rolled out again, up to `retries` times, with other seeds; then it is left out.
 * - `keep`: the episodes that finished are kept where there are at least `smallestGroup`; else the group is left out.
 */
export type RolloutStrategy =
  | { readonly onFailure: "fail" }
  | { readonly onFailure: "retry"; readonly retries: number }
  | { readonly onFailure: "keep"; readonly smallestGroup: number };

/** How groups are rolled out. */
export interface RolloutSettings {
  /** Environments per group. @defaultValue 8 */
  readonly groupSize?: number;
  /** Temperature must stay at 1 for training: log-probabilities are those of the untempered distribution. */
  readonly samplingParams?: Omit<SamplingParamsInput, "seed">;
  /** @defaultValue `{ onFailure: "retry", retries: 1 }` */
  readonly strategy?: RolloutStrategy;
  /** Time limit of one call of an environment, in milliseconds. @defaultValue 60,000 */
  readonly envTimeLimitMs?: number;
  /** Turns after which an episode is ended, with the rewards it has. @defaultValue 32 */
  readonly maxTurns?: number;
  /** Episodes at the same time; a group is never divided. @defaultValue 256 */
  readonly maxEpisodes?: number;
  readonly clock?: Clock;
}

/** Options of {@link rolloutGroups}. */
export interface RolloutOptions extends RolloutSettings {
  readonly sampler: Sampler;
  /** @defaultValue 0 */
  readonly seed?: number;
  readonly signal?: AbortSignal | undefined;
  /** Called with each failure as it happens. */
  readonly onFailure?: (failure: EpisodeFailure) => void;
}

const settingNames: OptionNames<RolloutSettings> = {
  groupSize: true,
  samplingParams: true,
  strategy: true,
  envTimeLimitMs: true,
  maxTurns: true,
  maxEpisodes: true,
  clock: true,
};
export const rolloutSettingNames = settingNames;
const optionNames: OptionNames<RolloutOptions> = {
  ...settingNames,
  sampler: true,
  seed: true,
  signal: true,
  onFailure: true,
};

/** The groups that were rolled out and those that failed. */
export interface Rollouts {
  /** The groups that can be used, in order. */
  readonly groups: readonly TrajectoryGroup[];
  /** The last failure of each other group. */
  readonly failed: readonly EpisodeFailure[];
}

/**
 * Rolls out groups.
 *
 * @throws {@link EnvironmentError} with the strategy `fail`; the sampler's errors; the signal's reason when aborted.
 *
 * @example
 * ```ts
 * const { groups, failed } = await rolloutGroups([problemEnv({ chat, question: "2 + 2?", check: (text) => text === "4" })], { sampler });
 * console.log(groups[0]?.totalRewards, failed);
 * ```
 */
export async function rolloutGroups(groups: readonly EnvGroup[], options: RolloutOptions): Promise<Rollouts> {
  checkOptions("rolloutGroups", options, optionNames);
  checkRollout(options);
  return startRollouts(groups, options, new EpisodeLimit(options.maxEpisodes ?? 256)).all;
}

/** Rollouts that were begun. */
export interface StartedRollouts {
  /** The result of each group, in order, so that the first ones can be used before the last ones end. A failure here also rejects `all`. */
  readonly each: readonly Promise<TrajectoryGroup | EpisodeFailure>[];
  readonly all: Promise<Rollouts>;
}

/** Begins to roll out groups. @param limit - shared by all rollouts of a run */
export function startRollouts(
  groups: readonly EnvGroup[],
  options: RolloutOptions,
  limit: EpisodeLimit,
): StartedRollouts {
  const { groupSize = 8, seed = 0 } = options;
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([stop.signal, options.signal]);
  setMaxListeners(0, signal); // one for each episode
  const each = groups.map((group, index) =>
    limit
      .run(groupSize, () => rolloutGroup(group, { ...options, signal }, derivedSeed(seed, index)))
      .catch((error: unknown) => {
        stop.abort(error); // the results of the other groups are not needed
        throw error;
      }),
  );
  const all = gathered(each, options.signal);
  for (const one of [...each, all]) one.catch(() => {}); // awaited later, or never
  return { each, all };
}

async function gathered(each: StartedRollouts["each"], signal: AbortSignal | undefined): Promise<Rollouts> {
  const settled = await Promise.allSettled(each);
  const errors = settled.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
  if (errors.length > 0) {
    const own = errors.find((error) => error instanceof EnvironmentError);
    throw own ?? (signal?.aborted ? signal.reason : errors[0]);
  }
  const done = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  return { groups: done.filter(isUsable), failed: done.filter((one): one is EpisodeFailure => !isUsable(one)) };
}

/** Whether a group gave trajectories, not a failure. */
export const isUsable = (one: TrajectoryGroup | EpisodeFailure): one is TrajectoryGroup => "trajectories" in one;

/** @throws InvalidInputError naming the option. */
export function checkRollout(options: RolloutSettings): void {
  const { groupSize = 8, maxTurns = 32, maxEpisodes = 256, envTimeLimitMs = 60_000, strategy } = options;
  for (const [name, value] of Object.entries({ groupSize, maxTurns, maxEpisodes, envTimeLimitMs })) {
    if (!Number.isInteger(value) || value < 1)
      throw new InvalidInputError(name, `must be an integer above 0, got ${value}`);
  }
  if (strategy === undefined) return;
  const { onFailure } = strategy;
  if (onFailure !== "fail" && onFailure !== "retry" && onFailure !== "keep")
    throw new InvalidInputError("strategy.onFailure", `must be fail, retry or keep, got ${String(onFailure)}`);
  if (onFailure === "retry" && !(Number.isInteger(strategy.retries) && strategy.retries >= 0))
    throw new InvalidInputError("strategy.retries", `must be an integer from 0, got ${strategy.retries}`);
  if (onFailure === "keep" && !(Number.isInteger(strategy.smallestGroup) && strategy.smallestGroup >= 1))
    throw new InvalidInputError("strategy.smallestGroup", `must be an integer above 0, got ${strategy.smallestGroup}`);
}

/** One group by its strategy: its trajectories, or its last failure. */
async function rolloutGroup(
  group: EnvGroup,
  options: RolloutOptions,
  seed: number,
): Promise<TrajectoryGroup | EpisodeFailure> {
  const strategy = options.strategy ?? { onFailure: "retry", retries: 1 };
  const attempts = strategy.onFailure === "retry" ? strategy.retries + 1 : 1;
  const failures: EpisodeFailure[] = [];
  const note = (failure: EpisodeFailure) => {
    failures.push(failure);
    options.onFailure?.(failure);
  };
  for (let attempt = 0; attempt < attempts; attempt++) {
    const result = await attemptGroup(group, options, attempt === 0 ? seed : derivedSeed(seed, attempt)).catch(
      (error: unknown) => {
        if (error instanceof EnvironmentError) return { failures: [error.failure], trajectories: [], groupRewards: [] };
        throw error;
      },
    );
    for (const failure of result.failures) note(failure);
    const first = result.failures[0];
    if (first !== undefined && strategy.onFailure === "fail") throw new EnvironmentError(first);
    const enough = strategy.onFailure === "keep" && result.trajectories.length >= strategy.smallestGroup;
    if (first === undefined || enough) return finished(group, result, failures);
  }
  return failures.at(-1) as EpisodeFailure;
}

interface Attempt {
  readonly trajectories: readonly Trajectory[];
  readonly groupRewards: readonly GroupReward[];
  readonly failures: readonly EpisodeFailure[];
}

function finished(
  group: EnvGroup,
  { trajectories, groupRewards }: Attempt,
  failures: EpisodeFailure[],
): TrajectoryGroup {
  const totalRewards = trajectories.map(
    ({ transitions }, at) => transitions.reduce((sum, { reward }) => sum + reward, 0) + (groupRewards[at]?.reward ?? 0),
  );
  return { name: group.name, tags: group.tags ?? [], trajectories, groupRewards, totalRewards, failures };
}

async function attemptGroup(group: EnvGroup, options: RolloutOptions, seed: number): Promise<Attempt> {
  const { groupSize: size = 8, strategy } = options;
  const guard: GuardOptions = {
    timeLimitMs: options.envTimeLimitMs ?? 60_000,
    clock: options.clock ?? systemClock({ ref: true }),
    signal: options.signal,
  };
  const at = (env: number, call: string) => ({ group: group.name, env, call });
  const envs = await guardedCall(at(-1, "makeEnvs"), guard, (signal) => group.makeEnvs({ size, seed, signal }));
  if (!Array.isArray(envs) || envs.length === 0) throw invalid(at(-1, "makeEnvs"), "returned no environments");
  const failures: EpisodeFailure[] = [];
  const fail = (error: unknown): undefined => {
    if (!(error instanceof EnvironmentError)) throw error;
    failures.push(error.failure);
    return undefined;
  };
  try {
    const opened = await Promise.all(
      envs.map((env: Env, index) =>
        guardedCall(at(index, "initialObservation"), guard, (signal) => env.initialObservation(signal))
          .then((observation) => checkedObservation(observation, at(index, "initialObservation")))
          .catch(fail),
      ),
    );
    if (failures.length > 0 && strategy?.onFailure !== "keep") return { trajectories: [], groupRewards: [], failures };
    const first = await firstActions(opened, options, seed, group.name);
    const settled = await Promise.allSettled(
      envs.map(async (env: Env, index): Promise<readonly Trajectory[]> => {
        const observation = opened[index];
        if (observation === undefined) return [];
        const place = { group: group.name, env: index, guard, seed: derivedSeed(seed, 0xe, index) };
        return (await episode(env, observation, first[index], place, options).catch(fail)) ?? [];
      }),
    );
    const lost = settled.find((one) => one.status === "rejected");
    if (failures[0] !== undefined && strategy?.onFailure === "fail") throw new EnvironmentError(failures[0]);
    if (lost !== undefined) throw lost.reason;
    const trajectories = settled.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
    if (trajectories.length === 0 || (failures.length > 0 && strategy?.onFailure !== "keep"))
      return { trajectories: [], groupRewards: [], failures };
    const groupRewards = await guardedCall(at(-1, "groupRewards"), guard, (signal) =>
      group.groupRewards === undefined
        ? trajectories.map(() => ({ reward: 0 }))
        : group.groupRewards(trajectories, signal),
    );
    if (!Array.isArray(groupRewards) || groupRewards.length !== trajectories.length)
      throw invalid(at(-1, "groupRewards"), `must return ${trajectories.length} rewards`);
    for (const { reward } of groupRewards) checkReward(reward, at(-1, "groupRewards"));
    return { trajectories, groupRewards, failures };
  } finally {
    await Promise.all(
      envs.map(async (env: Env, index) => {
        try {
          await guardedCall(at(index, "close"), { ...guard, signal: undefined }, () => env.close?.());
        } catch (error) {
          if (error instanceof EnvironmentError) options.onFailure?.(error.failure);
        }
      }),
    );
  }
}

/** The first answers of a group. Environments with equal prompts share one request: sample i uses seed + i. */
async function firstActions(
  opened: readonly (Observation | undefined)[],
  options: RolloutOptions,
  seed: number,
  group: string,
): Promise<readonly (Action | undefined)[]> {
  const [first] = opened;
  const same = first !== undefined && opened.length > 1 && opened.every((one) => asksTheSame(one, first));
  if (!same) return opened.map(() => undefined);
  return actions(first, opened.length, seed, { group, env: -1, options });
}

function asksTheSame(one: Observation | undefined, other: Observation): boolean {
  return (
    one !== undefined &&
    one.maxTokens === other.maxTokens &&
    JSON.stringify(one.stop) === JSON.stringify(other.stop) &&
    one.tokens.length === other.tokens.length &&
    one.tokens.every((token, i) => token === other.tokens[i])
  );
}
