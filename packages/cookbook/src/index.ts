/** `@tinklet/cookbook`: data, rendering, training loops and the record of a run, over the `tinklet` SDK. */

export { seededRandom } from "@tinklet/wire/entropy";
export type { Sampler, Scorer, Service, TrainedStep, Trainer } from "./clients.ts";
export { type CodeEnvOptions, codeEnv, programIn } from "./code/code-env.ts";
export {
  type CodeTest,
  createSandbox,
  type GradedProgram,
  type Sandbox,
  type SandboxOptions,
  type TestOutcome,
} from "./code/sandbox.ts";
export { type BeforeStep, budget, type PlannedStep, plannedStep, spentBy, type TokenCounts } from "./cost/budget.ts";
export {
  type DataSummary,
  type ModelPrice,
  type PriceTable,
  priceOf,
  priceSource,
  prices,
  readPrices,
  summarize,
  trainingCost,
} from "./cost/cost.ts";
export type { PromptTokens } from "./cost/prompt-tokens.ts";
export type { CostLimit } from "./cost/recipe-budget.ts";
export {
  type EstimateOptions,
  estimateRecipe,
  type RecipeEstimate,
  type StageEstimate,
} from "./cost/recipe-estimate.ts";
export { readCsv } from "./data/csv.ts";
export { DataError } from "./data/data-error.ts";
export { BatchedDataset, splitData } from "./data/dataset.ts";
export { type Example, type Place, readExamples, toExample } from "./data/examples.ts";
export { type HistoryPolicies, type HistoryPolicy, historyPolicies } from "./data/history.ts";
export { type JsonLine, readJsonl } from "./data/jsonl.ts";
export { readParquet } from "./data/parquet.ts";
export { type Preference, readPreferences } from "./data/preferences.ts";
export { type PreparedData, type PrepareOptions, prepareExamples, prepareSupervised } from "./data/prepare.ts";
export { type DataRow, dataFileEndings, type ReadDataOptions, readData } from "./data/read-data.ts";
export {
  type DatumOptions,
  type Reduction,
  type RenderAll,
  type RenderAllOptions,
  type Rendered,
  type RenderOptions,
  reduced,
  renderExample,
  renderExamples,
  renderPrompt,
  type SupervisedDatum,
  type TrainOn,
  toDatum,
  trainOnChoices,
} from "./data/render.ts";
export {
  type Action,
  Conversation,
  type ConversationOptions,
  callTools,
  continues,
  type Env,
  type EnvGroup,
  EnvironmentError,
  type EpisodeFailure,
  type Game,
  type GroupReward,
  type MakeEnvs,
  type MessageEnv,
  type MessageStep,
  type MoveResult,
  messageEnv,
  messageEnvs,
  type Observation,
  type PolicyDatum,
  type PolicyTokens,
  type ProblemOptions,
  problemEnv,
  type ReplyMessage,
  type RolloutOptions,
  type RolloutSettings,
  type RolloutStrategy,
  type Rollouts,
  rolloutGroups,
  type StandardSchema,
  type StepResult,
  selfPlay,
  type Tool,
  type ToolAnswer,
  type ToolEnvOptions,
  type ToolOptions,
  type Trajectory,
  type TrajectoryGroup,
  type Transition,
  tool,
  toolEnv,
  toPolicyDatum,
  trajectoryTokens,
  type Verdict,
} from "./environments/index.ts";
export {
  type AnswerPair,
  type AnswerScore,
  type BenchmarkOptions,
  type CompareAnswersOptions,
  type ComparedAnswer,
  type ComparedItem,
  type ComparedModel,
  type CompareOnDataOptions,
  type CompareOnTasksOptions,
  type Comparison,
  compareAnswers,
  compareOnData,
  compareOnTasks,
  type Estimate,
  type EvalItem,
  type EvalTask,
  type EvaluateOptions,
  type EvaluationHead,
  estimate,
  evaluate,
  evaluationFormat,
  evaluationItems,
  evaluationSummary,
  evaluationTable,
  exactMatch,
  exactScore,
  finalNumber,
  gsm8k,
  type ItemOptions,
  type ItemResult,
  ifeval,
  type Judge,
  jsonScore,
  judged,
  judgeScore,
  mmlu,
  multipleChoice,
  type PreparedItem,
  passAtK,
  type Question,
  regexScore,
  type SampledTask,
  type ScoreColumn,
  type ScoreFigures,
  scored,
  shownAnswers,
  type TaskResult,
  writeEvaluation,
} from "./evaluation/index.ts";
export {
  type LoggedRow,
  type LoggedRun,
  type LoggingOptions,
  type LogQueueOptions,
  loggerNames,
  loggersNamed,
  type MetricsLogger,
  type MetricsWriter,
  type TensorboardOptions,
  type TrackioOptions,
  tensorboard,
  trackio,
  withLoggers,
} from "./loggers/index.ts";
export type { AdamOptions } from "./loops/adam.ts";
export { type AdvantageKind, advantageKinds, advantagesOf, groupTokens } from "./loops/advantages.ts";
export { EarlyStopping } from "./loops/early-stopping.ts";
export type { KlOptions } from "./loops/kl-advantages.ts";
export { evaluateNll, inputTokens, lossTokens, meanNll } from "./loops/nll.ts";
export {
  type Answer,
  type PolicyGradientEvent,
  type PolicyGradientOptions,
  type PolicyGradientResult,
  type PolicyStepDone,
  type Problem,
  type ScoredAnswer,
  trainPolicyGradient,
} from "./loops/policy-gradient.ts";
export {
  type PreferenceMethod,
  type PreferenceOptions,
  type PreferencePair,
  type PreferenceRunOptions,
  type PreferenceSettings,
  preferenceSteps,
  runPreference,
  scoreAnswers,
  trainPreference,
} from "./loops/preference.ts";
export { type BradleyTerryOptions, bradleyTerry, type DpoOptions, dpo } from "./loops/preference-losses.ts";
export {
  type PolicyLoss,
  policyLosses,
  type ReinforcementDetail,
  type ReinforcementEvent,
  type ReinforcementOptions,
  type ReinforcementSettings,
  trainReinforcement,
} from "./loops/reinforcement.ts";
export {
  type DistillationRunOptions,
  type ReinforcementRunOptions,
  runDistillation,
  runReinforcement,
} from "./loops/reinforcement-run.ts";
export { recommendedLearningRate, type Schedule, scheduleFactor, schedules } from "./loops/schedule.ts";
export {
  repeatable,
  type StepDone,
  type SupervisedEvent,
  type SupervisedOptions,
  type SupervisedResult,
  trainSupervised,
} from "./loops/supervised.ts";
export {
  type DistillationData,
  type TaughtData,
  type TeacherTargetsOptions,
  teacherTargets,
} from "./loops/teacher-targets.ts";
export { type OpenEnvOptions, openEnv } from "./openenv/open-env.ts";
export {
  OpenEnvError,
  type OpenEnvResult,
  type OpenEnvTransport,
} from "./openenv/session.ts";
export { derivedSeed, permutation } from "./random.ts";
export {
  defineRecipe,
  type Finished,
  type Recipe,
  type RecipeEvent,
  type RecipeOptions,
  type RecipeQuestion,
  type RecipeResult,
  type RecipeScore,
  type RecipeTask,
  runRecipe,
} from "./recipes/recipe.ts";
export { loadRecipe, recipeNames, recipeText } from "./recipes/recipe-files.ts";
export { dataFindings, learningRateFinding } from "./runs/data-findings.ts";
export { Diagnosis, type Finding, type FindingCode } from "./runs/diagnosis.ts";
export {
  type LoopInFolder,
  type OpenRun,
  openRun,
  type PolicyGradientRunOptions,
  type RunOptions,
  type RunStarts,
  runLoop,
  runPolicyGradient,
  runSupervised,
  type SupervisedRunOptions,
} from "./runs/open-run.ts";
export { nextStepOf, type Plan, totalStepsOf } from "./runs/plan.ts";
export {
  bestName,
  type RecordedEvent,
  type RecordedOptions,
  type RecordedStep,
  recordedSteps,
  type StepsOf,
  type TakenStep,
} from "./runs/recorded-steps.ts";
export type { RecoveryRow, RunRecovers, RunRecoveryOptions } from "./runs/recovery.ts";
export {
  type CheckpointRecord,
  type ClaimOptions,
  type FailureRow,
  type MetricsRow,
  RunFolder,
  type SpendingRow,
} from "./runs/run-folder.ts";
export type { RunResult } from "./runs/run-result.ts";
