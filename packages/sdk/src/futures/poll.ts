/**
 * The poll loop: calls `retrieve_future` until the result of one request is available. Only this loop handles try-again responses,
 * metadata-only responses and the rules per status.
 */

import {
  classifyOutcome,
  type FutureResult,
  type FutureResultName,
  futureResults,
  type JsonOutcome,
  parseJson,
  pendingOutcome,
  protobufContentType,
  type QueueState,
} from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import {
  APIConnectionError,
  type APIStatusError,
  FutureExpiredError,
  RequestFailedError,
  ResponseValidationError,
} from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { type BillingPause, billingRetryMs } from "../transport/billing-pause.ts";
import type { ByteBudget, Release } from "../transport/byte-budget.ts";
import type { HttpResponse } from "../transport/exchange.ts";
import type { FailureFacts } from "../transport/hints.ts";
import { hintFor, loadHints } from "../transport/load-hints.ts";
import type { Reporter } from "../transport/report.ts";
import { pollBackoffMs } from "../transport/retry.ts";
import type { PreparedRequest, Transport } from "../transport/transport.ts";
import { parseServerTiming, type ServerTiming } from "./server-timing.ts";

/** Dependencies of the poll loop, shared by all futures of a service. */
export interface PollContext {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly billing: BillingPause;
  readonly reporter: Reporter;
  /** Limit on the bytes of large results fetched concurrently. */
  readonly responseBytes: ByteBudget;
}

/** Progress of a poll, updated while the loop runs. */
export interface PollProgress {
  queueState: QueueState | undefined;
  reason: string | undefined;
  lastError: Error | undefined;
  polls: number;
  /** One entry per result with a `Server-Timing` header; a call may become several requests. */
  timings: readonly ServerTiming[];
  /** The caller's metadata, for events. */
  readonly metadata?: Readonly<Record<string, string | number>> | undefined;
}

export interface PollTarget<K extends FutureResultName> {
  readonly requestId: string;
  readonly requestType: K;
  /** Subject of the request, for messages: a model or a sampling session. */
  readonly subject?: string | undefined;
  /** Duration of the submission, sent to the server with the first poll. */
  readonly roundtripMs?: number;
  readonly signal?: AbortSignal | undefined;
  readonly facts?: Partial<FailureFacts> | undefined;
  readonly progress?: PollProgress;
  /** Size of the result if it is known already; the result is then fetched without an announcement. */
  readonly payloadBytes?: number | undefined;
}

/** Number of immediate retries after a suspicious response (400 with a body, or one that cannot be read). */
const suspiciousBudget = 3;

/** The outcome of one poll. */
export type PollOutcome<T> =
  | JsonOutcome
  | { readonly kind: "result"; readonly value: T }
  | { readonly kind: "expired" }
  | { readonly kind: "backoff"; readonly error: Error }
  | { readonly kind: "suspicious"; readonly error: Error }
  | { readonly kind: "unpaid"; readonly error: APIStatusError }
  | { readonly kind: "fatal"; readonly error: Error };

/**
 * Waits for a future's result.
 *
 * @throws {@link RequestFailedError} when the request failed, {@link FutureExpiredError} when the server no longer has it
 * (410), an `APIStatusError` for a response that retrying does not change, `signal.reason` when aborted.
 */
export async function pollFuture<K extends FutureResultName>(
  context: PollContext,
  target: PollTarget<K>,
): Promise<FutureResult<K>> {
  const { transport, reporter, billing } = context;
  const { requestId, requestType, signal } = target;
  const progress = target.progress ?? {
    queueState: undefined,
    reason: undefined,
    lastError: undefined,
    polls: 0,
    timings: [],
  };
  let allowMetadataOnly = true;
  let failures = 0;
  let suspicious = 0;
  let held: Release | undefined;
  let request: PreparedRequest | undefined;
  const reserve = async (bytes: number) => {
    const reserved = context.responseBytes.acquire(bytes, signal);
    held = typeof reserved === "function" ? reserved : await reserved;
    allowMetadataOnly = false;
    request = undefined;
  };
  try {
    if (target.payloadBytes) await reserve(target.payloadBytes);
    for (let iteration = 0; ; iteration++) {
      request ??= transport.prepare("retrieveFuture", { requestId, allowMetadataOnly });
      const outcome = await pollOnce(context, target, request, iteration);
      progress.polls++;
      if (outcome.kind !== "backoff") failures = 0;
      switch (outcome.kind) {
        case "pending":
          suspicious = 0;
          announce(reporter, target, outcome, progress);
          break;
        case "metadata": {
          if (held !== undefined) {
            throw new ResponseValidationError(
              "status",
              `request ${requestId}: the server announced the result twice and did not send it`,
            );
          }
          await reserve(outcome.payloadBytes);
          break;
        }
        case "result":
          return outcome.value as FutureResult<K>;
        case "done":
          return readJson(requestType, outcome.body, requestId);
        case "failed":
          await loadHints();
          throw failed(target, outcome);
        case "expired":
          throw new FutureExpiredError(requestId, {
            hint: "Servers keep results for a limited time. Training requests are not repeated automatically.",
          });
        case "backoff":
          progress.lastError = outcome.error;
          await transport.sleep(pollBackoffMs(failures++), signal);
          break;
        case "suspicious":
          progress.lastError = outcome.error;
          if (suspicious++ >= suspiciousBudget) throw outcome.error;
          break;
        case "unpaid":
          progress.lastError = outcome.error;
          if (!billing.met("retrieveFuture")) throw outcome.error;
          await transport.sleep(billingRetryMs, signal);
          break;
        case "fatal":
          throw outcome.error;
        default:
          outcome satisfies never;
      }
    }
  } finally {
    held?.();
  }
}

