/**
 * The transport over HTTP: URL, headers and credential of a request, redirects, the retry loop, and the decoding of responses. Does not
 * know clients or futures.
 */
import { untilAborted } from "@tinklet/wire/abort";
import {
  apiPrefix,
  coreRoutes,
  type EncodedRequest,
  encodeBy,
  isKnown,
  loadRoute,
  type Message,
  type Operation,
  type Pool,
  parseJson,
  type RequestOf,
  type ResponseOf,
  routeOf,
  stringifyJson,
} from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { entropy } from "@tinklet/wire/entropy";
import {
  APIConnectionError,
  APIStatusError,
  APITimeoutError,
  type HintPart,
  InvalidInputError,
  isRetryable,
  ResponseValidationError,
} from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { type BillingPause, billingRetryMs } from "./billing-pause.ts";
import { RequestMetrics } from "./client-metrics.ts";
import type { Credentials } from "./credentials/auth.ts";
import { clientHeaders } from "./environment.ts";
import { bodyBytes, causeCode, type Exchange, type HttpRequest, type HttpResponse } from "./exchange.ts";
import { failureOf } from "./failures.ts";
import type { FailureFacts } from "./hints.ts";
import { loadHints, unsupported } from "./load-hints.ts";
import type { Reporter } from "./report.ts";
import { defaultRetryPolicy, firstContactWindowMs, nextDelayMs, type RetryPolicy, refusedWindowMs } from "./retry.ts";
import type { OwnRequest, PreparedRequest, SendOptions, Transport } from "./transport.ts";

export interface HttpTransportOptions {
  readonly baseUrl: string;
  readonly credentials: Credentials;
  readonly exchange: Exchange;
  /** Its timers keep the process alive, because callers await them. */
  readonly clock: Clock;
  readonly reporter: Reporter;
  readonly billing: BillingPause;
  readonly defaultHeaders?: Readonly<Record<string, string>> | undefined;
  /** Replaces the contract's timeout of ordinary calls; polls and background calls keep the contract's. */
  readonly timeoutMs?: number | undefined;
  readonly maxRetries?: number | undefined;
  /** In [0, 1); for jitter. */
  readonly random?: () => number;
}

/** Consecutive 400s without a body, per pool, that are attributed to a proxy and retried. */
const bareBadRequestBudget = 16;
const mostRedirects = 20;
/** Maximum number of deprecation notices remembered, so that each is logged once. */
const mostNotes = 1_000;
/** Minimum timeout of an attempt at the end of the retry window. */
const shortestAttemptMs = 1_000;
const utf8 = new TextDecoder();
/** Where the URL is set, in hints. */
const urlNames: readonly HintPart[] = [" (", { name: "baseUrl" }, ", TINKER_BASE_URL)"];

