/**
 * `tinklet`: the public SDK. This file alone decides what is public.
 */
export * as autodiff from "./autodiff/index.ts";
export { gradient, ShapeError, UnusedLeafError, Var } from "./autodiff/index.ts";
export { CombinedOutput } from "./clients/combine-metrics.ts";
export {
  type CustomLossFn,
  CustomLossOutput,
  type CustomLossResult,
  type CustomMetrics,
} from "./clients/custom-loss.ts";
export { type Clock, FakeClock, systemClock } from "./clock.ts";
export * from "./errors.ts";
export type { EventListener, Logger, LogLevel, TinkletEvent } from "./events.ts";
export * from "./tokenizer/index.ts";
export * from "./wire/index.ts";
