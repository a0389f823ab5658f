/** Messages about traces: GenAI spans that programs export to a Tinklet server, as conversations, with ratings and training data. */
import { date } from "../schema/dates.ts";
import { bool, int, json, list, map, nullable, oneOf, optional, string, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { message } from "../schema/message.ts";

/** Selects traces by their rating. */
export type TraceRatingFilter = "up" | "down" | "rated" | "unrated";
/** Whether a trace has an error; a query has no booleans. */
export type TraceErrorFilter = "true" | "false";

const filterFields = {
  since: optional(date()),
  until: optional(date()),
  model: optional(string()),
  tool: optional(string()),
  error: optional(oneOf<TraceErrorFilter>("true", "false")),
  rating: optional(oneOf<TraceRatingFilter>("up", "down", "rated", "unrated")),
  text: optional(string()),
  regex: optional(string()),
};

/** Filters of traces; an absent one does not restrict the result. */
export interface TraceFilters {
  /** Traces that started at this time or later. */
  readonly since?: Date;
  /** Traces that started before this time. */
  readonly until?: Date;
  /** Name of a model that was called. */
  readonly model?: string;
  /** Name of a tool that was called. */
  readonly tool?: string;
  readonly error?: TraceErrorFilter;
  readonly rating?: TraceRatingFilter;
  /** Text in a message or a call, in any case. */
  readonly text?: string;
  /** A JavaScript regular expression that a message or a call matches. */
  readonly regex?: string;
}

/** Query of `listTraces`. */
export interface ListTracesQuery extends TraceFilters {
  /** @defaultValue 50 */
  readonly limit: number;
  /** `next_cursor` of the page before. */
  readonly cursor?: string;
}
export const ListTracesQuery = message<ListTracesQuery, "limit">("ListTracesQuery", {
  ...filterFields,
  limit: withDefault(int(), 50),
  cursor: optional(string()),
});

/** One trace in a list. */
export interface TraceSummary {
  readonly traceId: string;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly spans: number;
  readonly bytes: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** `service.name` of the program. */
  readonly service?: string;
  readonly models: readonly string[];
  /** Tools that were called. */
  readonly tools: readonly string[];
  readonly error?: string;
  /** The beginning of the user's message in the first call. */
  readonly prompt?: string;
  /** The beginning of the last answer. */
  readonly answer?: string;
  /** Whether an answer was rated, commented on or edited. */
  readonly rated: boolean;
  /** The rating that was given last. */
  readonly rating?: TraceRatingValue;
}
export type TraceRatingValue = "up" | "down";
const ratingValue = () => oneOf<TraceRatingValue>("up", "down");
export const TraceSummary = message<TraceSummary>("TraceSummary", {
  traceId: string(),
  startedAt: date(),
  endedAt: date(),
  spans: int(),
  bytes: int(),
  inputTokens: int(),
  outputTokens: int(),
  service: optional(string()),
  models: list(string()),
  tools: list(string()),
  error: optional(string()),
  prompt: optional(string()),
  answer: optional(string()),
  rated: bool(),
  rating: optional(ratingValue()),
});

/** A page of traces, newest first. */
export interface ListTracesResponse {
  readonly traces: readonly TraceSummary[];
  /** Absent on the last page. A search may return fewer traces than the limit and a cursor: it reads a bounded number of bytes per page. */
  readonly nextCursor?: string;
}
export const ListTracesResponse = message<ListTracesResponse>("ListTracesResponse", {
  traces: list(TraceSummary.field),
  nextCursor: optional(string()),
});

/** A person's judgement of an answer. */
export interface TraceRating {
  readonly rating: TraceRatingValue | null;
  readonly comment: string | null;
  /** The edited answer, which training data has in place of the recorded one. */
  readonly answer: string | null;
  readonly ratedAt: Date;
}
export const TraceRating = message<TraceRating>("TraceRating", {
  rating: nullable(ratingValue()),
  comment: nullable(string()),
  answer: nullable(string()),
  ratedAt: date(),
});

/** One message of a conversation. */
export interface TraceTurn {
  /** A message in OpenAI's chat format: role, content, reasoning_content, tool_calls, tool_call_id. */
  readonly message: JsonValue;
  /** The call that produced it, which can be rated; absent for messages that were only sent. */
  readonly spanId?: string;
  readonly rating?: TraceRating;
  /** Whether the call's tokens were recorded. */
  readonly hasTokens?: boolean;
}
export const TraceTurn = message<TraceTurn>("TraceTurn", {
  message: json(),
  spanId: optional(string()),
  rating: optional(TraceRating.field),
  hasTokens: optional(bool()),
});

/** Calls of a model that continue each other. */
export interface TraceConversation {
  /** The span of its last call. */
  readonly conversationId: string;
  /** Its calls, in order. */
  readonly spanIds: readonly string[];
  readonly turns: readonly TraceTurn[];
  /** Definitions of the tools that the model could call, in OpenAI's format. */
  readonly tools: readonly JsonValue[];
  readonly model?: string;
  /** The error of its last call. */
  readonly error?: string;
  /** Whether the model received content that is not stored, such as images. It is not exported. */
  readonly incomplete: boolean;
}
export const TraceConversation = message<TraceConversation>("TraceConversation", {
  conversationId: string(),
  spanIds: list(string()),
  turns: list(TraceTurn.field),
  tools: list(json()),
  model: optional(string()),
  error: optional(string()),
  incomplete: bool(),
});

/** One span, without its messages. */
export interface TraceSpanSummary {
  readonly spanId: string;
  readonly parentId?: string;
  readonly kind: "model" | "tool" | "agent";
  readonly name: string;
  readonly model?: string;
  readonly error?: string;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly bytes: number;
}
export const TraceSpanSummary = message<TraceSpanSummary>("TraceSpanSummary", {
  spanId: string(),
  parentId: optional(string()),
  kind: oneOf("model", "tool", "agent"),
  name: string(),
  model: optional(string()),
  error: optional(string()),
  startedAt: date(),
  endedAt: date(),
  bytes: int(),
});

/** A trace with its conversations. */
export interface GetTraceResponse {
  readonly trace: TraceSummary;
  readonly conversations: readonly TraceConversation[];
  /** All spans, by their start. */
  readonly spans: readonly TraceSpanSummary[];
}
export const GetTraceResponse = message<GetTraceResponse>("GetTraceResponse", {
  trace: TraceSummary.field,
  conversations: list(TraceConversation.field),
  spans: list(TraceSpanSummary.field),
});

/** Rates an answer: replaces its rating, comment and edited answer. Without any of the three the rating is deleted. */
export interface RateTraceRequest {
  /** The call whose answer is rated. @defaultValue the last call that has an answer */
  readonly spanId?: string;
  readonly rating: TraceRatingValue | null;
  readonly comment: string | null;
  readonly answer: string | null;
}
export const RateTraceRequest = message<RateTraceRequest, "rating" | "comment" | "answer">("RateTraceRequest", {
  spanId: optional(string()),
  rating: withDefault(nullable(ratingValue()), null),
  comment: withDefault(nullable(string()), null),
  answer: withDefault(nullable(string()), null),
});

/** The rating that is stored now; absent if it was removed. */
export interface RateTraceResponse {
  readonly spanId: string;
  readonly rating?: TraceRating;
}
export const RateTraceResponse = message<RateTraceResponse>("RateTraceResponse", {
  spanId: string(),
  rating: optional(TraceRating.field),
});

/** `sft`: conversations; `dpo`: pairs of a preferred and another answer; `tokens`: recorded tokens with log-probs. */
export type TraceExportFormat = "sft" | "dpo" | "tokens";

/** Converts traces to training data, a page at a time. */
export interface ExportTracesRequest extends TraceFilters {
  readonly format: TraceExportFormat;
  /** Only these traces. At most 1000. */
  readonly traceIds?: readonly string[];
  /** Whether secrets and e-mail addresses are replaced. @defaultValue true */
  readonly redact: boolean;
  /** `next_cursor` of the page before. */
  readonly cursor?: string;
}
export const ExportTracesRequest = message<ExportTracesRequest, "redact">("ExportTracesRequest", {
  ...filterFields,
  format: oneOf<TraceExportFormat>("sft", "dpo", "tokens"),
  traceIds: optional(list(string())),
  redact: withDefault(bool(), true),
  cursor: optional(string()),
});

/** A page of training data. */
export interface ExportTracesResponse {
  /** Lines of JSONL. */
  readonly lines: readonly JsonValue[];
  /** Number of conversations (`dpo`: of prompts) that gave no line, by reason. */
  readonly skipped: Readonly<Record<string, number>>;
  /** Number of messages in which something was replaced. */
  readonly redacted: number;
  readonly nextCursor?: string;
}
export const ExportTracesResponse = message<ExportTracesResponse>("ExportTracesResponse", {
  lines: list(json()),
  skipped: map(int()),
  redacted: int(),
  nextCursor: optional(string()),
});