async function pollOnce<K extends FutureResultName>(
  { transport }: PollContext,
  target: PollTarget<K>,
  request: PreparedRequest,
  iteration: number,
): Promise<PollOutcome<FutureResult<K>>> {
  const { requestType, signal } = target;
  const headers: Record<string, string> = {
    accept: futureResults[requestType].format === "proto" ? protobufContentType : "application/json",
    "x-tinker-request-iteration": String(iteration),
    "x-tinker-request-type": requestType,
  };
  if (iteration === 0) {
    headers["x-tinker-create-promise-roundtrip-time"] = String((target.roundtripMs ?? 0) / 1000);
  }
  let response: HttpResponse;
  try {
    response = await transport.attempt(request, { headers, signal });
  } catch (error) {
    // Connection errors are retried, except those of a closed client.
    if (error instanceof APIConnectionError && error.code !== "closed") return { kind: "backoff", error };
    throw error;
  }
  const outcome = classify(response, requestType, () => transport.failure(request, response, target.facts));
  if (target.progress !== undefined && (outcome.kind === "result" || outcome.kind === "done")) {
    const timing = parseServerTiming(response.header("server-timing"));
    if (timing !== undefined) target.progress.timings = [...target.progress.timings, timing];
  }
  return outcome;
}

/** Classifies a response by the contract's table of statuses and bodies. */
export function classify<K extends FutureResultName>(
  response: HttpResponse,
  requestType: K,
  failure: () => APIStatusError,
): PollOutcome<FutureResult<K>> {
  const { status } = response;
  if (status === 408) return pendingOutcome(jsonBody(response));
  if (status === 410) return { kind: "expired" };
  if (status === 429 || status >= 500) return { kind: "backoff", error: failure() };
  if (status === 400) return { kind: "suspicious", error: failure() };
  if (status === 402) return { kind: "unpaid", error: failure() };
  if (status < 200 || status >= 300) return { kind: "fatal", error: failure() };
  try {
    const type = response.header("content-type") ?? "";
    if (!type.includes(protobufContentType)) return classifyOutcome(parsed(response));
    const { format, decode } = futureResults[requestType];
    if (format !== "proto") throw new ResponseValidationError("", `a ${requestType} result is not binary`);
    return { kind: "result", value: decode(response.body) as FutureResult<K> };
  } catch (error) {
    if (error instanceof ResponseValidationError) return { kind: "suspicious", error };
    throw error;
  }
}

const utf8 = new TextDecoder();
const parsed = (response: HttpResponse): unknown => parseJson(utf8.decode(response.body), { nonFinite: true });

function jsonBody(response: HttpResponse): unknown {
  try {
    return parsed(response);
  } catch {
    return undefined;
  }
}

function readJson<K extends FutureResultName>(requestType: K, body: unknown, requestId: string): FutureResult<K> {
  const { format, decode } = futureResults[requestType];
  if (format !== "json") {
    throw new ResponseValidationError("", `request ${requestId}: the ${requestType} result came as JSON, not binary`);
  }
  return decode(body) as FutureResult<K>;
}

function failed(target: PollTarget<FutureResultName>, outcome: JsonOutcome & { kind: "failed" }): RequestFailedError {
  const { requestId, requestType } = target;
  const facts = { operation: requestType, ...target.facts, message: outcome.message };
  return new RequestFailedError(`${requestType} failed: ${outcome.message} (request ${requestId})`, {
    requestId,
    category: outcome.category,
    hint: hintFor(facts),
  });
}

function announce(
  reporter: Reporter,
  target: PollTarget<FutureResultName>,
  outcome: JsonOutcome & { kind: "pending" },
  progress: PollProgress,
): void {
  const { queueState, reason } = outcome;
  progress.queueState = queueState;
  progress.reason = reason ?? defaultReason(target.requestType, queueState);
  // "unknown" without a reason carries no information.
  if (queueState === "unknown" && reason === undefined) return;
  reporter.report({
    type: queueState.startsWith("paused") ? "future.paused" : "future.queued",
    requestId: target.requestId,
    requestType: target.requestType,
    ...omitUndefined({ subject: target.subject }),
    queueState,
    ...omitUndefined({ reason: progress.reason, metadata: progress.metadata }),
  });
}

function defaultReason(requestType: FutureResultName, queueState: QueueState): string | undefined {
  if (queueState === "paused_capacity") return "the service has no free capacity";
  if (queueState !== "paused_rate_limit") return undefined;
  return requestType === "Sample"
    ? "the limit of concurrent sampler weights is reached"
    : "the limit of concurrent training clients is reached";
}
