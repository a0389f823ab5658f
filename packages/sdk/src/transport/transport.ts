/**
 * The interface between clients and HTTP: prepare a request of the contract, send it once or with retries, read the response.
 * `http-transport.ts` implements it.
 */

import type { Operation, Pool, RequestOf, ResponseOf } from "@tinklet/wire/client";
import type { APIStatusError } from "@tinklet/wire/errors";
import type { HttpResponse } from "./exchange.ts";
import type { FailureFacts } from "./hints.ts";

/** Options of every request. */
export interface CallOptions {
  /** Cancels the call. A request that was already sent is not undone. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Timeout of the whole call in milliseconds, including connecting, retries and pauses. Each attempt also has its own timeout
   * ({@link ClientOptions.timeoutMs}). @defaultValue no limit
   */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of retries. @defaultValue 10 */
  readonly maxRetries?: number | undefined;
  /** Additional headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Credential for this call only, for example for another account's weights. */
  readonly token?: string | undefined;
}

/** {@link CallOptions} plus options for internal callers. */
export interface SendOptions extends CallOptions {
  /** Here: timeout of one attempt. @defaultValue the operation's timeout in the contract */
  readonly timeoutMs?: number | undefined;
  /** Facts about the request, for hints. */
  readonly facts?: Partial<FailureFacts>;
  /** Start of the logical call on the monotonic clock, if the caller has its own retry loop. */
  readonly startedAtMs?: number;
  /** Retry window while the server has never responded. @defaultValue 15 s, 3 s if the connection is refused */
  readonly firstContactMs?: number | undefined;
  /** Selects responses outside 2xx that are returned to the caller instead of thrown. */
  readonly accept?: (response: HttpResponse) => boolean;
  /** Retries of the caller's own loop, for the retry count header. */
  readonly retries?: number;
}

/** An encoded request. It may be sent several times; its idempotency key identifies it. */
export interface PreparedRequest {
  readonly operation: Operation;
  readonly method: string;
  readonly path: string;
  readonly url: string;
  readonly body: string | Uint8Array | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly pool: Pool;
  readonly timeoutMs: number;
}

/** A request for a route that only Tinklet servers have and that is not in the contract. */
export interface OwnRequest {
  readonly method: "GET" | "POST";
  /** Path relative to the API's prefix. */
  readonly path: string;
  readonly body?: Uint8Array | undefined;
  readonly contentType?: string | undefined;
  readonly pool: Pool;
  readonly timeoutMs: number;
}

export interface Transport {
  /** @throws {@link InvalidInputError} naming the field, before anything is sent. */
  prepare<K extends Operation>(operation: K, request: RequestOf<K>): PreparedRequest;

  /** Prepares a request from an encoded body. */
  prepareBytes(operation: "forwardBackward", body: Uint8Array): PreparedRequest;

  /** One attempt. Returns responses of every status; throws if no response arrived. */
  attempt(request: PreparedRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Sends a request for a Tinklet route once. Returns responses of every status; other servers respond with 404. */
  ask(request: OwnRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Sends until a 2xx response; throws the error of the last attempt when no attempts or no time remain. */
  send(request: PreparedRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Decodes a response by its route. @throws {@link ResponseValidationError} */
  decode<K extends Operation>(operation: K, response: HttpResponse): ResponseOf<K>;

  /** Converts a response outside 2xx to an error. */
  failure(request: PreparedRequest, response: HttpResponse, facts?: Partial<FailureFacts>): APIStatusError;

  /** Sends a prepared request and decodes the response. */
  callPrepared<K extends Operation>(
    operation: K,
    request: PreparedRequest,
    options?: SendOptions,
  ): Promise<ResponseOf<K>>;

  /** Prepares a request, sends it and decodes the response. */
  call<K extends Operation>(operation: K, request: RequestOf<K>, options?: SendOptions): Promise<ResponseOf<K>>;

  /** Waits on the transport's clock; ends early when aborted or closed. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;

  close(): Promise<void>;
}
