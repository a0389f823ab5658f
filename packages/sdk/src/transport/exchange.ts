/**
 * One HTTP exchange: sends a request and returns the complete response, without retries. Contains the deadline of a single attempt and
 * the `fetch` implementation; connection pools for Node are in `undici-exchange.node.ts`.
 */
import { onAbort } from "@tinklet/wire/abort";
import type { Pool } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { APIConnectionError, APITimeoutError, ResponseValidationError } from "@tinklet/wire/errors";

/** A request, ready to be sent. */
export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
  readonly pool: Pool;
  /**
   * Timeout of the response's headers and of every 64 KiB of a body, in milliseconds. Applies to the response's body, and to the
   * request's body where its progress is visible.
   */
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
}

/** A response with its complete body. Redirects are returned, not followed. */
export interface HttpResponse {
  readonly status: number;
  /** A header's value by its lower-case name. */
  header(name: string): string | undefined;
  readonly body: Uint8Array;
}

/** Sends requests. */
export interface Exchange {
  /**
   * @throws {@link APIConnectionError} when no complete response arrived, {@link APITimeoutError} when the deadline passed, and
   * `signal.reason` unchanged when aborted.
   */
  send(request: HttpRequest): Promise<HttpResponse>;
  /** Closes the sockets. Requests in progress fail. */
  close(): Promise<void>;
}

/** Default maximum size of a response body. */
export const defaultMaxResponseBytes = 1024 ** 3;

/** The deadline is extended per this many bytes, so that a peer that sends single bytes (slow loris) does not extend it. */
const progressBytes = 64 * 1024;

/** Uploads get at least the time that they take at one megabit per second. */
const slowestUploadBytesPerSecond = 125_000;

/** The additional time for uploading a body; 0 for a body of at most one chunk. */
export const uploadMs = (bytes: number): number =>
  bytes <= progressBytes ? 0 : (bytes / slowestUploadBytesPerSecond) * 1000;

/** The bytes of a body; for strings, their length, which equals it for ASCII. */
export const bodyBytes = (body: HttpRequest["body"]): number =>
  body === undefined ? 0 : typeof body === "string" ? body.length : body.byteLength;

/**
 * The deadline of one attempt, on the clock's timers. It is extended only by progress.
 */
export class Deadline {
  readonly #clock: Clock;
  #timeoutMs: number;
  readonly #expire: () => void;
  #cancel: () => void;
  #unseen = 0;
  #stopped = false;

  constructor(clock: Clock, timeoutMs: number, expire: () => void) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#expire = expire;
    this.#cancel = clock.timer(timeoutMs, expire);
  }

  /** Restarts the timeout: the headers arrived, or the request was sent. Does nothing after the end. */
  restart(timeoutMs = this.#timeoutMs): void {
    if (this.#stopped) return;
    this.#timeoutMs = timeoutMs;
    this.#cancel();
    this.#unseen = 0;
    this.#cancel = this.#clock.timer(this.#timeoutMs, this.#expire);
  }

  /** Records bytes of a body that were sent or received. */
  moved(bytes: number): void {
    this.#unseen += bytes;
    if (this.#unseen >= progressBytes) this.restart();
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }
}

/** The parts of a request that messages contain. */
export type RequestFacts = Pick<HttpRequest, "method" | "url" | "timeoutMs">;

export function timeoutError(request: RequestFacts): APITimeoutError {
  return new APITimeoutError(
    `${request.method} ${withoutQuery(request.url)}: no answer within ${request.timeoutMs / 1000} s`,
  );
}

export function tooLargeError(request: RequestFacts, limit: number): ResponseValidationError {
  return new ResponseValidationError(
    "",
    `${request.method} ${withoutQuery(request.url)}: the answer is larger than the ${limit} bytes allowed`,
    { hint: "Raise maxResponseBytes, or request less per call." },
  );
}

/** Converts a transport failure to an error that names its cause. */
export function connectionError(request: RequestFacts, cause: unknown): APIConnectionError {
  const code = causeCode(cause);
  const text = causeTexts[code ?? ""] ?? (cause instanceof Error && cause.message !== "" ? cause.message : "failed");
  return new APIConnectionError(`${request.method} ${withoutQuery(request.url)}: ${text}`, { cause });
}

const causeTexts: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was closed while sending",
  ENOTFOUND: "the host name is not known",
  EAI_AGAIN: "the host name could not be looked up",
  EHOSTUNREACH: "the host is unreachable",
  ENETUNREACH: "the network is unreachable",
  ETIMEDOUT: "the connection timed out",
  UND_ERR_CONNECT_TIMEOUT: "the connection could not be opened in time",
  UND_ERR_SOCKET: "the connection was closed before the answer was complete",
};

