/**
 * The contract: every route of the Tinker API once, with its request, its answer and how it is treated. The client's
 * transport and the server's router are both made from this table, so they cannot drift apart.
 */
import { InvalidInputError } from "../errors.ts";
import { given } from "../given.ts";
import { CreateCustomLossRequest, CreateCustomLossResponse } from "./custom-loss.ts";
import { date, describe, type Field, int, isPlainObject, oneOf, optional, string, withDefault } from "./fields.ts";
import {
  CancelFutureRequest,
  FutureRetrieveRequest,
  FuturesRetrieveRequest,
  FuturesRetrieveResponse,
  UntypedAPIFuture,
} from "./futures.ts";
import { type InputTypeOf, type Message, message, type TypeOf } from "./message.ts";
import { decodeForwardBackwardOutput, decodeSampleResponse, encodeForwardBackwardRequest } from "./proto/tensors.ts";
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
} from "./rest.ts";
import { JoinSamplingSessionRequest, JoinSamplingSessionResponse, SampleRequest } from "./sampling.ts";
import {
  AuthTokenResponse,
  ClientConfigRequest,
  ClientConfigResponse,
  ClientDynamicConfigResponse,
  CreateSamplingSessionRequest,
  CreateSamplingSessionResponse,
  CreateSessionRequest,
  CreateSessionResponse,
  GetServerCapabilitiesResponse,
  HealthResponse,
  SessionHeartbeatRequest,
  SessionHeartbeatResponse,
} from "./session.ts";
import { FinishSessionRequest, SessionSearchRequest, SessionSearchResponse } from "./session-search.ts";
import { TelemetryResponse, TelemetrySendRequest } from "./telemetry.ts";
import { TokenizerFilesQuery, TokenizerFilesResponse } from "./tokenizer.ts";
import {
  CreateModelRequest,
  CreateModelResponse,
  type ForwardBackwardRequest,
  ForwardRequest,
  GetInfoRequest,
  GetInfoResponse,
  OptimStepRequest,
  OptimStepResponse,
  UnloadModelRequest,
  UnloadModelResponse,
} from "./training.ts";
import {
  CopyWeightsRequest,
  CopyWeightsResponse,
  ExternalWeightsUrlsResponse,
  LoadWeightsRequest,
  LoadWeightsResponse,
  SaveWeightsExternalRequest,
  SaveWeightsExternalResponseInternal,
  SaveWeightsForSamplerRequest,
  SaveWeightsForSamplerResponseInternal,
  SaveWeightsRequest,
  SaveWeightsResponse,
  SetCheckpointTtlRequest,
  WeightsInfoRequest,
  WeightsInfoResponse,
} from "./weights.ts";

/** The version of the official SDK whose wire this is. The one place that says so. */
export const mirroredSdkVersion = "0.25.0";

/** Every path of the contract stands under this. */
export const apiPrefix = "/api/v1";

/** The connection pool a route belongs to: heavy traffic of one kind never starves another. */
export type Pool = "session" | "train" | "sample" | "retrieve" | "rest" | "redirect" | "telemetry";

/**
 * How a failed attempt is treated. `standard`: sent again within the attempt budget and window; `none`: the caller owns
 * retries (polls, heartbeats, sampling); `background`: errors are swallowed by design.
 */
export type RetryClass = "standard" | "none" | "background";

type Method = "GET" | "POST" | "PUT" | "DELETE";

/** The names in braces of a path. */
export type PathParams<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;

/** A body that is not JSON. Servers decode it with `decodeForwardBackwardRequest`, which clients need not carry. */
export interface BinaryBody<T> {
  readonly contentType: "application/x-protobuf";
  readonly encode: (value: T) => Uint8Array;
}

