/**
 * The options of a client, each with its unit, its default and the environment variable that sets it.
 */

import type { UserMetadata } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { EventListener, Logger, LogLevel } from "../events.ts";
import type { FetchLike } from "../transport/exchange.ts";
import { defaultMaxSockets, type MaxSockets } from "../transport/pools.ts";
import type { ProxySettings } from "../transport/proxy.node.ts";
import type { CallOptions } from "../transport/transport.ts";
import { type RetryConfig, retryConfigNames } from "./sampling/retry-config.ts";
import type { SharedLimits } from "./sampling/shared-limit.node.ts";

/** Options of every call that returns an {@link APIFuture}. */
export interface OperationOptions {
  /** Cancels the call. A request that has not been sent is dropped; the server still completes one that was sent. */
  readonly signal?: AbortSignal | undefined;
  /** Timeout in milliseconds; when it passes, the call ends as if `signal` were aborted. @defaultValue no limit */
  readonly timeoutMs?: number | undefined;
  /** Attached to the events of this call and to its OpenTelemetry span, as `tinker.metadata.<key>`. Not sent to the server. */
  readonly metadata?: Readonly<Record<string, string | number>> | undefined;
}

/** Options of {@link ServiceClient}. All optional. */
export interface ClientOptions {
  /** API key (`tml-…`) or access token. @defaultValue `TINKER_API_KEY`, else the output of `TINKER_CREDENTIAL_CMD` */
  readonly apiKey?: string | undefined;
  /** Base URL of the server; a path prefix is kept. @defaultValue `TINKER_BASE_URL`, else the hosted service */
  readonly baseUrl?: string | undefined;
  /** Id of the project that sessions belong to. @defaultValue `TINKER_PROJECT_ID` */
  readonly projectId?: string | undefined;
  /** Name of the session, as consoles show it. Servers older than 0.34 may refuse it. */
  readonly displayName?: string | undefined;
  /** Metadata stored with the session. */
  readonly userMetadata?: UserMetadata | undefined;
  /** Tags of the session. @defaultValue `TINKER_TAGS`, separated by commas */
  readonly tags?: readonly string[] | undefined;
  /** Timeout of one HTTP attempt, in milliseconds. Polling for results has its own. @defaultValue 60000 */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of retries of a request. Polling and sampling have their own rules. @defaultValue 10 */
  readonly maxRetries?: number | undefined;
  /** Headers sent with every request; they override the SDK's own headers, except the credential. */
  readonly defaultHeaders?: Readonly<Record<string, string>> | undefined;
  /** Custom `fetch` implementation, for example for recording, or for an in-process server. */
  readonly fetch?: FetchLike | undefined;
  /** Logger that receives the log messages. @defaultValue `console` */
  readonly logger?: Logger | undefined;
  /** Minimum level of the messages that are logged. @defaultValue `TINKER_LOG`, else `warn` */
  readonly logLevel?: LogLevel | undefined;
  /** Called with every event: retries, queue states, slow and finished calls. */
  readonly onEvent?: EventListener | undefined;
  /** Retries and concurrency limits of sampling. */
  readonly retryConfig?: RetryConfig | undefined;
  /** A limit of concurrent samples that the processes of this machine keep together, on Node. @defaultValue `TINKLET_SHARED_SAMPLES` as `maxSamples`, else none */
  readonly sharedLimits?: SharedLimits | undefined;
  /** Maximum number of sockets per connection pool, on Node. @defaultValue 2000 for polls, 50 for each other pool */
  readonly maxSockets?: Partial<MaxSockets> | undefined;
  /**
   * Proxy of all requests, on Node: a URL, or a URL with headers for the proxy and hosts that are reached without it.
   * @defaultValue `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`
   */
  readonly proxy?: ProxySettings | undefined;
  /**
   * Whether polls for results share HTTP/2 sessions, on Node, if the server offers HTTP/2 and there is no proxy; else they use a socket each.
   * @defaultValue false, or true with `TINKLET_HTTP2=1`
   */
  readonly http2?: boolean | undefined;
  /** Maximum size of a response body, in bytes; a larger one is an error. @defaultValue 1 GiB */
  readonly maxResponseBytes?: number | undefined;
  /** Whether failures are reported to the server. @defaultValue `TINKER_TELEMETRY`, on unless set to something else than 1, true, yes, on */
  readonly telemetry?: boolean | undefined;
  /** Source of time and timers; for tests. @defaultValue the system clock */
  readonly clock?: Clock | undefined;
}

/** The names of {@link OperationOptions}. */
export const operationNames: OptionNames<OperationOptions> = { signal: true, timeoutMs: true, metadata: true };

/** The names of {@link CallOptions}. */
export const callNames: OptionNames<CallOptions> = {
  signal: true,
  timeoutMs: true,
  maxRetries: true,
  headers: true,
  token: true,
};

const sharedNames: OptionNames<SharedLimits> = { maxSamples: true, folder: true };

const clientNames: OptionNames<ClientOptions> = {
  apiKey: true,
  baseUrl: true,
  projectId: true,
  displayName: true,
  userMetadata: true,
  tags: true,
  timeoutMs: true,
  maxRetries: true,
  defaultHeaders: true,
  fetch: true,
  logger: true,
  logLevel: true,
  onEvent: true,
  retryConfig: true,
  sharedLimits: true,
  maxSockets: true,
  proxy: true,
  http2: true,
  maxResponseBytes: true,
  telemetry: true,
  clock: true,
};

/**
 * @param more - additional valid names, for options that other components read.
 * @throws {@link InvalidInputError} naming an unknown option.
 */
export function checkClientOptions(
  of: string,
  options: ClientOptions,
  more: Readonly<Record<string, true>> = {},
): void {
  checkOptions(of, options, { ...clientNames, ...more });
  checkOptions("maxSockets", options.maxSockets, defaultMaxSockets, "maxSockets");
  checkOptions("sharedLimits", options.sharedLimits, sharedNames, "sharedLimits");
  checkOptions("retryConfig", options.retryConfig, retryConfigNames, "retryConfig");
}
