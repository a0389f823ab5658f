/** Evaluations. */
export { type AnswerPair, type CompareAnswersOptions, compareAnswers, shownAnswers } from "./answer-pairs.ts";
export { type AnswerScore, exactScore, type Judge, jsonScore, judgeScore, regexScore } from "./answer-scores.ts";
export { type BenchmarkOptions, finalNumber, gsm8k, ifeval, mmlu } from "./benchmarks.ts";
export {
  type ComparedAnswer,
  type ComparedItem,
  type ComparedModel,
  type CompareOnDataOptions,
  type CompareOnTasksOptions,
  type Comparison,
  compareOnData,
  compareOnTasks,
  type ScoreColumn,
  type ScoreFigures,
} from "./compare-models.ts";
export { type EvalItem, evaluationItems, type ItemOptions, type PreparedItem } from "./data-items.ts";
export { type EvaluateOptions, evaluate, evaluationTable, type TaskResult } from "./evaluate.ts";
export { type EvaluationHead, evaluationFormat, evaluationSummary, writeEvaluation } from "./evaluation-folder.ts";
export { type Estimate, estimate, passAtK } from "./statistics.ts";
export {
  type EvalTask,
  exactMatch,
  type ItemResult,
  judged,
  multipleChoice,
  type Question,
  type SampledTask,
  scored,
} from "./tasks.ts";
