/** Messages of the telemetry that a client sends about its session. */

import { describe, isPlainObject } from "../describe.ts";
import { date } from "../schema/dates.ts";
import {
  custom,
  FieldProblem,
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

/** The kinds of telemetry. */
export type EventType = "SESSION_START" | "SESSION_END" | "UNHANDLED_EXCEPTION" | "GENERIC_EVENT";
/** Severity of an event. */
export type Severity = "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL" | (string & {});

interface EventCommon {
  readonly eventId: string;
  /** Counts from 0 within the session. */
  readonly eventSessionIndex: number;
  readonly severity: Severity;
  readonly timestamp: Date;
}
const common = {
  eventId: string(),
  eventSessionIndex: int(),
  severity: openWord("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
  timestamp: date(),
} as const;

/** A session began. */
export interface SessionStartEvent extends EventCommon {
  readonly event: "SESSION_START";
}
export const SessionStartEvent = message<SessionStartEvent, "event">("SessionStartEvent", {
  event: literal("SESSION_START"),
  ...common,
});

/** A session ended. */
export interface SessionEndEvent extends EventCommon {
  readonly event: "SESSION_END";
  /** A duration in the format of a Python timedelta, for example `0:00:00.551106`. */
  readonly duration: string;
}
export const SessionEndEvent = message<SessionEndEvent, "event">("SessionEndEvent", {
  event: literal("SESSION_END"),
  duration: string(),
  ...common,
});

/** An unhandled error. */
export interface UnhandledExceptionEvent extends EventCommon {
  readonly event: "UNHANDLED_EXCEPTION";
  readonly errorType: string;
  readonly errorMessage: string;
  readonly traceback?: string;
}
export const UnhandledExceptionEvent = message<UnhandledExceptionEvent, "event">("UnhandledExceptionEvent", {
  event: literal("UNHANDLED_EXCEPTION"),
  errorType: string(),
  errorMessage: string(),
  traceback: optional(string()),
  ...common,
});

/** Any other event, with its name. */
export interface GenericEvent extends EventCommon {
  readonly event: "GENERIC_EVENT";
  readonly eventName: string;
  readonly eventData: Readonly<Record<string, JsonValue>>;
}
export const GenericEvent = message<GenericEvent, "event" | "eventData">("GenericEvent", {
  event: literal("GENERIC_EVENT"),
  eventName: string(),
  eventData: withDefault(map(json()), {}),
  ...common,
});

/** A telemetry event, discriminated by `event`. */
export type TelemetryEvent = SessionStartEvent | SessionEndEvent | UnhandledExceptionEvent | GenericEvent;

const eventMessages = {
  SESSION_START: SessionStartEvent,
  SESSION_END: SessionEndEvent,
  UNHANDLED_EXCEPTION: UnhandledExceptionEvent,
  GENERIC_EVENT: GenericEvent,
} as const;

function eventMessage(value: unknown): Message<TelemetryEvent> {
  if (!isPlainObject(value)) throw new FieldProblem(`must be an object, not ${describe(value)}`);
  const { event } = value;
  if (typeof event !== "string" || !Object.hasOwn(eventMessages, event)) {
    const problem = new FieldProblem(`must be one of ${Object.keys(eventMessages).join(", ")}, not ${describe(event)}`);
    problem.path.unshift("event");
    throw problem;
  }
  return eventMessages[event as EventType] as unknown as Message<TelemetryEvent>;
}

const telemetryEvent = custom<TelemetryEvent>(
  {
    type: "union",
    options: Object.values(eventMessages).map((item) => ({ type: "message" as const, name: item.name })),
  },
  (wire) => eventMessage(wire).field.fromWire(wire),
  (value) => eventMessage(value).field.toWire(value),
);

/** A batch of events from one process. */
export interface TelemetrySendRequest {
  readonly events: readonly TelemetryEvent[];
  readonly platform: string;
  readonly sdkVersion: string;
  readonly sessionId: string;
  readonly processUuid: string;
}
/** An alias, which the Python SDK has too. */
export type TelemetryBatch = TelemetrySendRequest;
export const TelemetrySendRequest = message<TelemetrySendRequest>("TelemetrySendRequest", {
  events: list(telemetryEvent),
  platform: string(),
  sdkVersion: string(),
  sessionId: string(),
  processUuid: string(),
});

/** The server has accepted a batch. */
export interface TelemetryResponse {
  readonly status: "accepted";
}
export const TelemetryResponse = message<TelemetryResponse>("TelemetryResponse", { status: oneOf("accepted") });
