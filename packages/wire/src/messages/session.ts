/**
 * Messages about the connection: client configuration, credentials, sessions, capabilities, health.
 */
import { bool, int, json, list, literal, map, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";

/** Free-form metadata of a session or a model; keys and nulls are not changed. */
export type UserMetadata = Readonly<Record<string, JsonValue>>;

/** Asks for the flags of this client. */
export interface ClientConfigRequest {
  readonly sdkVersion: string;
}
export const ClientConfigRequest = message<ClientConfigRequest>("ClientConfigRequest", { sdkVersion: string() });

/** Flags for a client; the service may answer with any subset. */
export interface ClientConfigResponse {
  /** Exchange the credential for a short-lived token before the first request. */
  readonly pjwtAuthEnabled: boolean;
  /** With `credential_cmd` the credential to exchange comes from the credential command. */
  readonly credentialDefaultSource: string;
  /** Byte budget of sampling prompts in flight. */
  readonly sampleDispatchBytesSemaphoreSize: number;
  /** Byte budget of large answers that are fetched at the same time. */
  readonly inflightResponseBytesSemaphoreSize: number;
  /** Send the chunks of one batch in parallel, the first one last. */
  readonly parallelFwdbwdChunks: boolean;
  /** Compress training requests with zstd. */
  readonly protoCompressFwdbwd: boolean;
  /** Maximum number of data per training request. */
  readonly fwdbwdMaxChunkLen: number;
  /** Maximum of the estimated bytes per training request. */
  readonly fwdbwdMaxChunkBytesCount: number;
  /** Byte budget of training requests in flight. */
  readonly fwdbwdDispatchBytesSemaphoreSize: number;
  /** How long calls are retried during a billing pause (402), in seconds. */
  readonly billingExceptionMaxPauseDurationSec: number;
  /** Sample without the retry handler. */
  readonly sampleNoRetries: boolean;
  readonly sampleEnableStuckDetection: boolean;
  readonly sampleMaxConcurrentRequests: number;
  /** Selects a transport of the Python client; not used here. */
  readonly usePyqwestTransport: boolean;
  /** Create a training client from a checkpoint with one `load_weights`. */
  readonly createModelViaLoadWeights: boolean;
  /** Newer than 0.25: fetch samples through one long poll per sampling session. */
  readonly sampleUseRetrieveFutures: boolean;
  /** Newer than 0.25: custom losses may run on the server. */
  readonly customLossServerSide: boolean;
  /** Newer than 0.25: several processes may share one sampling session. */
  readonly sampleJoinSamplingSession: boolean;
  /** Tinklet extension: the extensions that this server has, for example `tokenizer`. Absent on other servers. */
  readonly tinkletExtensions?: readonly string[];
}
export const ClientConfigResponse = message<
  ClientConfigResponse,
  Exclude<keyof ClientConfigResponse, "tinkletExtensions">
>("ClientConfigResponse", {
  pjwtAuthEnabled: withDefault(bool(), false),
  credentialDefaultSource: withDefault(string(), "api_key"),
  sampleDispatchBytesSemaphoreSize: withDefault(int(), 10 * 1024 * 1024),
  inflightResponseBytesSemaphoreSize: withDefault(int(), 50 * 1024 * 1024),
  parallelFwdbwdChunks: withDefault(bool(), true),
  protoCompressFwdbwd: withDefault(bool(), false),
  fwdbwdMaxChunkLen: withDefault(int(), 1024),
  fwdbwdMaxChunkBytesCount: withDefault(int(), 5_000_000),
  fwdbwdDispatchBytesSemaphoreSize: withDefault(int(), 50_000_000),
  billingExceptionMaxPauseDurationSec: withDefault(int(), 3600),
  sampleNoRetries: withDefault(bool(), false),
  sampleEnableStuckDetection: withDefault(bool(), true),
  sampleMaxConcurrentRequests: withDefault(int(), 2000),
  usePyqwestTransport: withDefault(bool(), true),
  createModelViaLoadWeights: withDefault(bool(), false),
  sampleUseRetrieveFutures: withDefault(bool(), false),
  customLossServerSide: withDefault(bool(), false),
  sampleJoinSamplingSession: withDefault(bool(), false),
  tinkletExtensions: optional(list(string())),
});

/** Flags that may change while a client runs. */
export interface ClientDynamicConfigResponse {
  /** Seconds until the next refresh. */
  readonly refreshIntervalSec: number;
  /** Newer than 0.25: abandoned samples may be cancelled. */
  readonly sampleCancelEnabled: boolean;
  /** Newer than 0.25. */
  readonly sampleCancelMaxBatchSize: number;
}
export const ClientDynamicConfigResponse = message<ClientDynamicConfigResponse, keyof ClientDynamicConfigResponse>(
  "ClientDynamicConfigResponse",
  {
    refreshIntervalSec: withDefault(int(), 300),
    sampleCancelEnabled: withDefault(bool(), false),
    sampleCancelMaxBatchSize: withDefault(int(), 64),
  },
);

/** The token that the credential was exchanged for. */
export interface AuthTokenResponse {
  readonly jwt: string;
}
export const AuthTokenResponse = message<AuthTokenResponse>("AuthTokenResponse", { jwt: string() });

/** Opens a session. */
export interface CreateSessionRequest {
  readonly tags: readonly string[];
  readonly userMetadata?: UserMetadata;
  readonly sdkVersion: string;
  readonly projectId?: string;
  /** Newer than 0.25. */
  readonly displayName?: string;
  readonly type: "create_session";
}
export const CreateSessionRequest = message<CreateSessionRequest, "type">("CreateSessionRequest", {
  tags: list(string()),
  userMetadata: optional(map(json())),
  sdkVersion: string(),
  projectId: optional(string()),
  displayName: optional(string()),
  type: literal("create_session"),
});

/** The new session, with messages of the service for the user. */
export interface CreateSessionResponse {
  readonly type: "create_session";
  readonly infoMessage?: string;
  readonly warningMessage?: string;
  readonly errorMessage?: string;
  readonly sessionId: string;
}
export const CreateSessionResponse = message<CreateSessionResponse, "type">("CreateSessionResponse", {
  type: literal("create_session"),
  infoMessage: optional(string()),
  warningMessage: optional(string()),
  errorMessage: optional(string()),
  sessionId: string(),
});

/** Keeps a session alive. */
export interface SessionHeartbeatRequest {
  readonly sessionId: string;
  readonly type: "session_heartbeat";
}
export const SessionHeartbeatRequest = message<SessionHeartbeatRequest, "type">("SessionHeartbeatRequest", {
  sessionId: string(),
  type: literal("session_heartbeat"),
});

/** The session is alive. */
export interface SessionHeartbeatResponse {
  readonly type: "session_heartbeat";
}
export const SessionHeartbeatResponse = message<SessionHeartbeatResponse, "type">("SessionHeartbeatResponse", {
  type: literal("session_heartbeat"),
});

/** Opens a sampler over a base model or a checkpoint. */
export interface CreateSamplingSessionRequest {
  readonly sessionId: string;
  readonly samplingSessionSeqId: number;
  readonly baseModel?: string;
  readonly modelPath?: string;
  readonly type: "create_sampling_session";
}
export const CreateSamplingSessionRequest = message<CreateSamplingSessionRequest, "type">(
  "CreateSamplingSessionRequest",
  {
    sessionId: string(),
    samplingSessionSeqId: int(),
    baseModel: optional(string()),
    modelPath: optional(string()),
    type: literal("create_sampling_session"),
  },
);

/** The new sampling session. */
export interface CreateSamplingSessionResponse {
  readonly type: "create_sampling_session";
  readonly samplingSessionId: string;
}
export const CreateSamplingSessionResponse = message<CreateSamplingSessionResponse, "type">(
  "CreateSamplingSessionResponse",
  { type: literal("create_sampling_session"), samplingSessionId: string() },
);

/** A model that the service can train or sample. */
export interface SupportedModel {
  readonly modelName?: string;
  readonly maxContextLength?: number;
  /** Newer than 0.25. */
  readonly trainable?: boolean;
  /** Newer than 0.25. */
  readonly sampleable?: boolean;
}
export const SupportedModel = message<SupportedModel>(
  "SupportedModel",
  {
    modelName: optional(string()),
    maxContextLength: optional(int()),
    trainable: optional(bool()),
    sampleable: optional(bool()),
  },
  // older servers send a list of names
  { fromScalar: (wire) => (typeof wire === "string" ? { model_name: wire } : wire) },
);

/** The models and features of a server. */
export interface GetServerCapabilitiesResponse {
  readonly supportedModels: readonly SupportedModel[];
}
export const GetServerCapabilitiesResponse = message<GetServerCapabilitiesResponse>("GetServerCapabilitiesResponse", {
  supportedModels: list(SupportedModel.field),
});

/** The server is up. */
export interface HealthResponse {
  readonly status: "ok";
}
export const HealthResponse = message<HealthResponse>("HealthResponse", { status: oneOf("ok") });

/** The owner of a credential, from its claims. */
export interface WhoamiResponse {
  readonly userUrn: string;
  readonly email?: string;
  /** Newer than 0.25. */
  readonly orgUrn?: string;
}
export const WhoamiResponse = message<WhoamiResponse>("WhoamiResponse", {
  userUrn: string(),
  email: optional(string()),
  orgUrn: optional(string()),
});
