/** What an environment is: tokens in, tokens out, a reward for each turn. Types only; rolling them out is `rollout.ts`. */

/** The prompt of one turn. */
export interface Observation {
  /** The whole prompt, as token ids. */
  readonly tokens: readonly number[];
  /** What ends the answer: token ids, or texts. @defaultValue the run's sampling parameters */
  readonly stop?: readonly number[] | readonly string[];
  /** The longest answer, in tokens. @defaultValue the run's sampling parameters */
  readonly maxTokens?: number;
  /** The player whose turn it is, from 0, in environments of several players. @defaultValue 0 */
  readonly player?: number;
}

/** The answer of the policy. */
export interface Action {
  readonly tokens: readonly number[];
  /** Log-probability of each token when it was sampled. */
  readonly logprobs: readonly number[];
  /** `stop`, or `length` where the answer was cut. */
  readonly stopReason: string;
}

/** The result of an action. */
export interface StepResult {
  /** Of the player that acted; higher is better. */
  readonly reward: number;
  /** Whether the episode is over. */
  readonly done: boolean;
  /** The next question; needed unless the episode is over. */
  readonly next?: Observation;
  /** Added to the last turn of each player, for example at the end of a game. The index is the player. */
  readonly playerRewards?: readonly number[];
  /** Figures for the metrics, averaged under `env/all/`. */
  readonly metrics?: Readonly<Record<string, number>>;
  /** Details of this turn for people to read; kept in the rollout summaries. */
  readonly logs?: Readonly<Record<string, string | number | boolean>>;
}

/** One episode. Made for one rollout and used once. */
export interface Env {
  /** @param signal - aborted when the time limit is over or the run is cancelled */
  initialObservation(signal: AbortSignal): Observation | Promise<Observation>;
  step(action: Action, signal: AbortSignal): StepResult | Promise<StepResult>;
  /** Called once in the end, however the episode ended. */
  close?(): void | Promise<void>;
}

/** How a group makes its environments. */
export interface MakeEnvs {
  /** How many are wanted. */
  readonly size: number;
  /** For everything random in them: a function of the run's seed, the step and the group. */
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** Environments whose rewards are compared with each other, for example the same question asked eight times. */
export interface EnvGroup {
  /** Names the group in the log, for example its question. */
  readonly name: string;
  makeEnvs(how: MakeEnvs): readonly Env[] | Promise<readonly Env[]>;
  /** Rewards that need the whole group, added to those of the turns: one per trajectory, in order. */
  groupRewards?(
    trajectories: readonly Trajectory[],
    signal: AbortSignal,
  ): readonly GroupReward[] | Promise<readonly GroupReward[]>;
  /** Metrics are also reported per tag, under `env/<tag>/`. */
  readonly tags?: readonly string[];
}

/** The reward of one trajectory within its group. */
export interface GroupReward {
  readonly reward: number;
  readonly metrics?: Readonly<Record<string, number>>;
}

/** One turn. */
export interface Transition {
  readonly observation: Observation;
  readonly action: Action;
  readonly reward: number;
  readonly done: boolean;
  readonly metrics: Readonly<Record<string, number>>;
  readonly logs: Readonly<Record<string, string | number | boolean>>;
}

/** The turns of one player in one episode. */
export interface Trajectory {
  readonly player: number;
  readonly transitions: readonly Transition[];
  /** Whether the episode was ended by the limit of turns. */
  readonly truncated: boolean;
}

/** A group that was rolled out. */
export interface TrajectoryGroup {
  readonly name: string;
  readonly tags: readonly string[];
  readonly trajectories: readonly Trajectory[];
  /** What the group added to each trajectory. */
  readonly groupRewards: readonly GroupReward[];
  /** Sum of each trajectory's rewards, the group's included. */
  readonly totalRewards: readonly number[];
  /** Episodes that failed and were left out (strategy `keep`), or attempts that failed before this one (`retry`). */
  readonly failures: readonly EpisodeFailure[];
}

/** Why an episode could not be used. */
export interface EpisodeFailure {
  readonly group: string;
  /** Index of the environment in its group; -1 where the group as a whole failed. */
  readonly env: number;
  readonly kind: "threw" | "timed_out" | "invalid";
  readonly message: string;
  readonly cause?: unknown;
}
