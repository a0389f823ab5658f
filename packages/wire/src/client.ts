/**
 * `@tinklet/wire/client`: what a client loads at start. The codecs that only servers need are not part of it; the less common routes
 * and messages are loaded on first use (`routes/known-routes.ts`).
 */
export type { CopyWeightsResponse, ExternalWeightsUrlsResponse, WeightsInfoResponse } from "./messages/checkpoints.ts";
export type { CustomLossGraph, CustomLossInput, CustomLossInputRank, CustomLossNode } from "./messages/custom-loss.ts";
export {
  classifyOutcome,
  type JsonOutcome,
  pendingOutcome,
  type QueueState,
  type SamplingSessionFuturesTarget,
  type UntypedAPIFuture,
} from "./messages/futures.ts";
export type { DimuonParamsInput, OptimizerConfig, OptimParamsBase } from "./messages/optimizer.ts";
export type {
  AccessScope,
  AuditEventType,
  AuditLogResponse,
  BillingUsageResponse,
  Checkpoint,
  CheckpointArchiveUrlResponse,
  CheckpointsListResponse,
  CurrentCheckpointStorageUsageResponse,
  GetSamplerResponse,
  GetSessionResponse,
  ListSessionsResponse,
  TraceExportResponse,
  TrainingRun,
  TrainingRunsResponse,
} from "./messages/rest.ts";
export {
  SampleConstraint,
  SampledSequence,
  type SampleRequest,
  SampleResponse,
  SamplingParams,
  type SamplingParamsInput,
} from "./messages/sampling.ts";
export {
  ClientConfigResponse,
  ClientDynamicConfigResponse,
  type GetServerCapabilitiesResponse,
  type UserMetadata,
  type WhoamiResponse,
} from "./messages/session.ts";
export type {
  ClientSessionFinishReasonType,
  SessionSearchRequest,
  SessionSearchResponse,
} from "./messages/session-search.ts";
export type { Severity, TelemetryEvent } from "./messages/telemetry.ts";
export {
  AdamParams,
  type AdamParamsInput,
  checkLossFn,
  ForwardBackwardOutput,
  type GetInfoResponse,
  LoraConfig,
  type LossFnConfig,
  type LossFnType,
  lossFnTypes,
  type OptimStepResponse,
  type UnloadModelResponse,
} from "./messages/training.ts";
export type {
  LoadWeightsResponse,
  SaveWeightsExternalResponse,
  SaveWeightsForSamplerResponse,
  SaveWeightsResponse,
} from "./messages/weights.ts";
export { encodeUnnumberedPass, protobufContentType } from "./proto/tensors.ts";
export type { Operation, RequestOf, ResponseOf } from "./routes/contract.ts";
export { coreRoutes, type FutureResult, type FutureResultName, futureResults } from "./routes/core-routes.ts";
export { isKnown, loadRoute, routeOf } from "./routes/known-routes.ts";
export type { QueryTime } from "./routes/rest-routes.ts";
export {
  apiPrefix,
  type EncodedRequest,
  encodeBy,
  fieldsSince,
  mirroredSdkVersion,
  type Pool,
} from "./routes/route.ts";
export { writeDuration } from "./schema/duration.ts";
export { decodeBase64, encodeBase64 } from "./schema/fields.ts";
export { type JsonValue, parseJson, stringifyJson } from "./schema/json.ts";
export { type InputTypeOf, type Message, snakeCase } from "./schema/message.ts";
export { copyDatum, Datum, type DatumLike, toData } from "./values/datum.ts";
export { ModelInput, type ModelInputChunk, type ModelInputLike } from "./values/model-input.ts";
export { TensorData, type TensorLike } from "./values/tensor-data.ts";
export { ParsedCheckpointTinkerPath } from "./values/tinker-path.ts";
export { compressZstd } from "./zstd.ts";
