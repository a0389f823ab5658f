/**
 * What the layers above need of a connection to a server: prepare a request of the contract, send it once or until its
 * budget is spent, read the answer. `http-transport.ts` is the implementation.
 */

import type { Operation, Pool, RequestOf, ResponseOf } from "@tinklet/wire/client";
import type { APIStatusError } from "@tinklet/wire/errors";
import type { HttpResponse } from "./exchange.ts";
import type { FailureFacts } from "./hints.ts";

/** Options of every request. */
export interface CallOptions {
  /** Cancels the waiting. A request that was sent is not undone. */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long the whole call may take, in milliseconds: connecting, retries and pauses included. Each attempt has a limit of its
   * own besides ({@link ClientOptions.timeoutMs}). @defaultValue no limit
   */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of retries. @defaultValue 10 */
  readonly maxRetries?: number | undefined;
  /** Additional headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A credential for this call alone, for example for another account's weights. */
  readonly token?: string | undefined;
}

/** {@link CallOptions} plus what only the SDK's own layers say. */
export interface SendOptions extends CallOptions {
  /** Here: how long one attempt may take. @defaultValue what the operation's row in the contract says */
  readonly timeoutMs?: number | undefined;
  /** What the request is about, for hints. */
  readonly facts?: Partial<FailureFacts>;
  /** When the logical call began, on the monotonic clock; several attempts of a caller's own loop share it. */
  readonly startedAtMs?: number;
  /** How long a server that has never answered is tried. @defaultValue 15 s, 3 s where the connection is refused */
  readonly firstContactMs?: number | undefined;
  /** Answers outside 2xx that the caller wants as they are. */
  readonly accept?: (response: HttpResponse) => boolean;
  /** Retries that the caller's own loop has taken, for the header that tells them. */
  readonly retries?: number;
}

/** An encoded request. May be sent many times; the server can tell that it is the same one. */
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

/** A request by a route of Tinklet's own servers, which the contract of the service does not have. */
export interface OwnRequest {
  readonly method: "GET" | "POST";
  /** Below the API's prefix. */
  readonly path: string;
  readonly body?: Uint8Array | undefined;
  readonly contentType?: string | undefined;
  readonly pool: Pool;
  readonly timeoutMs: number;
}

export interface Transport {
  /** @throws {@link InvalidInputError} naming the field, before anything is sent. */
  prepare<K extends Operation>(operation: K, request: RequestOf<K>): PreparedRequest;

  /** A request whose body is encoded already. */
  prepareBytes(operation: "forwardBackward", body: Uint8Array): PreparedRequest;

  /** One attempt. Returns the answer whatever its status; throws only when there is none. */
  attempt(request: PreparedRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Asks by a route of Tinklet's own, once. Returns the answer whatever its status; other servers answer 404. */
  ask(request: OwnRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Sends until a 2xx answer, or throws what the last attempt met once budget or window is spent. */
  send(request: PreparedRequest, options?: SendOptions): Promise<HttpResponse>;

  /** Reads an answer as its route says. @throws {@link ResponseValidationError} */
  decode<K extends Operation>(operation: K, response: HttpResponse): ResponseOf<K>;

  /** The error that an answer outside 2xx means. */
  failure(request: PreparedRequest, response: HttpResponse, facts?: Partial<FailureFacts>): APIStatusError;

  /** Sends and reads. */
  callPrepared<K extends Operation>(
    operation: K,
    request: PreparedRequest,
    options?: SendOptions,
  ): Promise<ResponseOf<K>>;

  /** Prepares, sends and reads. */
  call<K extends Operation>(operation: K, request: RequestOf<K>, options?: SendOptions): Promise<ResponseOf<K>>;

  /** Waits on the transport's clock; ends early when aborted or closed. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;

  close(): Promise<void>;
}
