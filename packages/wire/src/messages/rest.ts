/** Messages of the REST routes: training runs, checkpoints, sessions, samplers, audit and billing. */

import { describe, isPlainObject } from "../describe.ts";
import { date } from "../schema/dates.ts";
import {
  bool,
  custom,
  FieldProblem,
  float,
  int,
  json,
  list,
  literal,
  map,
  oneOf,
  openWord,
  optional,
  string,
  withDefault,
} from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { type Message, message } from "../schema/message.ts";

/** Which items a list contains: those of the caller, or all that the caller may see. */
export type AccessScope = "owned" | "accessible";

/** What a checkpoint is for. Newer services also know `external`. */
export type CheckpointType = "training" | "sampler" | "external" | (string & {});

/** Position of a page in a list. */
export interface Cursor {
  readonly offset: number;
  readonly limit: number;
  readonly totalCount: number;
}
export const Cursor = message<Cursor>("Cursor", { offset: int(), limit: int(), totalCount: int() });

/** A saved checkpoint. */
export interface Checkpoint {
  /** `weights/<name>` or `sampler_weights/<name>`. */
  readonly checkpointId: string;
  readonly checkpointType: CheckpointType;
  readonly time: Date;
  readonly tinkerPath: string;
  readonly sizeBytes?: number;
  /** @defaultValue false */
  readonly public: boolean;
  readonly expiresAt?: Date;
  /** Newer than 0.25. */
  readonly userMetadata?: Readonly<Record<string, string>>;
  /** The name of its run. Tinklet servers only, and for the caller's own checkpoints. */
  readonly runName?: string;
  /** `NAME@CHECKPOINT`, the same for training state and sampler weights of one checkpoint. Tinklet servers only. */
  readonly reference?: string;
}
export const Checkpoint = message<Checkpoint, "public">("Checkpoint", {
  checkpointId: string(),
  checkpointType: openWord("training", "sampler", "external"),
  time: date(),
  tinkerPath: string(),
  sizeBytes: optional(int()),
  public: withDefault(bool(), false),
  expiresAt: optional(date()),
  userMetadata: optional(map(string())),
  runName: optional(string()),
  reference: optional(string()),
});

/** A page of checkpoints. */
export interface CheckpointsListResponse {
  readonly checkpoints: readonly Checkpoint[];
  readonly cursor?: Cursor;
}
export const CheckpointsListResponse = message<CheckpointsListResponse>("CheckpointsListResponse", {
  checkpoints: list(Checkpoint.field),
  cursor: optional(Cursor.field),
});

/** URL of a checkpoint's archive, and when it expires. */
export interface CheckpointArchiveUrlResponse {
  readonly url: string;
  readonly expires: Date;
}
export const CheckpointArchiveUrlResponse = message<CheckpointArchiveUrlResponse>("CheckpointArchiveUrlResponse", {
  url: string(),
  expires: date(),
});

/** A training run: one model and its checkpoints. */
export interface TrainingRun {
  readonly trainingRunId: string;
  readonly baseModel: string;
  readonly modelOwner: string;
  readonly isLora: boolean;
  /** @defaultValue false */
  readonly corrupted: boolean;
  readonly loraRank?: number;
  readonly lastRequestTime: Date;
  readonly lastCheckpoint?: Checkpoint;
  readonly lastSamplerCheckpoint?: Checkpoint;
  readonly userMetadata?: Readonly<Record<string, string>>;
  /** Its name, unique per tenant except that runs that resume each other share it. Tinklet servers only, and for the caller's own runs. */
  readonly name?: string;
}
export const TrainingRun = message<TrainingRun, "corrupted">("TrainingRun", {
  trainingRunId: string(),
  baseModel: string(),
  modelOwner: string(),
  isLora: bool(),
  corrupted: withDefault(bool(), false),
  loraRank: optional(int()),
  lastRequestTime: date(),
  lastCheckpoint: optional(Checkpoint.field),
  lastSamplerCheckpoint: optional(Checkpoint.field),
  userMetadata: optional(map(string())),
  name: optional(string()),
});

