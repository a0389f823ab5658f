/**
 * The errors of the SDK: one tree, one `code` per kind, and one function that says whether trying again can help.
 * Imports nothing. Messages say what happened, to which request, and what to do next; they never hold headers or keys.
 */

/** Category of a failure, as the server classifies it. `user` will fail again unchanged; the other two may pass. */
export type RequestErrorCategory = "unknown" | "server" | "user";

interface TinkerErrorOptions {
  /** Stable, machine-readable name of the failure, for example `invalid_input`. */
  readonly code: string;
  /** What to do about it, in one sentence. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

/**
 * Base class of all errors of this SDK, except `signal.reason` of an abort, which is rethrown untouched.
 *
 * @example
 * ```ts
 * try { await trainer.optimStep({ learningRate: 1e-4 }) } catch (error) {
 *   if (error instanceof TinkerError) console.error(error.code, error.message, error.hint ?? "");
 * }
 * ```
 */
export class TinkerError extends Error {
  override readonly name: string = "TinkerError";
  /** Stable, machine-readable name of the failure, for example `invalid_input`. */
  readonly code: string;
  /** What to do about it, in one sentence, where the SDK knows. */
  readonly hint: string | undefined;
  constructor(message: string, options: TinkerErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.hint = options.hint;
  }
}

/** An argument is invalid. Thrown before anything is sent. */
export class InvalidInputError extends TinkerError {
  override readonly name = "InvalidInputError";
  /** Path of the offending field in API spelling, for example `lossFnInputs.weights`. */
  readonly field: string;
  /** The message without the name of the field. */
  readonly problem: string;
  constructor(field: string, problem: string, options: { hint?: string; cause?: unknown } = {}) {
    super(field === "" ? problem : `${field}: ${problem}`, { code: "invalid_input", ...options });
    this.field = field;
    this.problem = problem;
  }
}

/** Base class of the errors of a request to a server. */
export class APIError extends TinkerError {
  override readonly name: string = "APIError";
}

/** The response does not match the expected schema. Never retried. */
export class ResponseValidationError extends APIError {
  override readonly name = "ResponseValidationError";
  /** Path of the offending field as it stands on the wire, for example `checkpoints[2].time`. */
  readonly field: string;
  /** The message without the name of the field. */
  readonly problem: string;
  constructor(field: string, problem: string, options: { hint?: string; cause?: unknown } = {}) {
    super(field === "" ? problem : `${field}: ${problem}`, { code: "response_validation", ...options });
    this.field = field;
    this.problem = problem;
  }
}

/** No response: the connection was refused, reset, unreachable or timed out. */
export class APIConnectionError extends APIError {
  override readonly name: string = "APIConnectionError";
  constructor(message = "Connection error.", options: { hint?: string; cause?: unknown; code?: string } = {}) {
    super(message, { ...options, code: options.code ?? "connection" });
  }
}

/** No response within the timeout. */
export class APITimeoutError extends APIConnectionError {
  override readonly name = "APITimeoutError";
  constructor(message = "Request timed out.", options: { hint?: string; cause?: unknown } = {}) {
    super(message, { ...options, code: "timeout" });
  }
}

/** Details of the response behind an {@link APIStatusError}. */
export interface StatusErrorDetails {
  readonly status: number;
  /** The parsed JSON body, or its text. */
  readonly body?: unknown;
  readonly requestId?: string | undefined;
  readonly category?: RequestErrorCategory | undefined;
  /** Delay in milliseconds that the server asks for before a retry, from `retry-after-ms`, `retry-after` or the body. */
  readonly retryAfterMs?: number | undefined;
  /** Value of the `x-should-retry` response header, if present. */
  readonly shouldRetry?: boolean | undefined;
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

/** The server answered with a status outside 2xx. */
export class APIStatusError extends APIError {
  override readonly name: string = "APIStatusError";
  /** The answer's HTTP status. */
  readonly status: number;
  /** The parsed JSON body, or its text. */
  readonly body: unknown;
  /** The server's id of the request, to quote in a bug report. */
  readonly requestId: string | undefined;
  /** Category of the failure, as the server classifies it. */
  readonly category: RequestErrorCategory | undefined;
  /** Delay in milliseconds that the server asks for before a retry. */
  readonly retryAfterMs: number | undefined;
  /** Value of the `x-should-retry` response header, if present. */
  readonly shouldRetry: boolean | undefined;
  constructor(message: string, details: StatusErrorDetails) {
    super(message, { code: `http_${details.status}`, hint: details.hint, cause: details.cause });
    this.status = details.status;
    this.body = details.body;
    this.requestId = details.requestId;
    this.category = details.category;
    this.retryAfterMs = details.retryAfterMs;
    this.shouldRetry = details.shouldRetry;
  }
}

/** 400: the server could not understand the request. */
export class BadRequestError extends APIStatusError {
  override readonly name = "BadRequestError";
}
/** 401: the key is missing, wrong or expired. */
export class AuthenticationError extends APIStatusError {
  override readonly name = "AuthenticationError";
}
/** 403: the key is valid but lacks the permission. */
export class PermissionDeniedError extends APIStatusError {
  override readonly name = "PermissionDeniedError";
}
/** 404: no such route, run, checkpoint or model. */
export class NotFoundError extends APIStatusError {
  override readonly name = "NotFoundError";
}
/** 409: the request conflicts with the current state, for example with a request of the same number. */
export class ConflictError extends APIStatusError {
  override readonly name = "ConflictError";
}
/** 422: the request was understood and refused. */
export class UnprocessableEntityError extends APIStatusError {
  override readonly name = "UnprocessableEntityError";
}
/** 402: the account has to be put in order; calls that can wait do so first. */
export class BillingError extends APIStatusError {
  override readonly name = "BillingError";
}

/** The server lacks what was asked of it: it is too old, or has no extensions of Tinklet. */
export class UnsupportedFeatureError extends APIError {
  override readonly name = "UnsupportedFeatureError";
  /** What it lacks, as the wire calls it: a route, or a field of a request. */
  readonly feature: string;
  /** The release of the official SDK that brought it; undefined for what is Tinklet's own. */
  readonly since: string | undefined;
  constructor(feature: string, since?: string, options: { cause?: unknown } = {}) {
    const brought = since === undefined ? "is Tinklet's own" : `came with release ${since} of the official SDK`;
    super(`The server does not have ${feature}, which ${brought}.`, {
      code: "unsupported_feature",
      hint: `Do without it on this server, or use one that has it: ${since === undefined ? "" : "the hosted service, or "}a Tinklet server of today.`,
      ...options,
    });
    this.feature = feature;
    this.since = since;
  }
}

/** 429: too many requests. */
export class RateLimitError extends APIStatusError {
  override readonly name = "RateLimitError";
}
/** 500 and above: the server failed. */
export class InternalServerError extends APIStatusError {
  override readonly name = "InternalServerError";
}

const statusErrors: Record<number, typeof APIStatusError> = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  422: UnprocessableEntityError,
  402: BillingError,
  429: RateLimitError,
};

/** Makes the error class that belongs to a status, as the Python SDK does. */
export function statusError(message: string, details: StatusErrorDetails): APIStatusError {
  const ErrorClass = statusErrors[details.status] ?? (details.status >= 500 ? InternalServerError : APIStatusError);
  return new ErrorClass(message, details);
}

/** An accepted request failed on the server; the message gives the reason. */
export class RequestFailedError extends TinkerError {
  override readonly name = "RequestFailedError";
  /** Id of the request that failed. */
  readonly requestId: string;
  /** Category of the failure, as the server classifies it. */
  readonly category: RequestErrorCategory;
  constructor(
    message: string,
    details: { requestId: string; category: RequestErrorCategory; hint?: string | undefined; cause?: unknown },
  ) {
    super(message, { code: "request_failed", hint: details.hint, cause: details.cause });
    this.requestId = details.requestId;
    this.category = details.category;
  }
  /** False when the request itself was invalid. A hint to the caller: the SDK never re-submits a failed future. */
  get retryable(): boolean {
    return this.category !== "user";
  }
}

/** The server no longer knows the future (410). A sample is submitted again by itself; a training request is not. */
export class FutureExpiredError extends TinkerError {
  override readonly name = "FutureExpiredError";
  /** Id of the request whose result has expired. */
  readonly requestId: string;
  constructor(requestId: string, options: { hint?: string; cause?: unknown } = {}) {
    super(`The server no longer has the result of request ${requestId}.`, { code: "future_expired", ...options });
    this.requestId = requestId;
  }
}

/** Reads a category as servers write it: without regard to case, and anything unheard of is `unknown`. */
export function requestErrorCategory(value: unknown): RequestErrorCategory {
  const text = typeof value === "string" ? value.toLowerCase() : "";
  return text === "server" || text === "user" ? text : "unknown";
}

/**
 * Whether sending the same request again can help: transport failures, 408, 409, 429 and 5xx, unless the server said
 * otherwise (`x-should-retry`), it never answered at all (`unreachable`), or this client is closed.
 */
export function isRetryable(error: unknown): boolean {
  if (error instanceof APIConnectionError) return error.code !== "unreachable" && error.code !== "closed";
  if (error instanceof APIStatusError) return error.shouldRetry ?? isRetryableStatus(error.status);
  return error instanceof FutureExpiredError;
}

/** The statuses after which the same request is sent again. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 409 || status === 429 || status >= 500;
}

/**
 * Whether the caller, not the service, has to change something: category `user`, or a 4xx other than 408 and 429,
 * anywhere in the chain of causes.
 *
 * @example
 * ```ts
 * await trainer.loadState("tinker://run-1/weights/final").catch((error) => {
 *   if (isUserError(error)) console.error("Fix the request:", error);
 *   else if (isRetryable(error)) console.error("Try again later:", error);
 *   else throw error;
 * });
 * ```
 */
export function isUserError(error: unknown): boolean {
  const seen = new Set<unknown>();
  for (let at = error; at instanceof Error && !seen.has(at); at = at.cause) {
    seen.add(at);
    if (at instanceof RequestFailedError && at.category === "user") return true;
    if (at instanceof APIStatusError && at.status >= 400 && at.status < 500 && at.status !== 408 && at.status !== 429) {
      return true;
    }
  }
  return false;
}
