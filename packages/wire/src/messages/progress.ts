/**
 * How runs are getting on, as Tinklet's own servers tell it: each run's state and curve, what the server is doing, and the files that
 * training loops leave in run folders. Routes of ours; the studio is made of them.
 */
import { date } from "../schema/dates.ts";
import { bool, float, int, json, list, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";
import { Cursor } from "./rest.ts";

/**
 * What a run is doing: a request of it runs; requests wait and none runs; nothing is asked of it; its client has finished with it; it
 * could not be created.
 */
export type RunStatus = "training" | "waiting" | "idle" | "done" | "failed";

/** A run at a glance. */
export interface RunProgress {
  readonly runId: string;
  readonly sessionId: string;
  readonly status: RunStatus;
  /** What its next request waits for, or why the run failed. */
  readonly reason?: string;
  readonly baseModel: string;
  readonly loraRank: number;
  /** The name that its session was given. */
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
  /** The loss over the whole run, in at most 48 values. */
  readonly sparkline: readonly number[];
}
export const RunProgress = message<RunProgress>("RunProgress", {
  runId: string(),
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

/** A page of {@link RunProgress}, the run that was used last first. */
export interface RunProgressListResponse {
  readonly runs: readonly RunProgress[];
  readonly cursor: Cursor;
}
export const RunProgressListResponse = message<RunProgressListResponse>("RunProgressListResponse", {
  runs: list(RunProgress.field),
  cursor: Cursor.field,
});

/** Optimizer steps as columns: entry i of each belongs to the same step. */
export interface StepColumns {
  /** Numbers by which {@link RunStepsQuery.after} goes on. */
  readonly id: readonly number[];
  /** From 1. */
  readonly step: readonly number[];
  /** Milliseconds since the epoch. */
  readonly time: readonly number[];
  /** Tokens trained on until then. */
  readonly tokens: readonly number[];
  /** Mean loss per weighted token; null where it was not a number. */
  readonly loss: readonly (number | null)[];
  /** Norm of the gradient before clipping. */
  readonly gradientNorm: readonly (number | null)[];
  readonly learningRate: readonly (number | null)[];
  /** Milliseconds that its requests waited for the engine. */
  readonly queueMs: readonly number[];
  /** Milliseconds that the engine took. */
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
  /** What was asked for when it was created. */
  readonly config: Readonly<Record<string, JsonValue>>;
  /** The latest first. */
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

/** Where a stream of events begins. */
export interface WatchRunsQuery {
  /** An event's id, for readers that cannot send `Last-Event-ID`. */
  readonly after?: string;
  /** Whether to stay and tell what happens; without, the stream ends after what was missed. */
  readonly follow: boolean;
}
export const WatchRunsQuery = message<WatchRunsQuery, "follow">("WatchRunsQuery", {
  after: optional(string()),
  follow: withDefault(bool(), true),
});

/** Optimizer steps of a run, as an event of the stream. */
export interface StepsEvent {
  readonly runId: string;
  readonly steps: StepColumns;
}
export const StepsEvent = message<StepsEvent>("StepsEvent", { runId: string(), steps: StepColumns.field });

/** One base model of the server. */
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

/** The caller's tokens per interval, oldest first; the last interval is not over. */
export interface TokenRates {
  readonly intervalSeconds: number;
  readonly training: readonly number[];
  readonly sampled: readonly number[];
  readonly prefilled: readonly number[];
  /** Of prompts that the cache had. */
  readonly reused: readonly number[];
}
export const TokenRates = message<TokenRates>("TokenRates", {
  intervalSeconds: int(),
  training: list(int()),
  sampled: list(int()),
  prefilled: list(int()),
  reused: list(int()),
});

/** What the server is doing. */
export interface ServerStateResponse {
  readonly startedAt: Date;
  /** Whether what it has is kept when it stops. */
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