/** The first system error code in the chain of causes. */
export function causeCode(error: unknown): string | undefined {
  const seen = new Set<unknown>();
  for (let at = error; typeof at === "object" && at !== null && !seen.has(at); at = (at as { cause?: unknown }).cause) {
    seen.add(at);
    const { code, errors } = at as { code?: unknown; errors?: unknown };
    if (typeof code === "string") return code;
    // Node tries IPv6 and IPv4 and reports both failures together.
    if (Array.isArray(errors) && errors.length > 0) return causeCode(errors[0]);
  }
  return undefined;
}

/** A URL without query and user info, for messages. */
export function withoutQuery(url: string): string {
  const end = url.search(/[?#]/);
  return (end === -1 ? url : url.slice(0, end)).replace(/\/\/[^/@]*@/, "//");
}

/** Concatenates chunks; a single chunk is not copied. */
export function joinBytes(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 1) return pieces[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}

/** A function like the platform's `fetch`. */
export type FetchLike = (url: string, init: RequestInit) => Promise<Response>;

/**
 * HTTP over `fetch`: the platform's, or one that the caller passes (a proxy, a recorder, an in-process server).
 */
export class FetchExchange implements Exchange {
  readonly #fetch: FetchLike;
  readonly #clock: Clock;
  readonly #maxResponseBytes: number;
  readonly #underWay = new Set<AbortController>();

  constructor(options: { readonly fetch: FetchLike; readonly clock: Clock; readonly maxResponseBytes?: number }) {
    this.#fetch = options.fetch;
    this.#clock = options.clock;
    this.#maxResponseBytes = options.maxResponseBytes ?? defaultMaxResponseBytes;
  }

  async send(request: HttpRequest): Promise<HttpResponse> {
    const { signal } = request;
    signal?.throwIfAborted();
    const controller = new AbortController();
    this.#underWay.add(controller);
    const forget = onAbort(signal, () => controller.abort(signal?.reason));
    // fetch does not report upload progress, so a large body gets its upload time in advance.
    const timeoutMs = request.timeoutMs + uploadMs(bodyBytes(request.body));
    const deadline = new Deadline(this.#clock, timeoutMs, () => controller.abort(timeoutError(request)));
    // An injected fetch may ignore the signal; the race enforces the deadline.
    const aborted = new Promise<never>((_, reject) => {
      controller.signal.addEventListener("abort", () => reject(controller.signal.reason), { once: true });
    });
    try {
      return await Promise.race([this.#exchange(request, controller.signal, deadline), aborted]);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (controller.signal.aborted) throw controller.signal.reason;
      if (error instanceof ResponseValidationError) throw error;
      throw connectionError(request, error);
    } finally {
      deadline.stop();
      this.#underWay.delete(controller);
      forget();
    }
  }

  async #exchange(request: HttpRequest, signal: AbortSignal, deadline: Deadline): Promise<HttpResponse> {
    const { method, headers, body } = request;
    const init: RequestInit = { method, headers, redirect: "manual", signal };
    if (body !== undefined) init.body = body as BodyInit;
    let response = await this.#fetch(request.url, init);
    // Browsers hide the target of a redirect, so the platform must follow it.
    if (response.type === "opaqueredirect") {
      response = await this.#fetch(request.url, { ...init, redirect: "follow" });
    }
    deadline.restart(request.timeoutMs);
    const bytes = await this.#read(request, response, deadline);
    return { status: response.status, header: (name) => response.headers.get(name) ?? undefined, body: bytes };
  }

  async #read(request: HttpRequest, response: Response, deadline: Deadline): Promise<Uint8Array> {
    if (response.body === null) return new Uint8Array(0);
    const pieces: Uint8Array[] = [];
    let length = 0;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      length += value.byteLength;
      if (length > this.#maxResponseBytes) {
        await reader.cancel().catch(() => {});
        throw tooLargeError(request, this.#maxResponseBytes);
      }
      pieces.push(value);
      deadline.moved(value.byteLength);
    }
    return joinBytes(pieces, length);
  }

  async close(): Promise<void> {
    const closed = new APIConnectionError("The client was closed.", { code: "closed" });
    for (const controller of this.#underWay) controller.abort(closed);
  }
}
