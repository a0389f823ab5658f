/**
 * Messages of futures. An answer to `retrieve_future` is classified here once, into a small sum type; the poll loop acts on the
 * result.
 */

import { isPlainObject } from "../describe.ts";
import { type RequestErrorCategory, requestErrorCategory } from "../errors.ts";
import {
  bool,
  float,
  int,
  list,
  literal,
  nullable,
  openWord,
  optional,
  string,
  withDefault,
} from "../schema/fields.ts";
import { message, unionOf } from "../schema/message.ts";
import type { ModelID } from "./training.ts";

/** The id of a request, with which its result is fetched. */
export type RequestID = string;

/** The state of a queue. Any other value of a server is read as `unknown`. */
export type QueueState = "active" | "paused_capacity" | "paused_rate_limit" | "unknown";

/** Reads a queue state as servers write it. */
export function queueState(value: unknown): QueueState {
  return value === "active" || value === "paused_capacity" || value === "paused_rate_limit" ? value : "unknown";
}

/** The acknowledgement of an accepted request. */
export interface UntypedAPIFuture {
  readonly requestId: RequestID;
  readonly modelId?: ModelID;
  /** Newer than 0.25: one id per requested sample. */
  readonly sampleSequenceIds?: readonly string[];
}
export const UntypedAPIFuture = message<UntypedAPIFuture>("UntypedAPIFuture", {
  requestId: string(),
  modelId: optional(string()),
  sampleSequenceIds: optional(list(string())),
});

/** Asks for the result of a request. */
export interface FutureRetrieveRequest {
  readonly requestId: RequestID;
  /** Whether the server may answer with the size of a large result instead of the result. @defaultValue false */
  readonly allowMetadataOnly: boolean;
}
export const FutureRetrieveRequest = message<FutureRetrieveRequest, "allowMetadataOnly">("FutureRetrieveRequest", {
  requestId: string(),
  allowMetadataOnly: withDefault(bool(), false),
});

/** The request is still waiting or running. */
export interface TryAgainResponse {
  readonly type: "try_again";
  readonly requestId: RequestID;
  readonly queueState: string;
  readonly queueStateReason?: string;
}
export const TryAgainResponse = message<TryAgainResponse, "type">("TryAgainResponse", {
  type: literal("try_again"),
  requestId: string(),
  queueState: openWord("active", "paused_capacity", "paused_rate_limit"),
  queueStateReason: optional(string()),
});

/** The request failed. */
export interface RequestFailedResponse {
  readonly error: string;
  readonly category: string;
}
export const RequestFailedResponse = message<RequestFailedResponse>("RequestFailedResponse", {
  error: string(),
  category: openWord("unknown", "server", "user"),
});

/** The result is ready and large: ask again without `allow_metadata_only` to get it. */
export interface CompleteMetadataResponse {
  readonly status: "complete_metadata";
  readonly responsePayloadSize: number | null;
}
export const CompleteMetadataResponse = message<CompleteMetadataResponse, "status">("CompleteMetadataResponse", {
  status: literal("complete_metadata"),
  responsePayloadSize: nullable(int()),
});

/** A classified JSON answer of `retrieve_future`. */
export type JsonOutcome =
  | { readonly kind: "pending"; readonly queueState: QueueState; readonly reason?: string }
  | { readonly kind: "metadata"; readonly payloadBytes: number }
  | { readonly kind: "failed"; readonly message: string; readonly category: RequestErrorCategory }
  | { readonly kind: "done"; readonly body: unknown };

/** Classifies a JSON answer, in the order of the contract: try-again, metadata, error, result. */
export function classifyOutcome(body: unknown): JsonOutcome {
  if (!isPlainObject(body)) return { kind: "done", body };
  if (body["type"] === "try_again") return pendingOutcome(body);
  if (body["status"] === "complete_metadata") {
    const size = body["response_payload_size"];
    return { kind: "metadata", payloadBytes: typeof size === "number" && size > 0 ? size : 0 };
  }
  if ("error" in body) {
    const text = body["error"];
    return {
      kind: "failed",
      message: typeof text === "string" ? text : text == null ? "The request failed." : JSON.stringify(text),
      category: requestErrorCategory(body["category"]),
    };
  }
  return { kind: "done", body };
}

/** Reads queue state and reason from a try-again body, or from the body of a 408. */
export function pendingOutcome(body: unknown): JsonOutcome & { kind: "pending" } {
  const fields = isPlainObject(body) ? body : {};
  const reason = fields["queue_state_reason"];
  return {
    kind: "pending",
    queueState: queueState(fields["queue_state"]),
    ...(typeof reason === "string" && reason !== "" ? { reason } : {}),
  };
}

/** The samples of one sampling session. */
export interface SamplingSessionFuturesTarget {
  readonly type: "sampling_session";
  readonly samplingSessionId: string;
  /** The number of this process in the session (`JoinSamplingSessionResponse`). @defaultValue 0 */
  readonly clonedSamplerId: number;
}
export const SamplingSessionFuturesTarget = message<SamplingSessionFuturesTarget, "type" | "clonedSamplerId">(
  "SamplingSessionFuturesTarget",
  { type: literal("sampling_session"), samplingSessionId: string(), clonedSamplerId: withDefault(int(), 0) },
);

/** Asks which of many requests have completed, in one long poll. Newer than 0.25. */
export interface FuturesRetrieveRequest {
  readonly target: SamplingSessionFuturesTarget;
  /** The cursor of the previous answer. @defaultValue 0 */
  readonly prevCursor: number;
  /** Seconds. */
  readonly timeout?: number;
  /** Requests whose results were fetched since then. */
  readonly retrievedRequestIds: readonly RequestID[];
}
export const FuturesRetrieveRequest = message<FuturesRetrieveRequest, "prevCursor" | "retrievedRequestIds">(
  "FuturesRetrieveRequest",
  {
    target: SamplingSessionFuturesTarget.field,
    prevCursor: withDefault(int(), 0),
    timeout: optional(float()),
    retrievedRequestIds: withDefault(list(string()), []),
  },
);

/** A request whose result can be fetched. */
export interface FutureFinished {
  readonly state: "finished";
  readonly requestId: RequestID;
  readonly responsePayloadUncompressedSize?: number;
}
export const FutureFinished = message<FutureFinished, "state">("FutureFinished", {
  state: literal("finished"),
  requestId: string(),
  responsePayloadUncompressedSize: optional(int()),
});
/** A failed request; fetching its result gives the reason. */
export interface FutureFailed {
  readonly state: "failed";
  readonly requestId: RequestID;
}
export const FutureFailed = message<FutureFailed, "state">("FutureFailed", {
  state: literal("failed"),
  requestId: string(),
});
/** A completed request, discriminated by `state`. */
export type FutureCompletion = FutureFinished | FutureFailed;

/** The completed requests. */
export interface FuturesRetrieveResponse {
  readonly completions: readonly FutureCompletion[];
  readonly cursor: number;
}
export const FuturesRetrieveResponse = message<FuturesRetrieveResponse>("FuturesRetrieveResponse", {
  completions: list(unionOf<FutureCompletion>("state", [FutureFinished, FutureFailed], { wordRequired: true })),
  cursor: int(),
});

/** Cancels a request. Newer than 0.25. */
export interface CancelFutureRequest {
  readonly requestId: RequestID;
}
export const CancelFutureRequest = message<CancelFutureRequest>("CancelFutureRequest", { requestId: string() });