/** A page of training runs. */
export interface TrainingRunsResponse {
  readonly trainingRuns: readonly TrainingRun[];
  /** Some servers leave it out. */
  readonly cursor?: Cursor;
}
export const TrainingRunsResponse = message<TrainingRunsResponse>("TrainingRunsResponse", {
  trainingRuns: list(TrainingRun.field),
  cursor: optional(Cursor.field),
});

/** A page of session ids. */
export interface ListSessionsResponse {
  readonly sessions: readonly string[];
}
export const ListSessionsResponse = message<ListSessionsResponse>("ListSessionsResponse", { sessions: list(string()) });

/** The training runs and samplers of a session. */
export interface GetSessionResponse {
  readonly trainingRunIds: readonly string[];
  readonly samplerIds: readonly string[];
  /** Newer than 0.25. */
  readonly userMetadata?: Readonly<Record<string, string>>;
  /** Newer than 0.25. */
  readonly displayName?: string;
}
export const GetSessionResponse = message<GetSessionResponse>("GetSessionResponse", {
  trainingRunIds: list(string()),
  samplerIds: list(string()),
  userMetadata: optional(map(string())),
  displayName: optional(string()),
});

/** Assigns a session to a project. */
export interface AssignSessionProjectRequest {
  readonly projectId: string;
}
export const AssignSessionProjectRequest = message<AssignSessionProjectRequest>("AssignSessionProjectRequest", {
  projectId: string(),
});

/** Status of the export of a session's trace. */
export interface TraceExportResponse {
  readonly status: "pending" | "ready" | "failed" | (string & {});
  readonly url?: string;
  readonly error?: string;
}
export const TraceExportResponse = message<TraceExportResponse>("TraceExportResponse", {
  status: openWord("pending", "ready", "failed"),
  url: optional(string()),
  error: optional(string()),
});

/** The weights of a sampler: a base model, or a checkpoint of it. */
export interface GetSamplerResponse {
  readonly samplerId: string;
  readonly baseModel: string;
  readonly modelPath?: string;
}
export const GetSamplerResponse = message<GetSamplerResponse>("GetSamplerResponse", {
  samplerId: string(),
  baseModel: string(),
  modelPath: optional(string()),
});

/** An entry of the audit log. */
export interface AuditLogEntry {
  readonly timestamp: Date;
  readonly event: string;
  readonly modelId?: string;
  readonly tinkerPath?: string;
  readonly purpose?: string;
  /** Newer than 0.25: further details. */
  readonly eventDetails?: Readonly<Record<string, JsonValue>>;
}
export const AuditLogEntry = message<AuditLogEntry>("AuditLogEntry", {
  timestamp: date(),
  event: string(),
  modelId: optional(string()),
  tinkerPath: optional(string()),
  purpose: optional(string()),
  eventDetails: optional(map(json())),
});

/** Result of an audit query. */
export interface AuditLogResponse {
  readonly entries: readonly AuditLogEntry[];
}
export const AuditLogResponse = message<AuditLogResponse>("AuditLogResponse", { entries: list(AuditLogEntry.field) });