/** The base URL without its trailing slash. @throws {@link InvalidInputError} naming `baseUrl`. */
export function checkedBaseUrl(baseUrl: string): string {
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch (cause) {
    throw new InvalidInputError("baseUrl", `${JSON.stringify(baseUrl)} is not a URL`, {
      hint: "Include the scheme, for example http://localhost:8000.",
      cause,
    });
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new InvalidInputError("baseUrl", `must begin with http:// or https://, got ${url.protocol}`);
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

export class HttpTransport implements Transport {
  readonly baseUrl: string;
  readonly billing: BillingPause;
  readonly reporter: Reporter;
  /** Replaced once, if the server requires tokens instead of keys. */
  credentials: Credentials;
  readonly #exchange: Exchange;
  readonly #clock: Clock;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #policy: RetryPolicy;
  readonly #timeoutMs: number | undefined;
  readonly #random: () => number;
  /** Counters and latencies of all requests. */
  readonly metrics = new RequestMetrics();
  /** Trace headers of the active context; set when OpenTelemetry is loaded. */
  traceHeaders: () => Readonly<Record<string, string>> = () => ({});
  readonly #bareBudget = new Map<Pool, number>();
  readonly #closing = new AbortController();
  #contacted = false;
  readonly #notes = new Set<string>();

  constructor(options: HttpTransportOptions) {
    this.baseUrl = checkedBaseUrl(options.baseUrl);
    this.billing = options.billing;
    this.reporter = options.reporter;
    this.credentials = options.credentials;
    this.#exchange = options.exchange;
    this.#clock = options.clock;
    this.#headers = { accept: "application/json", ...clientHeaders(), ...lowerCased(options.defaultHeaders) };
    this.#policy = { ...defaultRetryPolicy, maxRetries: options.maxRetries ?? defaultRetryPolicy.maxRetries };
    this.#timeoutMs = options.timeoutMs;
    this.#random = options.random ?? entropy.fraction;
  }

  prepare<K extends Operation>(operation: K, request: RequestOf<K>): PreparedRequest {
    return this.#prepared(operation, encodeBy(routeOf(operation), operation, request));
  }

  prepareBytes(operation: "forwardBackward", body: Uint8Array): PreparedRequest {
    const { method, path, body: binary } = coreRoutes[operation];
    const { contentType } = binary as { readonly contentType: string };
    return this.#prepared(operation, { method, path: `${apiPrefix}${path}`, query: "", body, contentType });
  }

  #prepared(operation: Operation, { method, path, query, body, contentType }: EncodedRequest): PreparedRequest {
    const { pool, timeoutMs, retry } = routeOf(operation);
    const headers: Record<string, string> = {};
    if (contentType !== undefined) headers["content-type"] = contentType;
    if (method !== "GET") headers["x-idempotency-key"] = `tinklet-${entropy.uuid()}`;
    return {
      operation,
      method,
      path,
      url: `${this.baseUrl}${path}${query === "" ? "" : `?${query}`}`,
      body: body === undefined || body instanceof Uint8Array ? body : stringifyJson(body),
      headers,
      pool,
      timeoutMs: retry === "standard" ? (this.#timeoutMs ?? timeoutMs) : timeoutMs,
    };
  }

  async attempt(request: PreparedRequest, options: SendOptions = {}): Promise<HttpResponse> {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
    let timeoutMs = options.timeoutMs ?? request.timeoutMs;
    if (!this.#contacted) {
      const elapsedMs = options.startedAtMs === undefined ? 0 : this.#clock.monotonic() - options.startedAtMs;
      const windowMs = options.firstContactMs ?? firstContactWindowMs;
      timeoutMs = Math.min(timeoutMs, Math.max(Math.ceil(windowMs - elapsedMs), shortestAttemptMs));
    }
    const response = await this.#exchangeOnce(request, options, timeoutMs);
    if (response.status < 500) this.#contacted = true;
    if (response.status === 429)
      void loadHints(); // not awaited: the pause of the other samples begins at once
    else if (response.status >= 400 && response.status !== 408) await loadHints(); // for `failure`, which is synchronous
    this.#deprecated(response);
    const spare = this.#bareBudget.get(request.pool) ?? bareBadRequestBudget;
    if (response.status < 300 && spare < bareBadRequestBudget) this.#bareBudget.set(request.pool, spare + 1);
    if (response.status === 400 && response.body.byteLength === 0 && spare > 0) {
      this.#bareBudget.set(request.pool, spare - 1);
      throw new APIConnectionError(
        `${request.method} ${request.path}: status 400 without a body; a proxy may have dropped the request`,
      );
    }
    return response;
  }

  /** Logs each of the server's deprecation notices once. */
  #deprecated(response: HttpResponse): void {
    const note = response.header("x-deprecation-note");
    if (note === undefined || note === "" || this.#notes.has(note)) return;
    if (this.#notes.size < mostNotes) this.#notes.add(note);
    const level = response.header("x-deprecation-level")?.trim().toLowerCase() === "error" ? "error" : "warn";
    this.reporter.log(level, `Deprecation notice: ${note}`);
  }

  async #exchangeOnce(request: PreparedRequest, options: SendOptions, timeoutMs: number): Promise<HttpResponse> {
    const given = options.token ?? this.credentials.token();
    const token = typeof given === "string" ? given : await untilAborted(given, options.signal);
    this.reporter.redactor.add(token);
    // Thousands of calls wait here: no variable keeps data that is only needed for sending.
    const route = this.metrics.sent(request.operation, {
      retry: (options.retries ?? 0) > 0,
      bytes: bodyBytes(request.body),
    });
    const sentAtMs = this.#clock.monotonic();
    let response: HttpResponse;
    try {
      response = await this.#exchange.send(this.#httpRequest(request, options, token, timeoutMs));
    } catch (error) {
      if (!options.signal?.aborted) route.failures++;
      throw error;
    }
    route.response(this.#clock.monotonic() - sentAtMs);
    route.bytesReceived += response.body.byteLength;
    if (response.status >= 400 && response.status !== 408) route.failures++;
    if (!isRedirect(response) || request.operation === "getCheckpointArchiveUrl") return response;
    return this.#follow(this.#httpRequest(request, options, token, timeoutMs), response);
  }

  async ask(request: OwnRequest, options: SendOptions = {}): Promise<HttpResponse> {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
    const { method, path, body, pool, timeoutMs, contentType } = request;
    const credential = options.token ?? this.credentials.token();
    const token = typeof credential === "string" ? credential : await untilAborted(credential, options.signal);
    this.reporter.redactor.add(token);
    const headers: Record<string, string> = omitUndefined({ "content-type": contentType });
    if (method !== "GET") headers["x-idempotency-key"] = `tinklet-${entropy.uuid()}`;
    const url = `${this.baseUrl}${apiPrefix}${path}`;
    const sent = this.#httpRequest({ method, url, body, headers, pool }, options, token, timeoutMs);
    const response = await this.#exchange.send(sent);
    return isRedirect(response) ? this.#follow(sent, response) : response;
  }

  #httpRequest(
    request: Pick<PreparedRequest, "method" | "url" | "body" | "pool" | "headers"> & { readonly operation?: Operation },
    options: SendOptions,
    token: string,
    timeoutMs: number,
  ): HttpRequest {
    const { method, url, body, pool, operation } = request;
    // Background calls run in the context of the call that created the session, which they do not belong to.
    const traced = operation !== undefined && !isBackground(operation);
    const headers = {
      ...(traced ? this.traceHeaders() : {}),
      ...this.#headers,
      ...request.headers,
      "x-api-key": token,
      "x-stainless-retry-count": String(options.retries ?? 0),
      "x-stainless-read-timeout": String(timeoutMs / 1000),
      ...lowerCased(options.headers),
    };
    return { method, url, headers, body, pool, timeoutMs, signal: options.signal };
  }

  async #follow(sent: HttpRequest, redirect: HttpResponse): Promise<HttpResponse> {
    let next = sent;
    let response = redirect;
    for (let hops = 0; isRedirect(response); hops++) {
      if (hops === mostRedirects) throw new APIConnectionError(`${sent.method} ${sent.url}: too many redirects`);
      const url = new URL(response.header("location")!, next.url);
      const headers = url.origin === new URL(next.url).origin ? next.headers : withoutSecrets(next.headers);
      next = { ...next, headers, url: url.href };
      if (response.status === 303 || (response.status < 303 && next.method === "POST")) {
        next = { ...next, method: "GET", body: undefined };
      }
      response = await this.#exchange.send(next);
    }
    return response;
  }

  async send(request: PreparedRequest, options: SendOptions = {}): Promise<HttpResponse> {
    const startedAtMs = options.startedAtMs ?? this.#clock.monotonic();
    let pausedMs = 0;
    for (let retries = 0; ; retries++) {
      const error = await this.#tryOnce(request, { ...options, startedAtMs, retries });
      if (!(error instanceof Error)) return error;
      // Background calls do not pause for billing: they repeat by their period, and no call may wait for them.
      if (!isBackground(request.operation) && isUnpaid(error) && this.billing.met(request.operation)) {
        const before = this.#clock.monotonic();
        await this.sleep(billingRetryMs, options.signal);
        pausedMs += this.#clock.monotonic() - before;
        retries--;
        continue;
      }
      const retryable = isRetryable(error);
      const delayMs = retryable
        ? nextDelayMs(this.#policyFor(options, error), {
            retries,
            elapsedMs: this.#clock.monotonic() - startedAtMs - pausedMs,
            retryAfterMs: error instanceof APIStatusError ? error.retryAfterMs : undefined,
            random: this.#random(),
          })
        : undefined;
      if (delayMs === undefined) {
        const lacks = error instanceof APIStatusError ? unsupported(error, request.operation) : undefined;
        throw lacks ?? (retryable ? this.#asUnreachable(error) : error);
      }
      this.reporter.report({
        type: "request.retry",
        operation: request.operation,
        attempt: retries + 1,
        delayMs,
        reason: error.message,
      });
      await this.sleep(delayMs, options.signal);
    }
  }

  /** Waits; ends early when aborted or when the transport is closed. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const closing = this.#closing.signal;
    return this.#clock.sleep(ms, signal === undefined ? closing : AbortSignal.any([signal, closing]));
  }

  /** Returns a 2xx response or the error of this attempt. Throws aborts and unexpected errors. */
  async #tryOnce(
    request: PreparedRequest,
    options: SendOptions,
  ): Promise<HttpResponse | APIStatusError | APIConnectionError> {
    try {
      const response = await this.attempt(request, options);
      if (isSuccess(response) || options.accept?.(response) === true) return response;
      return this.failure(request, response, options.facts);
    } catch (error) {
      if (error instanceof APIConnectionError && !options.signal?.aborted) return error;
      throw error;
    }
  }

  #policyFor(options: SendOptions, error: Error): RetryPolicy {
    const maxRetries = options.maxRetries ?? this.#policy.maxRetries;
    if (this.#contacted) return { ...this.#policy, maxRetries };
    const usual = causeCode(error.cause) === "ECONNREFUSED" ? refusedWindowMs : firstContactWindowMs;
    return { ...this.#policy, maxRetries, windowMs: options.firstContactMs ?? usual };
  }

  /** The final error if the server has never responded: names the URL and what to check. */
  #asUnreachable(error: APIStatusError | APIConnectionError): Error {
    if (this.#contacted) return error;
    if (error instanceof APIStatusError) {
      return new APIConnectionError(`${this.baseUrl} responds with errors only: ${error.message}`, {
        code: "unreachable",
        hint: ["A server listens there, but the service is down or the URL is wrong", ...urlNames, "."],
        cause: error,
      });
    }
    const local = /\/\/(localhost|127\.|\[::1\])/.test(this.baseUrl);
    return new APIConnectionError(`No Tinker server answers at ${this.baseUrl}: ${error.message}`, {
      code: "unreachable",
      hint:
        error instanceof APITimeoutError
          ? [
              "The host does not respond: check the URL",
              ...urlNames,
              ", the network, and proxies (HTTPS_PROXY, NO_PROXY).",
            ]
          : causeCode(error.cause) === "ENOTFOUND"
            ? ["The host name is not known: check the URL", ...urlNames, "."]
            : local
              ? ["Nothing listens there: start the server (npx tinklet serve) or check the port", ...urlNames, "."]
              : ["Check the URL", ...urlNames, " and the network."],
      cause: error,
    });
  }

  failure(request: PreparedRequest, response: HttpResponse, facts: Partial<FailureFacts> = {}): APIStatusError {
    return failureOf(response, {
      method: request.method,
      path: request.path,
      redactor: this.reporter.redactor,
      nowMs: this.#clock.now(),
      facts: { operation: request.operation, baseUrl: this.baseUrl, ...facts },
    });
  }

  decode<K extends Operation>(operation: K, response: HttpResponse): ResponseOf<K> {
    const schema = routeOf(operation).response as Message<ResponseOf<K>> | undefined;
    if (schema === undefined) return undefined as ResponseOf<K>;
    try {
      return schema.decode(parseJson(utf8.decode(response.body), { nonFinite: true }));
    } catch (error) {
      if (!(error instanceof ResponseValidationError)) throw error;
      const type = response.header("content-type") ?? "no content type";
      const { path } = routeOf(operation);
      throw new ResponseValidationError(error.field, `${error.problem} (answer to ${path}, ${type})`, {
        hint:
          error.hint ??
          (type.includes("json")
            ? "The server uses another version of the API than this client."
            : `Check that ${this.baseUrl} is a Tinker server: the response is not JSON.`),
        cause: error,
      });
    }
  }

  async call<K extends Operation>(
    operation: K,
    request: RequestOf<K>,
    options: SendOptions = {},
  ): Promise<ResponseOf<K>> {
    if (!isKnown(operation)) await loadRoute(operation);
    return this.callPrepared(operation, this.prepare(operation, request), options);
  }

  async callPrepared<K extends Operation>(
    operation: K,
    prepared: PreparedRequest,
    options: SendOptions = {},
  ): Promise<ResponseOf<K>> {
    const { retry } = routeOf(operation);
    const response = await this.send(prepared, retry === "standard" ? options : { maxRetries: 0, ...options });
    return this.decode(operation, response);
  }

  /** Rejects calls in progress; later calls fail immediately. */
  async close(): Promise<void> {
    this.#closing.abort(new APIConnectionError("The client is closed.", { code: "closed" }));
    await this.#exchange.close();
  }
}

const isUnpaid = (error: Error) => error instanceof APIStatusError && error.status === 402;
const isSuccess = ({ status }: HttpResponse) => status >= 200 && status < 300;
const isRedirect = (response: HttpResponse) =>
  [301, 302, 303, 307, 308].includes(response.status) && response.header("location") !== undefined;

function lowerCased(headers?: Readonly<Record<string, string>>): Record<string, string> | undefined {
  if (headers === undefined) return undefined;
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

const isBackground = (operation: Operation): boolean => routeOf(operation).retry === "background";

/** Removes credentials from headers before a redirect to another origin is followed. */
export function withoutSecrets(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !/^(x-api-key|authorization|cookie|cf-access-)/i.test(name)),
  );
}
