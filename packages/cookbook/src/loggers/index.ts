/** Loggers: metrics of a run to TensorBoard, Trackio, or anywhere else. */
export type { LogQueueOptions } from "./log-queue.ts";
export type { LoggedRow, LoggedRun, MetricsLogger, MetricsWriter } from "./metrics-logger.ts";
export { loggerNames, loggersNamed } from "./named.ts";
export { type TensorboardOptions, tensorboard } from "./tensorboard.ts";
export { type TrackioOptions, trackio } from "./trackio.ts";
export { type LoggingOptions, withLoggers } from "./with-loggers.ts";
