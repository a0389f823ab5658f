/**
 * The errors of the SDK: one class tree, one `code` per kind, and one function that decides whether a retry can help. Imports nothing.
 * A message names what happened, the request and the fix; it never contains headers or keys.
 */

/** Category of a failure, as the server classifies it. `user`: the same request fails again; the other two may succeed on a retry. */
export type RequestErrorCategory = "unknown" | "server" | "user";

/** The options and functions of the API that hints name. */
export type ApiName =
  | "apiKey"
  | "apiKeys"
  | "baseModel"
  | "baseUrl"
  | "dataDir"
  | "folder"
  | "from"
  | "getServerCapabilities()"
  | "listCheckpoints"
  | "maxTokens"
  | "saveState"
  | "saveWeightsForSampler"
  | "ServiceClient.local()"
  | "weightsAccessToken";

/** A part of a hint: text, or a name of the API, for which a program may show a name of its own (`--data-dir` for `dataDir`). */
export type HintPart = string | { readonly name: ApiName };

/** A hint: a sentence, or its parts. */
export type Hint = string | readonly HintPart[];

/** The sentence of a hint, with the names that `nameOf` gives. */
export function hintText(hint: Hint, nameOf: (name: ApiName) => string = (name) => name): string {
  if (typeof hint === "string") return hint;
  return hint.map((part) => (typeof part === "string" ? part : nameOf(part.name))).join("");
}

interface TinkerErrorOptions {
  /** Stable, machine-readable name of the failure, for example `invalid_input`. */
  readonly code: string;
  /** What to do about it, in one sentence. */
  readonly hint?: Hint | undefined;
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
  readonly #hint: Hint;
  constructor(message: string, options: TinkerErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const { code, hint = [] } = options;
    this.code = code;
    this.#hint = hint;
    this.hint = hintText(hint) || undefined;
  }
  /** The hint as data, for programs that show their own names for options and functions; empty without a hint. */
  get hintParts(): readonly HintPart[] {
    return typeof this.#hint === "string" ? [this.#hint] : this.#hint;
  }
}

/** An argument is invalid. Thrown before anything is sent. */
export class InvalidInputError extends TinkerError {
  override readonly name = "InvalidInputError";
  /** Path of the offending field in API spelling, for example `lossFnInputs.weights`. */
  readonly field: string;
  /** The message without the name of the field. */
  readonly problem: string;
  constructor(field: string, problem: string, options: { hint?: Hint; cause?: unknown } = {}) {
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
  /** Path of the offending field in wire spelling, for example `checkpoints[2].time`. */
  readonly field: string;
  /** The message without the name of the field. */
  readonly problem: string;
  constructor(field: string, problem: string, options: { hint?: Hint; cause?: unknown } = {}) {
    super(field === "" ? problem : `${field}: ${problem}`, { code: "response_validation", ...options });
    this.field = field;
    this.problem = problem;
  }
}

/** No response: the connection was refused, reset, unreachable or timed out. */
export class APIConnectionError extends APIError {
  override readonly name: string = "APIConnectionError";
  constructor(message = "Connection error.", options: { hint?: Hint; cause?: unknown; code?: string } = {}) {
    super(message, { ...options, code: options.code ?? "connection" });
  }
}

/** No response within the timeout. */
export class APITimeoutError extends APIConnectionError {
  override readonly name = "APITimeoutError";
  constructor(message = "Request timed out.", options: { hint?: Hint; cause?: unknown } = {}) {
    super(message, { ...options, code: "timeout" });
  }
}

/** Details of the response of an {@link APIStatusError}. */
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
  readonly hint?: Hint | undefined;
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
/** 409: the request conflicts with the current state, for example with another request that has the same sequence number. */
export class ConflictError extends APIStatusError {
  override readonly name = "ConflictError";
}
/** 422: the request is well formed, but its contents are invalid. */
export class UnprocessableEntityError extends APIStatusError {
  override readonly name = "UnprocessableEntityError";
}
/** 402: a billing problem of the account. Calls that can wait are retried for a while before this error is thrown. */
export class BillingError extends APIStatusError {
  override readonly name = "BillingError";
}

/** The server does not support the request: it is too old, or lacks the extensions of Tinklet servers. */
export class UnsupportedFeatureError extends APIError {
  override readonly name = "UnsupportedFeatureError";
  /** The missing feature in wire spelling: a route, or a field of a request. */
  readonly feature: string;
  /** The release of the official SDK that added it; undefined for Tinklet's extensions. */
  readonly since: string | undefined;
  constructor(feature: string, since?: string, options: { cause?: unknown } = {}) {
    const origin = since === undefined ? "is a Tinklet extension" : `was added in release ${since} of the official SDK`;
    super(`The server does not have ${feature}, which ${origin}.`, {
      code: "unsupported_feature",
      hint: `Do not use it with this server, or use a server that has it: ${since === undefined ? "" : "the hosted service, or "}a current Tinklet server.`,
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

/** The error of an HTTP status; the same classes as in the Python SDK. */
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
    details: { requestId: string; category: RequestErrorCategory; hint?: Hint | undefined; cause?: unknown },
  ) {
    super(message, { code: "request_failed", hint: details.hint, cause: details.cause });
    this.requestId = details.requestId;
    this.category = details.category;
  }
  /** False when the request itself was invalid. Information for the caller: the SDK never submits a failed request again. */
  get retryable(): boolean {
    return this.category !== "user";
  }
}

/** The server no longer has the result (410). The SDK submits a sample again; a training request is not repeated. */
export class FutureExpiredError extends TinkerError {
  override readonly name = "FutureExpiredError";
  /** Id of the request whose result has expired. */
  readonly requestId: string;
  constructor(requestId: string, options: { hint?: Hint; cause?: unknown } = {}) {
    super(`The server no longer has the result of request ${requestId}.`, { code: "future_expired", ...options });
    this.requestId = requestId;
  }
}

/** Reads a server's category, ignoring case; any other value is `unknown`. */
export function requestErrorCategory(value: unknown): RequestErrorCategory {
  const text = typeof value === "string" ? value.toLowerCase() : "";
  return text === "server" || text === "user" ? text : "unknown";
}

/**
 * Whether sending the same request again can help: true for transport failures, 408, 409, 429 and 5xx. False when the server sent
 * `x-should-retry: false`, when it never answered (`unreachable`), and when this client is closed.
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
 * Whether the caller has to change the request: category `user`, or a 4xx status other than 408 and 429, anywhere in the chain of
 * causes.
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
