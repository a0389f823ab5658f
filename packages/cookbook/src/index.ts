/** `@tinklet/cookbook`: data, rendering, training loops and the record of a run, over the `tinklet` SDK. */
export { type BeforeStep, budget, type PlannedStep, plannedStep, spentBy, type TokenCounts } from "./budget.ts";
export * from "./clients.ts";
export * from "./cost.ts";
export { readCsv } from "./data/csv.ts";
export { readParquet } from "./data/parquet.ts";
export { type DataRow, dataFileEndings, type ReadDataOptions, readData } from "./data/read-data.ts";
export { DataError } from "./data-error.ts";
export { BatchedDataset, splitData } from "./dataset.ts";
export * from "./environments/index.ts";
export * from "./evaluation/index.ts";
export { type Example, type Place, readExamples, toExample } from "./examples.ts";
export { type HistoryPolicies, type HistoryPolicy, historyPolicies } from "./history.ts";
export { type JsonLine, readJsonl } from "./jsonl.ts";
export type { KlOptions } from "./kl-advantages.ts";
export * from "./loggers/index.ts";
export * from "./nll.ts";
export * from "./open-run.ts";
export { nextStepOf, type Plan, totalStepsOf } from "./plan.ts";
export * from "./policy-gradient.ts";
export * from "./preference.ts";
export * from "./preference-losses.ts";
export * from "./prepare.ts";
export type { PromptTokens } from "./prompt-tokens.ts";
export { derivedSeed, permutation, seededRandom } from "./random.ts";
export * from "./recipe.ts";
export type { CostLimit } from "./recipe-budget.ts";
export * from "./recipe-estimate.ts";
export { loadRecipe, recipeNames, recipeText } from "./recipe-files.ts";
export {
  type RecordedEvent,
  type RecordedOptions,
  type RecordedStep,
  recordedSteps,
  type StepsOf,
  type TakenStep,
} from "./recorded-steps.ts";
export {
  type PolicyLoss,
  policyLosses,
  type ReinforcementDetail,
  type ReinforcementEvent,
  type ReinforcementOptions,
  type ReinforcementSettings,
  trainReinforcement,
} from "./reinforcement.ts";
export * from "./reinforcement-run.ts";
export * from "./render.ts";
export * from "./run-folder.ts";
export type { RunResult } from "./run-result.ts";
export { recommendedLearningRate, type Schedule, scheduleFactor, schedules } from "./schedule.ts";
export * from "./supervised.ts";
export * from "./teacher-targets.ts";
