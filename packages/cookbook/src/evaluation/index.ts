/** Evaluations. */
export { type BenchmarkOptions, finalNumber, gsm8k, ifeval, mmlu } from "./benchmarks.ts";
export { type EvaluateOptions, evaluate, evaluationTable, type TaskResult } from "./evaluate.ts";
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
