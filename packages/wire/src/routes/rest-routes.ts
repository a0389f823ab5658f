/**
 * All other routes: runs, checkpoints, sessions, billing, routes of newer releases, and Tinklet extensions. A client loads this file
 * with the first call of one of them.
 */

import {
  CopyWeightsRequest,
  CopyWeightsResponse,
  ExternalWeightsUrlsResponse,
  SaveWeightsExternalRequest,
  SetCheckpointTtlRequest,
  WeightsInfoRequest,
  WeightsInfoResponse,
} from "../messages/checkpoints.ts";
import { CreateCustomLossRequest } from "../messages/custom-loss.ts";
import { EvaluationListResponse, EvaluationQuery, EvaluationResponse } from "../messages/evaluations.ts";
import { FuturesRetrieveRequest, FuturesRetrieveResponse, UntypedAPIFuture } from "../messages/futures.ts";
import {
  RunProgressListResponse,
  RunStepsQuery,
  RunStepsResponse,
  ServerStateResponse,
  WatchRunsQuery,
} from "../messages/progress.ts";
import {
  type AccessScope,
  AssignSessionProjectRequest,
  type AuditEventType,
  AuditLogResponse,
  auditEventType,
  BillingUsageResponse,
  CheckpointArchiveUrlResponse,
  CheckpointsListResponse,
  CurrentCheckpointStorageUsageResponse,
  GetCurrentCheckpointStorageUsageRequest,
  GetSamplerResponse,
  GetSessionResponse,
  ListSessionsResponse,
  TraceExportResponse,
  TrainingRun,
  TrainingRunsResponse,
} from "../messages/rest.ts";
import {
  RolloutsQuery,
  RolloutsResponse,
  RunFolderListResponse,
  RunFolderQuery,
  RunFolderResponse,
} from "../messages/run-folders.ts";
import { JoinSamplingSessionRequest, JoinSamplingSessionResponse } from "../messages/sampling.ts";
import { GetServerCapabilitiesResponse, HealthResponse } from "../messages/session.ts";
import { FinishSessionRequest, SessionSearchRequest, SessionSearchResponse } from "../messages/session-search.ts";
import { TelemetryResponse, TelemetrySendRequest } from "../messages/telemetry.ts";
import { TokenizerFilesQuery, TokenizerFilesResponse } from "../messages/tokenizer.ts";
import {
  ExportTracesRequest,
  ExportTracesResponse,
  GetTraceResponse,
  ListTracesQuery,
  ListTracesResponse,
  RateTraceRequest,
  RateTraceResponse,
} from "../messages/traces.ts";
import { UnloadModelRequest } from "../messages/training.ts";
import { ForwardRequest } from "../messages/training-json.ts";
import { date } from "../schema/dates.ts";
import { type Field, int, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import { message } from "../schema/message.ts";
import { get, post, route } from "./route.ts";

// ---- queries ----------------------------------------------------------------------------------------------------

const accessScope = () => withDefault<AccessScope>(oneOf("owned", "accessible"), "owned");

/** Query of `listTrainingRuns`. */
export interface ListTrainingRunsQuery {
  readonly limit: number;
  readonly offset: number;
  readonly accessScope: AccessScope;
  readonly projectId?: string;
}
const ListTrainingRunsQuery = message<ListTrainingRunsQuery, "limit" | "offset" | "accessScope">(
  "ListTrainingRunsQuery",
  {
    limit: withDefault(int(), 20),
    offset: withDefault(int(), 0),
    accessScope: accessScope(),
    projectId: optional(string()),
  },
);
const ScopeQuery = message<{ readonly accessScope: AccessScope }, "accessScope">("ScopeQuery", {
  accessScope: accessScope(),
});
const ListSessionsQuery = message<
  { readonly limit: number; readonly offset: number; readonly accessScope: AccessScope },
  "limit" | "offset" | "accessScope"
>("ListSessionsQuery", { limit: withDefault(int(), 20), offset: withDefault(int(), 0), accessScope: accessScope() });
const ListRunProgressQuery = message<{ readonly limit: number; readonly offset: number }, "limit" | "offset">(
  "ListRunProgressQuery",
  { limit: withDefault(int(), 100), offset: withDefault(int(), 0) },
);
const ListCheckpointsQuery = message<{ readonly limit: number; readonly offset: number }, "limit" | "offset">(
  "ListCheckpointsQuery",
  { limit: withDefault(int(), 100), offset: withDefault(int(), 0) },
);

/** A time in a query: a Date, or a string that is sent unchanged (`2026-07-13`). */
export type QueryTime = Date | string;
const queryTime: Field<QueryTime> = {
  ...(date() as unknown as Field<QueryTime>),
  toWire: (value) => (typeof value === "string" && date().fromWire(value) ? value : date().toWire(value as Date)),
};
const BillingQuery = message<{ readonly startingOn: QueryTime; readonly endingBefore: QueryTime }>("BillingQuery", {
  startingOn: queryTime,
  endingBefore: queryTime,
});
const AuditQuery = message<{ readonly eventType: AuditEventType; readonly day?: string }, "eventType">("AuditQuery", {
  eventType: withDefault(auditEventType, "all"),
  day: optional(string()),
});
/** Position of the first token to return. */
const TokensQuery = message<{ readonly after: number }, "after">("TokensQuery", { after: withDefault(int(), 0) });

const rest = { pool: "rest" } as const;
const checkpointPath = "/training_runs/{trainingRunId}/checkpoints/{checkpointId}";

/** All routes that are not in {@link coreRoutes}. */
export const restRoutes = {
  telemetry: post("/telemetry", TelemetrySendRequest, TelemetryResponse, {
    pool: "telemetry",
    retry: "background",
    timeoutMs: 5_000,
  }),
  getServerCapabilities: get("/get_server_capabilities", GetServerCapabilitiesResponse, rest),
  healthz: get("/healthz", HealthResponse, rest),
  unloadModel: post("/unload_model", UnloadModelRequest, UntypedAPIFuture, { future: "UnloadModel" }),
  /** Passes without gradients, as JSON, which clients sent before the binary form existed. */
  forward: post("/forward", ForwardRequest, UntypedAPIFuture, { future: "Forward", carries: "data" }),
  listTrainingRuns: get("/training_runs", TrainingRunsResponse, rest, ListTrainingRunsQuery),
  getTrainingRun: get("/training_runs/{trainingRunId}", TrainingRun, rest, ScopeQuery),
  listCheckpoints: get("/training_runs/{trainingRunId}/checkpoints", CheckpointsListResponse, rest),
  deleteCheckpoint: route("DELETE", checkpointPath, {}, rest),
  getCheckpointArchiveUrl: get(`${checkpointPath}/archive`, CheckpointArchiveUrlResponse, { pool: "redirect" }),
  publishCheckpoint: route("POST", `${checkpointPath}/publish`, {}, rest),
  unpublishCheckpoint: route("DELETE", `${checkpointPath}/publish`, {}, rest),
  setCheckpointTtl: route("PUT", `${checkpointPath}/ttl`, { body: SetCheckpointTtlRequest }, rest),
  listUserCheckpoints: get("/checkpoints", CheckpointsListResponse, rest, ListCheckpointsQuery),
  weightsInfo: post("/weights_info", WeightsInfoRequest, WeightsInfoResponse, rest),
  listSessions: get("/sessions", ListSessionsResponse, rest, ListSessionsQuery),
  getSession: get("/sessions/{sessionId}", GetSessionResponse, rest, ScopeQuery),
  assignSessionProject: route("PUT", "/sessions/{sessionId}/project", { body: AssignSessionProjectRequest }, rest),
  exportSessionTrace: get("/sessions/{sessionId}/trace_export", TraceExportResponse, rest),
  getSampler: get("/samplers/{samplerId}", GetSamplerResponse, rest),
  getBillingUsage: get("/billing/usage/events", BillingUsageResponse, rest, BillingQuery),
  getAuditLog: get("/audit", AuditLogResponse, { pool: "redirect" }, AuditQuery),
  copyWeights: post("/copy_weights", CopyWeightsRequest, CopyWeightsResponse, { pool: "rest", since: "0.27" }),
  retrieveFutures: post("/retrieve_futures", FuturesRetrieveRequest, FuturesRetrieveResponse, {
    pool: "retrieve",
    retry: "none",
    timeoutMs: 45_000,
    since: "0.27",
  }),
  saveWeightsExternal: post("/save_weights_external", SaveWeightsExternalRequest, UntypedAPIFuture, {
    future: "SaveWeightsExternal",
    since: "0.28",
  }),
  getExternalWeightsUrls: get(
    "/training_runs/{trainingRunId}/checkpoints/external_weights/{name}/external_weights_urls",
    ExternalWeightsUrlsResponse,
    { pool: "rest", since: "0.28" },
  ),
  finishSession: route(
    "POST",
    "/sessions/{sessionId}/finish",
    { body: FinishSessionRequest },
    { pool: "session", since: "0.28" },
  ),
  joinSamplingSession: post("/join_sampling_session", JoinSamplingSessionRequest, JoinSamplingSessionResponse, {
    pool: "session",
    since: "0.32",
  }),
  getCurrentCheckpointStorageUsage: get(
    "/billing/usage/checkpoints/current",
    CurrentCheckpointStorageUsageResponse,
    { pool: "rest", since: "0.32" },
    GetCurrentCheckpointStorageUsageRequest,
  ),
  searchSessions: post("/sessions/search", SessionSearchRequest, SessionSearchResponse, {
    pool: "rest",
    since: "0.36",
  }),
  apiKeyMe: get("/auth/apikey/me", undefined, { pool: "rest", since: "0.26" }),
  createCustomLoss: post("/create_custom_loss", CreateCustomLossRequest, UntypedAPIFuture, {
    future: "CreateCustomLoss",
    since: "0.36",
  }),
  // Tinklet extensions: clients call them only on servers that list them in the `tinklet_extensions` of `client/config`, or that are known to be Tinklet servers.
  getTokenizerFiles: get(
    "/tinklet/tokenizer",
    TokenizerFilesResponse,
    { pool: "rest", since: "tinklet" },
    TokenizerFilesQuery,
  ),
  sampleTokens: get("/tinklet/samples/{requestId}/tokens", undefined, { pool: "rest", since: "tinklet" }, TokensQuery),
  deleteRun: route("POST", "/tinklet/runs/{trainingRunId}/delete", {}, { pool: "rest", since: "tinklet" }),
  listRunProgress: get(
    "/tinklet/progress",
    RunProgressListResponse,
    { pool: "rest", since: "tinklet" },
    ListRunProgressQuery,
  ),
  getRunSteps: get(
    "/tinklet/runs/{trainingRunId}/steps",
    RunStepsResponse,
    { pool: "rest", since: "tinklet" },
    RunStepsQuery,
  ),
  /** Server-sent events; `Last-Event-ID` resumes a stream. */
  watchRuns: get("/tinklet/events", undefined, { pool: "rest", since: "tinklet" }, WatchRunsQuery),
  getServerState: get("/tinklet/server", ServerStateResponse, { pool: "rest", since: "tinklet" }),
  listRunFolders: get("/tinklet/folders", RunFolderListResponse, { pool: "rest", since: "tinklet" }),
  getRunFolder: get(
    "/tinklet/folders/{folderId}",
    RunFolderResponse,
    { pool: "rest", since: "tinklet" },
    RunFolderQuery,
  ),
  getRollouts: get(
    "/tinklet/folders/{folderId}/rollouts",
    RolloutsResponse,
    { pool: "rest", since: "tinklet" },
    RolloutsQuery,
  ),
  listEvaluations: get("/tinklet/evaluations", EvaluationListResponse, { pool: "rest", since: "tinklet" }),
  getEvaluation: get(
    "/tinklet/evaluations/{evaluationId}",
    EvaluationResponse,
    { pool: "rest", since: "tinklet" },
    EvaluationQuery,
  ),
  listTraces: get("/tinklet/traces", ListTracesResponse, { pool: "rest", since: "tinklet" }, ListTracesQuery),
  getTrace: get("/tinklet/traces/{traceId}", GetTraceResponse, { pool: "rest", since: "tinklet" }),
  rateTrace: post("/tinklet/traces/{traceId}/rating", RateTraceRequest, RateTraceResponse, {
    pool: "rest",
    since: "tinklet",
  }),
  deleteTrace: route("DELETE", "/tinklet/traces/{traceId}", {}, { pool: "rest", since: "tinklet" }),
  exportTraces: post("/tinklet/traces/export", ExportTracesRequest, ExportTracesResponse, {
    pool: "rest",
    since: "tinklet",
  }),
  importAdapter: route("POST", "/tinklet/import_adapter", {}, { pool: "rest", carries: "adapter", since: "tinklet" }),
} as const;