/** One route. */
export interface Route<Path extends string = string, Query = unknown, Body = unknown, Answer = unknown> {
  readonly method: Method;
  readonly path: Path;
  readonly query?: Query;
  readonly body?: Body;
  /** Absent: the answer's body is ignored. */
  readonly response?: Answer;
  readonly pool: Pool;
  readonly retry: RetryClass;
  /** How long one attempt may take. */
  readonly timeoutMs: number;
  /** The answer is an acknowledgement; the result comes from `retrieve_future`. */
  readonly future?: FutureResultName;
  /** What the body carries, where that is more than parameters: servers bound its size by it. */
  readonly carries?: "data" | "adapter";
  /** Who first calls it; absent: it is as old as 0.25. Older servers do not have it. */
  readonly since?: Release;
}

/** Releases of the official SDK that brought routes, oldest first; `tinklet` are routes of our own servers, which no other has. */
export type Release = "0.26" | "0.27" | "0.28" | "0.32" | "0.36" | "tinklet";

type Policy = Partial<Pick<Route, "pool" | "retry" | "timeoutMs" | "future" | "carries" | "since">>;
const defaults = { pool: "train", retry: "standard", timeoutMs: 60_000 } as const satisfies Policy;

function route<const P extends string, Q, B, A>(
  method: Method,
  path: P,
  parts: { query?: Q; body?: B; response?: A },
  policy: Policy = {},
): Route<P, Q, B, A> {
  return { method, path, ...parts, ...defaults, ...policy };
}
const get = <const P extends string, A, Q = undefined>(path: P, response: A, policy?: Policy, query?: Q) =>
  route<P, Q, undefined, A>("GET", path, { response, ...given({ query }) }, policy);
const post = <const P extends string, B, A>(path: P, body: B, response: A, policy?: Policy) =>
  route<P, undefined, B, A>("POST", path, { body, response }, policy);

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
const ListCheckpointsQuery = message<{ readonly limit: number; readonly offset: number }, "limit" | "offset">(
  "ListCheckpointsQuery",
  { limit: withDefault(int(), 100), offset: withDefault(int(), 0) },
);

/** A moment in a query: a Date, or text that is passed on as it is (`2026-07-13`). */
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
/** Which token of a sample to begin with. */
const TokensQuery = message<{ readonly after: number }, "after">("TokensQuery", { after: withDefault(int(), 0) });
const Empty = message<Record<never, never>>("Empty", {});

/** The binary training request, as a body. */
export const forwardBackwardBody: BinaryBody<ForwardBackwardRequest> = {
  contentType: "application/x-protobuf",
  encode: encodeForwardBackwardRequest,
};

// ---- results of futures -----------------------------------------------------------------------------------------

/** What the result of a future is, by the name it is asked for with (`X-Tinker-Request-Type`). */
export const futureResults = {
  CreateModel: { format: "json", decode: CreateModelResponse.decode },
  LoadWeights: { format: "json", decode: LoadWeightsResponse.decode },
  OptimStep: { format: "json", decode: OptimStepResponse.decode },
  SaveWeights: { format: "json", decode: SaveWeightsResponse.decode },
  SaveWeightsForSampler: { format: "json", decode: SaveWeightsForSamplerResponseInternal.decode },
  SaveWeightsExternal: { format: "json", decode: SaveWeightsExternalResponseInternal.decode },
  CreateCustomLoss: { format: "json", decode: CreateCustomLossResponse.decode },
  UnloadModel: { format: "json", decode: UnloadModelResponse.decode },
  Forward: { format: "proto", decode: decodeForwardBackwardOutput },
  ForwardBackward: { format: "proto", decode: decodeForwardBackwardOutput },
  Sample: { format: "proto", decode: decodeSampleResponse },
} as const;
/** The types of requests whose results are polled for. */
export type FutureResultName = keyof typeof futureResults;
/** The API type of a future's result. */
export type FutureResult<K extends FutureResultName> = ReturnType<(typeof futureResults)[K]["decode"]>;

// ---- the table --------------------------------------------------------------------------------------------------

const session = { pool: "session" } as const;
const rest = { pool: "rest" } as const;
const checkpointPath = "/training_runs/{trainingRunId}/checkpoints/{checkpointId}";