/** Usage: tokens trained on. */
export interface TrainingBillingEvent {
  readonly type: "training";
  readonly tokenCount: number;
}
export const TrainingBillingEvent = message<TrainingBillingEvent, "type">("TrainingBillingEvent", {
  type: literal("training"),
  tokenCount: int(),
});
/** Usage: prompt tokens of samples; `cached` ones came from the prefix cache. */
export interface SamplingPrefillBillingEvent {
  readonly type: "sampling_prefill";
  readonly cached: boolean;
  readonly tokenCount: number;
}
export const SamplingPrefillBillingEvent = message<SamplingPrefillBillingEvent, "type">("SamplingPrefillBillingEvent", {
  type: literal("sampling_prefill"),
  cached: bool(),
  tokenCount: int(),
});
/** Usage: sampled tokens. */
export interface SamplingSampleBillingEvent {
  readonly type: "sampling_sample";
  readonly tokenCount: number;
}
export const SamplingSampleBillingEvent = message<SamplingSampleBillingEvent, "type">("SamplingSampleBillingEvent", {
  type: literal("sampling_sample"),
  tokenCount: int(),
});
/** Usage: saved checkpoints. */
export interface CheckpointBillingEvent {
  readonly type: "checkpoint";
  readonly count: number;
}
export const CheckpointBillingEvent = message<CheckpointBillingEvent, "type">("CheckpointBillingEvent", {
  type: literal("checkpoint"),
  count: int(),
});
/** Usage: storage of checkpoints over time. */
export interface StorageBillingEvent {
  readonly type: "storage";
  readonly gigabyteHours: number;
}
export const StorageBillingEvent = message<StorageBillingEvent, "type">("StorageBillingEvent", {
  type: literal("storage"),
  gigabyteHours: float(),
});

