/** Evaluations. */
export { type BenchmarkOptions, finalNumber, gsm8k, ifeval, mmlu } from "./benchmarks.ts";
export * from "./evaluate.ts";
export * from "./statistics.ts";
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
