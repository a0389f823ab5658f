/**
 * Progress of runs on Tinklet servers: the status and loss curve of each run, and the state of the server. Tinklet extensions; the studio
 * uses them.
 */
import { date } from "../schema/dates.ts";
import { bool, float, int, json, list, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";
import { Cursor } from "./rest.ts";

/**
 * The status of a run. `training`: one of its requests is running; `waiting`: it has only queued requests; `idle`: it has no requests;
 * `done`: its client has ended it; `failed`: it could not be created.
 */
export type RunStatus = "training" | "waiting" | "idle" | "done" | "failed";

/** Summary of a run. */
export interface RunProgress {
  readonly runId: string;
  /** Unique per tenant, except that runs that resume each other have one name. */
  readonly name: string;
  readonly sessionId: string;
  readonly status: RunStatus;
  /** Why its next request waits, or why the run failed. */
  readonly reason?: string;
  readonly baseModel: string;
  readonly loraRank: number;
  /** The display name of its session. */
  readonly displayName?: string;
  readonly tags: readonly string[];
  readonly userMetadata: Readonly<Record<string, string>>;
  readonly createdAt: Date;
  readonly lastRequestAt: Date;
  /** Optimizer steps taken. */
  readonly steps: number;
  /** Tokens trained on. */
  readonly tokens: number;
  readonly loss?: number;
  readonly gradientNorm?: number;
  /** The loss over the whole run, at most 48 values. */
  readonly sparkline: readonly number[];
}
export const RunProgress = message<RunProgress>("RunProgress", {
  runId: string(),
  name: string(),
  sessionId: string(),
  status: oneOf<RunStatus>("training", "waiting", "idle", "done", "failed"),
  reason: optional(string()),
  baseModel: string(),
  loraRank: int(),
  displayName: optional(string()),
  tags: list(string()),
  userMetadata: map(string()),
  createdAt: date(),
  lastRequestAt: date(),
  steps: int(),
  tokens: int(),
  loss: optional(float()),
  gradientNorm: optional(float()),
  sparkline: list(float()),
});

/** A page of {@link RunProgress}, most recently used first. */
export interface RunProgressListResponse {
  readonly runs: readonly RunProgress[];
  readonly cursor: Cursor;
}
export const RunProgressListResponse = message<RunProgressListResponse>("RunProgressListResponse", {
  runs: list(RunProgress.field),
  cursor: Cursor.field,
});

/** Optimizer steps as columns: entry i of each column belongs to the same step. */
export interface StepColumns {
  /** Ids for {@link RunStepsQuery.after}. */
  readonly id: readonly number[];
  /** From 1. */
  readonly step: readonly number[];
  /** Milliseconds since the epoch. */
  readonly time: readonly number[];
  /** Tokens trained on up to this step. */
  readonly tokens: readonly number[];
  /** Mean loss per weighted token; null where it was not a number. */
  readonly loss: readonly (number | null)[];
  /** Norm of the gradient before clipping. */
  readonly gradientNorm: readonly (number | null)[];
  readonly learningRate: readonly (number | null)[];
  /** Milliseconds that the step's requests waited for the engine. */
  readonly queueMs: readonly number[];
  /** Milliseconds of engine time. */
  readonly computeMs: readonly number[];
}
export const StepColumns = message<StepColumns>("StepColumns", {
  id: list(int()),
  step: list(int()),
  time: list(int()),
  tokens: list(int()),
  loss: list(nullable(float())),
  gradientNorm: list(nullable(float())),
  learningRate: list(nullable(float())),
  queueMs: list(int()),
  computeMs: list(int()),
});

/** Something that happened to a run. */
export interface RunEvent {
  readonly time: Date;
  /** `created`, `saved`, `failed`, `refused` or `restarted`. */
  readonly kind: string;
  readonly detail: string;
}
export const RunEvent = message<RunEvent>("RunEvent", { time: date(), kind: string(), detail: string() });

/** One run with its curve. */
export interface RunStepsResponse {
  readonly run: RunProgress;
  readonly steps: StepColumns;
  /** The fields of the request that created it. */
  readonly config: Readonly<Record<string, JsonValue>>;
  /** Latest first. */
  readonly events: readonly RunEvent[];
}
export const RunStepsResponse = message<RunStepsResponse>("RunStepsResponse", {
  run: RunProgress.field,
  steps: StepColumns.field,
  config: map(json()),
  events: list(RunEvent.field),
});

/** Which steps. */
export interface RunStepsQuery {
  /** Only those after this id. */
  readonly after: number;
}
export const RunStepsQuery = message<RunStepsQuery, "after">("RunStepsQuery", { after: withDefault(int(), 0) });

/** Where a stream of events starts. */
export interface WatchRunsQuery {
  /** The last event's id, for clients that cannot send `Last-Event-ID`. */
  readonly after?: string;
  /** Whether the stream stays open for new events; if false, it ends after the missed events. */
  readonly follow: boolean;
}
export const WatchRunsQuery = message<WatchRunsQuery, "follow">("WatchRunsQuery", {
  after: optional(string()),
  follow: withDefault(bool(), true),
});

/** Event of the stream: new optimizer steps of a run. */
export interface StepsEvent {
  readonly runId: string;
  readonly steps: StepColumns;
}
export const StepsEvent = message<StepsEvent>("StepsEvent", { runId: string(), steps: StepColumns.field });

/** Load of one base model of the server. */
export interface ModelLoad {
  readonly baseModel: string;
  readonly contextLength: number;
  readonly waitingTraining: number;
  readonly waitingSamples: number;
  readonly activeSequences: number;
  readonly weightsBytes: number;
  readonly adaptersBytes: number;
  readonly cacheBytes: number;
  readonly prefixCacheBytes: number;
}
export const ModelLoad = message<ModelLoad>("ModelLoad", {
  baseModel: string(),
  contextLength: int(),
  waitingTraining: int(),
  waitingSamples: int(),
  activeSequences: int(),
  weightsBytes: int(),
  adaptersBytes: int(),
  cacheBytes: int(),
  prefixCacheBytes: int(),
});

/** The caller's tokens per interval, oldest first; the last interval is incomplete. */
export interface TokenRates {
  readonly intervalSeconds: number;
  readonly training: readonly number[];
  readonly sampled: readonly number[];
  readonly prefilled: readonly number[];
  /** Prompt tokens that came from the prefix cache. */
  readonly reused: readonly number[];
}
export const TokenRates = message<TokenRates>("TokenRates", {
  intervalSeconds: int(),
  training: list(int()),
  sampled: list(int()),
  prefilled: list(int()),
  reused: list(int()),
});

/** State of the server. */
export interface ServerStateResponse {
  readonly startedAt: Date;
  /** Whether its data survives a restart. */
  readonly durable: boolean;
  readonly pendingRequests: number;
  readonly residentMemoryBytes: number;
  readonly models: readonly ModelLoad[];
  readonly rates: TokenRates;
}
export const ServerStateResponse = message<ServerStateResponse>("ServerStateResponse", {
  startedAt: date(),
  durable: bool(),
  pendingRequests: int(),
  residentMemoryBytes: int(),
  models: list(ModelLoad.field),
  rates: TokenRates.field,
});