/** A kind of usage that this version does not know; its fields are in `wireOf`. */
export interface UnknownBillingEvent {
  readonly type: string & {};
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A usage record, discriminated by `type`. */
export type BillingEventInfo =
  | TrainingBillingEvent
  | SamplingPrefillBillingEvent
  | SamplingSampleBillingEvent
  | CheckpointBillingEvent
  | StorageBillingEvent
  | UnknownBillingEvent;

/** The kind of usage: the field `type`, or, if absent, inferred from a field that only one kind has, as the official client does. */
function billingType(wire: Readonly<Record<string, unknown>>): string | undefined {
  if (typeof wire["type"] === "string") return wire["type"];
  if ("cached" in wire) return "sampling_prefill";
  if ("token_count" in wire) return "training";
  return "count" in wire ? "checkpoint" : "gigabyte_hours" in wire ? "storage" : undefined;
}

const usageMessages: Readonly<Record<string, Message<BillingEventInfo>>> = Object.fromEntries(
  [
    ["training", TrainingBillingEvent],
    ["sampling_prefill", SamplingPrefillBillingEvent],
    ["sampling_sample", SamplingSampleBillingEvent],
    ["checkpoint", CheckpointBillingEvent],
    ["storage", StorageBillingEvent],
  ].map(([type, schema]) => [type as string, schema as unknown as Message<BillingEventInfo>]),
);
const usageInfo = custom<BillingEventInfo>(
  {
    type: "union",
    options: Object.values(usageMessages).map((item) => ({ type: "message" as const, name: item.name })),
  },
  (wire) => {
    if (!isPlainObject(wire)) throw new FieldProblem(`must be an object, not ${describe(wire)}`);
    const type = billingType(wire);
    if (type === undefined)
      throw new FieldProblem("has no type, and no field from which the kind of usage can be inferred");
    const known = Object.hasOwn(usageMessages, type) ? usageMessages[type] : undefined;
    return known === undefined ? { type, fields: wire } : known.field.fromWire(wire);
  },
  (value) => {
    const known = Object.hasOwn(usageMessages, value.type) ? usageMessages[value.type] : undefined;
    return known === undefined ? (value as UnknownBillingEvent).fields : known.field.toWire(value);
  },
);

/** One hour of one kind of usage. */
export interface BillingUsageEvent {
  readonly bucketStart: Date;
  readonly bucketEnd: Date;
  readonly baseModel?: string;
  readonly userId?: string;
  readonly userName?: string;
  readonly sessionId?: string;
  readonly projectId?: string;
  readonly eventInfo: BillingEventInfo;
  /** Newer than 0.25, like the rates. */
  readonly estimatedCostUsd?: number;
  readonly effectiveRateUsdPerMillionTokens?: number;
  readonly effectiveRateUsdPerGigabyteMonth?: number;
}
export const BillingUsageEvent = message<BillingUsageEvent>("BillingUsageEvent", {
  bucketStart: date(),
  bucketEnd: date(),
  baseModel: optional(string()),
  userId: optional(string()),
  userName: optional(string()),
  sessionId: optional(string()),
  projectId: optional(string()),
  eventInfo: usageInfo,
  estimatedCostUsd: optional(float()),
  effectiveRateUsdPerMillionTokens: optional(float()),
  effectiveRateUsdPerGigabyteMonth: optional(float()),
});

/** A session in a usage report. */
export interface BillingUsageSession {
  readonly userMetadata?: Readonly<Record<string, string>>;
}
export const BillingUsageSession = message<BillingUsageSession>("BillingUsageSession", {
  userMetadata: optional(map(string())),
});

/** Hourly usage, and the sessions it refers to, by id. */
export interface BillingUsageResponse {
  readonly data: readonly BillingUsageEvent[];
  readonly sessions: Readonly<Record<string, BillingUsageSession>>;
  /** Newer than 0.25: costs are complete up to this time. */
  readonly costDataThrough?: Date;
}
export const BillingUsageResponse = message<BillingUsageResponse, "sessions">("BillingUsageResponse", {
  data: list(BillingUsageEvent.field),
  sessions: withDefault(map(BillingUsageSession.field), {}),
  costDataThrough: optional(date()),
});

/** The time range of a billing query. */
export interface GetBillingUsageRequest {
  readonly startingOn: Date;
  readonly endingBefore: Date;
}
export const GetBillingUsageRequest = message<GetBillingUsageRequest>("GetBillingUsageRequest", {
  startingOn: date(),
  endingBefore: date(),
});

/** Kinds of events in an audit query. */
export type AuditEventType = "all" | "checkpoints" | "projects" | "teams" | "organizations";
/** The codec of {@link AuditEventType}. */
export const auditEventType = oneOf("all", "checkpoints", "projects", "teams", "organizations");

/** Asks for the current storage of checkpoints. Newer than 0.25. */
export interface GetCurrentCheckpointStorageUsageRequest {
  readonly projectId?: string;
}
export const GetCurrentCheckpointStorageUsageRequest = message<GetCurrentCheckpointStorageUsageRequest>(
  "GetCurrentCheckpointStorageUsageRequest",
  { projectId: optional(string()) },
);

/** Storage of one user's checkpoints in one project. */
export interface CurrentCheckpointStorageUsageItem {
  readonly projectId?: string;
  readonly orgUserUrn?: string;
  readonly userEmail?: string;
  readonly userName?: string;
  readonly checkpointCount: number;
  readonly sizeBytes: number;
  readonly sizeGigabytes: number;
  readonly estimatedMonthlyCostUsd?: number;
}
export const CurrentCheckpointStorageUsageItem = message<CurrentCheckpointStorageUsageItem>(
  "CurrentCheckpointStorageUsageItem",
  {
    projectId: optional(string()),
    orgUserUrn: optional(string()),
    userEmail: optional(string()),
    userName: optional(string()),
    checkpointCount: int(),
    sizeBytes: int(),
    sizeGigabytes: float(),
    estimatedMonthlyCostUsd: optional(float()),
  },
);

/** Current storage of checkpoints. */
export interface CurrentCheckpointStorageUsageResponse {
  readonly effectiveRateUsdPerGigabyteMonth?: number;
  readonly data: readonly CurrentCheckpointStorageUsageItem[];
}
export const CurrentCheckpointStorageUsageResponse = message<CurrentCheckpointStorageUsageResponse>(
  "CurrentCheckpointStorageUsageResponse",
  {
    effectiveRateUsdPerGigabyteMonth: optional(float()),
    data: list(CurrentCheckpointStorageUsageItem.field),
  },
);