/** Every route of the service once: method, path, request, response, and how it is sent. Client and server read the same table. */
export const contract = {
  clientConfig: post("/client/config", ClientConfigRequest, ClientConfigResponse, session),
  clientDynamicConfig: post("/client/dynamic_config", ClientConfigRequest, ClientDynamicConfigResponse, {
    pool: "session",
    retry: "background",
    timeoutMs: 10_000,
  }),
  authToken: post("/auth/token", Empty, AuthTokenResponse, session),
  createSession: post("/create_session", CreateSessionRequest, CreateSessionResponse, session),
  sessionHeartbeat: post("/session_heartbeat", SessionHeartbeatRequest, SessionHeartbeatResponse, {
    pool: "session",
    retry: "background",
    timeoutMs: 10_000,
  }),
  createSamplingSession: post(
    "/create_sampling_session",
    CreateSamplingSessionRequest,
    CreateSamplingSessionResponse,
    session,
  ),
  getServerCapabilities: get("/get_server_capabilities", GetServerCapabilitiesResponse, rest),
  healthz: get("/healthz", HealthResponse, rest),

  createModel: post("/create_model", CreateModelRequest, UntypedAPIFuture, { future: "CreateModel" }),
  getInfo: post("/get_info", GetInfoRequest, GetInfoResponse),
  unloadModel: post("/unload_model", UnloadModelRequest, UntypedAPIFuture, { future: "UnloadModel" }),
  forwardBackward: post("/forward_backward", forwardBackwardBody, UntypedAPIFuture, {
    future: "ForwardBackward",
    carries: "data",
  }),
  /** Passes without gradients, as JSON: what clients sent before the binary form. */
  forward: post("/forward", ForwardRequest, UntypedAPIFuture, { future: "Forward", carries: "data" }),
  optimStep: post("/optim_step", OptimStepRequest, UntypedAPIFuture, { future: "OptimStep" }),
  saveWeights: post("/save_weights", SaveWeightsRequest, UntypedAPIFuture, { future: "SaveWeights" }),
  saveWeightsForSampler: post("/save_weights_for_sampler", SaveWeightsForSamplerRequest, UntypedAPIFuture, {
    future: "SaveWeightsForSampler",
  }),
  loadWeights: post("/load_weights", LoadWeightsRequest, UntypedAPIFuture, { future: "LoadWeights" }),

  asample: post("/asample", SampleRequest, UntypedAPIFuture, {
    pool: "sample",
    retry: "none",
    future: "Sample",
    carries: "data",
  }),
  retrieveFuture: route(
    "POST",
    "/retrieve_future",
    { body: FutureRetrieveRequest },
    {
      pool: "retrieve",
      retry: "none",
      timeoutMs: 45_000,
    },
  ),
  telemetry: post("/telemetry", TelemetrySendRequest, TelemetryResponse, {
    pool: "telemetry",
    retry: "background",
    timeoutMs: 5_000,
  }),

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

  cancelFuture: route(
    "POST",
    "/cancel_future",
    { body: CancelFutureRequest },
    { pool: "retrieve", retry: "background", timeoutMs: 30_000, since: "0.26" },
  ),
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

  // Tinklet's own; clients ask for them only where `client/config` names them in `tinklet_extensions`, or where they know the server.
  getTokenizerFiles: get(
    "/tinklet/tokenizer",
    TokenizerFilesResponse,
    { pool: "rest", since: "tinklet" },
    TokenizerFilesQuery,
  ),
  sampleTokens: get("/tinklet/samples/{requestId}/tokens", undefined, { pool: "rest", since: "tinklet" }, TokensQuery),
  deleteRun: route("POST", "/tinklet/runs/{trainingRunId}/delete", {}, { pool: "rest", since: "tinklet" }),
  importAdapter: route("POST", "/tinklet/import_adapter", {}, { pool: "rest", carries: "adapter", since: "tinklet" }),
} as const;

/** An operation's name. */
export type Operation = keyof typeof contract;

type QueryOf<R> =
  R extends Route<string, infer Q, infer _B, infer _A>
    ? Q extends { readonly fields: readonly unknown[] }
      ? Q
      : never
    : never;
