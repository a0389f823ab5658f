/** `@tinklet/cookbook`: data, rendering, training loops and the record of a run, over the `tinklet` SDK. */

export * from "./clients.ts";
export { type BeforeStep, budget, type PlannedStep, plannedStep, spentBy, type TokenCounts } from "./cost/budget.ts";
export * from "./cost/cost.ts";
export type { PromptTokens } from "./cost/prompt-tokens.ts";
export type { CostLimit } from "./cost/recipe-budget.ts";
export * from "./cost/recipe-estimate.ts";
export { readCsv } from "./data/csv.ts";
export { DataError } from "./data/data-error.ts";
export { BatchedDataset, splitData } from "./data/dataset.ts";
export { type Example, type Place, readExamples, toExample } from "./data/examples.ts";
export { type HistoryPolicies, type HistoryPolicy, historyPolicies } from "./data/history.ts";
export { type JsonLine, readJsonl } from "./data/jsonl.ts";
export { readParquet } from "./data/parquet.ts";
export * from "./data/prepare.ts";
export { type DataRow, dataFileEndings, type ReadDataOptions, readData } from "./data/read-data.ts";
export * from "./data/render.ts";
export * from "./environments/index.ts";
export * from "./evaluation/index.ts";
export * from "./loggers/index.ts";
export type { KlOptions } from "./loops/kl-advantages.ts";
export * from "./loops/nll.ts";
export * from "./loops/policy-gradient.ts";
export * from "./loops/preference.ts";
export * from "./loops/preference-losses.ts";
export {
  type PolicyLoss,
  policyLosses,
  type ReinforcementDetail,
  type ReinforcementEvent,
  type ReinforcementOptions,
  type ReinforcementSettings,
  trainReinforcement,
} from "./loops/reinforcement.ts";
export * from "./loops/reinforcement-run.ts";
export { recommendedLearningRate, type Schedule, scheduleFactor, schedules } from "./loops/schedule.ts";
export * from "./loops/supervised.ts";
export * from "./loops/teacher-targets.ts";
export { derivedSeed, permutation, seededRandom } from "./random.ts";
export * from "./recipes/recipe.ts";
export { loadRecipe, recipeNames, recipeText } from "./recipes/recipe-files.ts";
export * from "./runs/open-run.ts";
export { nextStepOf, type Plan, totalStepsOf } from "./runs/plan.ts";
export {
  type RecordedEvent,
  type RecordedOptions,
  type RecordedStep,
  recordedSteps,
  type StepsOf,
  type TakenStep,
} from "./runs/recorded-steps.ts";
export * from "./runs/run-folder.ts";
export type { RunResult } from "./runs/run-result.ts";
