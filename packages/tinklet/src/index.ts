/**
 * `tinklet`: the public SDK. This file alone decides what is public; `test/package/surface` holds what that comes to.
 */
export * as autodiff from "./autodiff/index.ts";
export { gradient, ShapeError, UnusedLeafError, Var } from "./autodiff/index.ts";
export { AdminClient } from "./clients/admin-client.ts";
export { estimateDatumBytes, estimatePromptBytes } from "./clients/batching.ts";
export { CombinedOutput, combineOutputs } from "./clients/combine-metrics.ts";
export { getConsoleUrl, getPlaygroundUrl } from "./clients/console-urls.ts";
export {
  type CustomLossFn,
  CustomLossOutput,
  type CustomLossResult,
  type CustomMetrics,
} from "./clients/custom-loss.ts";
export type { DownloadProgress } from "./clients/download.node.ts";
export type { LocalOptions } from "./clients/local.ts";
export type {
  HasInputsFor,
  LossOutputs,
  MissingLossInputs,
  PassOutput,
  RequiredLossInputs,
} from "./clients/loss-inputs.ts";
export type { ClientOptions, OperationOptions } from "./clients/options.ts";
export { PagedList } from "./clients/paged-list.ts";
export { CustomLoss, type InputRanks, type PerDatumLossFn } from "./clients/per-datum-loss.ts";
export { type PageOptions, RestClient, type ScopeOptions } from "./clients/rest-client.ts";
export type { RetryConfig } from "./clients/retry-config.ts";
export { SampleStream, type StreamedText, type StreamedToken, type TextDecoderLike } from "./clients/sample-stream.ts";
export {
  type SampleOptions,
  SamplingClient,
  type SamplingClientHandle,
  type StreamOptions,
} from "./clients/sampling-client.ts";
export { type FromStateOptions, type LoraOptions, type LowLevelApi, ServiceClient } from "./clients/service-client.ts";
export type { StepResult } from "./clients/step-result.ts";
export { Telemetry } from "./clients/telemetry.ts";
export {
  type BatchFor,
  type LoadOptions,
  type PassOptions,
  type SamplerOptions,
  type SaveOptions,
  TrainingClient,
  type UnknownLoss,
} from "./clients/training-client.ts";
export { type Clock, systemClock } from "./clock.ts";
export * from "./errors.ts";
export type { EventListener, Logger, LogLevel, TinkletEvent } from "./events.ts";
export { type Acknowledgement, APIFuture, type Explanation, type FuturePhase } from "./futures/api-future.ts";
export * from "./tokenizer/index.ts";
export type { FetchLike } from "./transport/exchange.ts";
export { defaultMaxSockets, type MaxSockets } from "./transport/pools.ts";
export type { CallOptions } from "./transport/transport.ts";
// Every message's type, and those classes that programs make or hold. Codecs and messages themselves are `tinklet/wire`.
export type * from "./wire/client.ts";
export { Datum } from "./wire/datum.ts";
export { ModelInput } from "./wire/model-input.ts";
export { SampledSequence, SampleResponse } from "./wire/sampling.ts";
export { TensorData } from "./wire/tensor-data.ts";
export { ParsedCheckpointTinkerPath } from "./wire/tinker-path.ts";
export { ForwardBackwardOutput, lossFnTypes } from "./wire/training.ts";