type BodyOf<R> = R extends Route<string, infer _Q, infer B, infer _A> ? B : never;
type AnswerOf<R> = R extends Route<string, infer _Q, infer _B, infer A> ? A : never;
type BodyInput<B> = B extends BinaryBody<infer T> ? T : B extends Message<infer _T, infer I> ? I : unknown;
type BodyValue<B> = B extends BinaryBody<infer T> ? T : B extends Message<infer T, infer _I> ? T : undefined;
type QueryInput<R> = [QueryOf<R>] extends [never] ? unknown : InputTypeOf<QueryOf<R>>;
type QueryValue<R> = [QueryOf<R>] extends [never] ? undefined : TypeOf<QueryOf<R>>;
type RouteOf<K extends Operation> = (typeof contract)[K];

/** What a caller gives: path parameters, query and body in one object. */
export type RequestOf<K extends Operation> = PathParams<RouteOf<K>["path"]> &
  QueryInput<RouteOf<K>> &
  BodyInput<BodyOf<RouteOf<K>>>;
/** What a caller gets. */
export type ResponseOf<K extends Operation> = AnswerOf<RouteOf<K>> extends Message<infer T, infer _> ? T : unknown;
/** What a server's handler is given. */
export interface ReceivedOf<K extends Operation> {
  readonly params: PathParams<RouteOf<K>["path"]>;
  readonly query: QueryValue<RouteOf<K>>;
  readonly body: BodyValue<BodyOf<RouteOf<K>>>;
}

/** A request as it goes out. */
export interface EncodedRequest {
  readonly method: Method;
  /** With prefix and path parameters, without a query. */
  readonly path: string;
  /** Without the question mark; empty when there is none. */
  readonly query: string;
  /** A JSON object, bytes, or nothing. */
  readonly body: unknown;
  readonly contentType: string | undefined;
}

const isBinary = (body: unknown): body is BinaryBody<unknown> =>
  typeof body === "object" && body !== null && "contentType" in body;

/**
 * Splits a request into path, query and body as its route says.
 *
 * @throws {@link InvalidInputError} naming the field, before anything is sent.
 */
export function encodeRequest<K extends Operation>(operation: K, request: RequestOf<K>): EncodedRequest {
  const { method, path, query, body } = contract[operation] as Route<string, Message<object> | undefined, unknown>;
  const given: unknown = request ?? {};
  if (!isPlainObject(given)) {
    throw new InvalidInputError(operation, `takes an object, not ${describe(given)}`);
  }
  const rest = { ...given };
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest[name];
    if (typeof value !== "string" || value === "") {
      throw new InvalidInputError(name, `must be a non-empty string, not ${describe(value)}`);
    }
    delete rest[name];
    return checkedSegment(name, value);
  });
  const queryText = query === undefined ? "" : encodeQuery(query.encode(rest as object));
  const base = { method, path: `${apiPrefix}${filled}`, query: queryText };
  const [unexpected] = query === undefined && body === undefined ? Object.keys(rest) : [];
  if (unexpected !== undefined) throw new InvalidInputError(unexpected, `is not a field of ${operation}`);
  if (body === undefined)
    return { ...base, body: undefined, contentType: method === "GET" ? undefined : "application/json" };
  if (isBinary(body)) return { ...base, body: body.encode(rest), contentType: body.contentType };
  return { ...base, body: (body as Message<object>).encode(rest), contentType: "application/json" };
}

/**
 * Path parameters stand in the path as they are (`:` and the slash of a checkpoint id included), so what would change
 * which route is meant is refused.
 */
function checkedSegment(name: string, value: string): string {
  if (/[?#\\\s%]|^\/|\/$|\/\/|(^|\/)\.\.?(\/|$)/.test(value)) {
    throw new InvalidInputError(name, `${describe(value)} cannot stand in a path`);
  }
  return value;
}

/** A flat query as text: `:` and `+` escaped, spaces as `+`, as Python's `urlencode` writes it. */
export function encodeQuery(query: Readonly<Record<string, unknown>>): string {
  return new URLSearchParams(
    Object.entries(query)
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();
}
