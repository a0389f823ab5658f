/** Evaluations. */
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
