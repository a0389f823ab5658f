/** Environments: what they are, the common kinds, and how groups of them are rolled out. */
export type {
  Action,
  Env,
  EnvGroup,
  EpisodeFailure,
  GroupReward,
  MakeEnvs,
  Observation,
  StepResult,
  Trajectory,
  TrajectoryGroup,
  Transition,
} from "./env.ts";
export { EnvironmentError } from "./guarded-call.ts";
export {
  Conversation,
  type ConversationOptions,
  type MessageEnv,
  type MessageStep,
  messageEnv,
  messageEnvs,
  type ReplyMessage,
} from "./message-env.ts";
export { type ProblemOptions, problemEnv, type Verdict } from "./problem-env.ts";
export {
  type RolloutOptions,
  type RolloutSettings,
  type RolloutStrategy,
  type Rollouts,
  rolloutGroups,
} from "./rollout.ts";
export { type Game, type MoveResult, selfPlay } from "./self-play.ts";
export { type ToolEnvOptions, toolEnv } from "./tool-env.ts";
export { callTools, type StandardSchema, type Tool, type ToolAnswer, type ToolOptions, tool } from "./tools.ts";
export {
  continues,
  type PolicyDatum,
  type PolicyTokens,
  toPolicyDatum,
  trajectoryTokens,
} from "./trajectory-data.ts";
