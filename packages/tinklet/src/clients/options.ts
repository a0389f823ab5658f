/**
 * What a client may be told: every option with its unit, default and the environment variable that stands in for it.
 */
import type { Clock } from "../clock.ts";
import type { EventListener, Logger, LogLevel } from "../events.ts";
import type { FetchLike } from "../transport/exchange.ts";
import type { MaxSockets } from "../transport/pools.ts";
import type { UserMetadata } from "../wire/session.ts";
import type { RetryConfig } from "./retry-config.ts";

/** What every call that returns an {@link APIFuture} takes. */
export interface OperationOptions {
  /** Aborted before the call's turn: it is not sent. Later: the waiting ends, the work on the server does not. */
  readonly signal?: AbortSignal | undefined;
  /** Ends the waiting after so many milliseconds, as an aborted `signal` does. @defaultValue no limit */
  readonly timeoutMs?: number | undefined;
}

/** Options of {@link ServiceClient}. All optional. */
export interface ClientOptions {
  /** The key, `tml-…`, or a token. @defaultValue `TINKER_API_KEY`, else the output of `TINKER_CREDENTIAL_CMD` */
  readonly apiKey?: string | undefined;
  /** Where the server is; a path prefix is kept. @defaultValue `TINKER_BASE_URL`, else the hosted service */
  readonly baseUrl?: string | undefined;
  /** The project that sessions belong to. @defaultValue `TINKER_PROJECT_ID` */
  readonly projectId?: string | undefined;
  /** Notes that travel with the session. */
  readonly userMetadata?: UserMetadata | undefined;
  /** Words that mark the session. @defaultValue `TINKER_TAGS`, separated by commas */
  readonly tags?: readonly string[] | undefined;
  /** How long one attempt of an ordinary call may take, in milliseconds. Polls keep their own. @defaultValue 60000 */
  readonly timeoutMs?: number | undefined;
  /** How often an ordinary call is sent again. Polls and sampling have rules of their own. @defaultValue 10 */
  readonly maxRetries?: number | undefined;
  /** Headers for every request; they win over the SDK's own, except the credential. */
  readonly defaultHeaders?: Readonly<Record<string, string>> | undefined;
  /** Replaces the platform's network: a proxy, a recorder, an in-process server. */
  readonly fetch?: FetchLike | undefined;
  /** Where sentences go. @defaultValue `console` */
  readonly logger?: Logger | undefined;
  /** How much the logger hears. @defaultValue `TINKER_LOG`, else `warn` */
  readonly logLevel?: LogLevel | undefined;
  /** Hears of everything that happens: retries, queue states, slow and finished calls. */
  readonly onEvent?: EventListener | undefined;
  /** How sampling is retried and limited. */
  readonly retryConfig?: RetryConfig | undefined;
  /** Sockets per purpose, on Node. @defaultValue 2000 for polls, 50 for each other purpose */
  readonly maxSockets?: Partial<MaxSockets> | undefined;
  /** A longer answer is refused. @defaultValue 1 GiB */
  readonly maxResponseBytes?: number | undefined;
  /** Whether failures are reported to the server. @defaultValue `TINKER_TELEMETRY`, on unless set to something else than 1, true, yes, on */
  readonly telemetry?: boolean | undefined;
  /** Time, for tests. */
  readonly clock?: Clock | undefined;
}
