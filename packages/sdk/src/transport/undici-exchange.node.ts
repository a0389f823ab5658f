/**
 * HTTP over undici: one agent per pool, each with its own limit of sockets, so that thousands of waiting polls never take a socket from
 * a training request. Uses undici's dispatcher directly, because its `fetch` costs several times the CPU time and memory per call. Node
 * only, loaded when first needed. With the option `http2`, polls go through `http2-sessions.node.ts`.
 */

import { onAbort } from "@tinklet/wire/abort";
import type { Pool } from "@tinklet/wire/client";
import type { Clock } from "@tinklet/wire/clock";
import { APIConnectionError, type TinkerError } from "@tinklet/wire/errors";
import { omitUndefined } from "@tinklet/wire/options";
import { Agent, type Dispatcher, EnvHttpProxyAgent } from "undici";
import { nodeBuiltin } from "../node-builtin.ts";
import { environment } from "./environment.ts";
import {
  connectionError,
  Deadline,
  defaultMaxResponseBytes,
  type Exchange,
  type HttpRequest,
  type HttpResponse,
  joinBytes,
  type RequestFacts,
  timeoutError,
  tooLargeError,
  uploadMs,
} from "./exchange.ts";
import { Http2Sessions } from "./http2-sessions.node.ts";
import type { MaxSockets } from "./pools.ts";
import { type ProxySettings, proxyError, proxyOptions } from "./proxy.node.ts";

const { promisify } = nodeBuiltin<typeof import("node:util")>("node:util");
const { brotliDecompress, gunzip, inflate } = nodeBuiltin<typeof import("node:zlib")>("node:zlib");

const textEncoder = new TextEncoder();

/** Larger bodies are sent in chunks of this size. */
const pieceBytes = 64 * 1024;

/** Default maximum of the operating system's send buffer. */
const mostBufferedBytes = 4 * 1024 * 1024;

/** Timeout of opening a connection; counts toward the attempt's timeout. */
const connectTimeoutMs = 5_000;

const decoders: Readonly<
  Record<string, (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>>
> = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

/** What sends a pool's requests. */
type Agency = Pick<Dispatcher, "dispatch"> & { destroy(error: Error): Promise<void> };

export class UndiciExchange implements Exchange {
  readonly #clock: Clock;
  readonly #maxSockets: MaxSockets;
  readonly #maxResponseBytes: number;
  readonly #background: Clock;
  readonly #http2: boolean;
  readonly #proxy: EnvHttpProxyAgent.Options | undefined;
  readonly #agents = new Map<Pool, Agency>();
  #closed = false;

  constructor(options: {
    readonly clock: Clock;
    /** Clock whose timers do not keep the process alive. @defaultValue `clock` */
    readonly background?: Clock | undefined;
    readonly maxSockets: MaxSockets;
    readonly maxResponseBytes?: number | undefined;
    /** Whether polls use HTTP/2 where the server offers it and no proxy is configured. @defaultValue false */
    readonly http2?: boolean | undefined;
    /** @defaultValue the proxies from the environment */
    readonly proxy?: ProxySettings | undefined;
    /** Receives the proxy's credentials, for redaction. */
    readonly onSecret?: ((secret: string) => void) | undefined;
  }) {
    this.#clock = options.clock;
    this.#background = options.background ?? options.clock;
    this.#http2 = options.http2 ?? false;
    this.#proxy = options.proxy === undefined ? undefined : proxyOptions(options.proxy, options.onSecret);
    this.#maxSockets = options.maxSockets;
    this.#maxResponseBytes = options.maxResponseBytes ?? defaultMaxResponseBytes;
  }

  // Not async: the frame would keep the request's headers in memory until the response arrives.
  send(request: HttpRequest): Promise<HttpResponse> {
    if (request.signal?.aborted) return Promise.reject(request.signal.reason);
    if (this.#closed) return Promise.reject(new APIConnectionError("The client is closed.", { code: "closed" }));
    const { method, url, timeoutMs } = request;
    const facts = { method, url, timeoutMs };
    const received = new Promise<Received>((resolve, reject) => {
      const handler = new Exchanging(request, this.#clock, this.#maxResponseBytes, resolve, reject);
      const { origin, path, host } = splitUrl(request.url);
      const { body, length } = handler.outgoing(request.body);
      this.#agent(request.pool).dispatch(
        {
          origin,
          path,
          method: request.method as Dispatcher.HttpMethod,
          headers: { "accept-encoding": "gzip, deflate", ...request.headers, ...length },
          body,
          headersTimeout: 0,
          bodyTimeout: 0,
          ...tlsName(host),
        },
        handler,
      );
    });
    return received.then((answer) =>
      answer.encoding === undefined ? answer : this.#decoded(facts, answer, answer.encoding),
    );
  }

  async #decoded(request: RequestFacts, answer: Received, encoding: string): Promise<HttpResponse> {
    const decode = decoders[encoding];
    if (decode === undefined || answer.body.byteLength === 0) return answer;
    try {
      const body = await decode(answer.body, { maxOutputLength: this.#maxResponseBytes });
      return { status: answer.status, header: (name) => answer.header(name), body };
    } catch (cause) {
      if ((cause as { code?: string }).code === "ERR_BUFFER_TOO_LARGE") {
        throw tooLargeError(request, this.#maxResponseBytes);
      }
      throw connectionError(request, cause);
    }
  }

  #agent(pool: Pool): Agency {
    const known = this.#agents.get(pool);
    if (known !== undefined) return known;
    const most = this.#maxSockets[pool];
    const options = { connections: most, pipelining: 1, connect: { timeout: connectTimeoutMs } };
    const proxied = this.#proxy ?? environmentProxies();
    const sockets = () => new Agent(options);
    const agent =
      proxied !== undefined
        ? new EnvHttpProxyAgent({ ...options, ...proxied })
        : this.#http2 && pool === "retrieve"
          ? new Http2Sessions({
              clock: this.#clock,
              background: this.#background,
              most,
              connectTimeoutMs,
              fallback: sockets,
            })
          : sockets();
    this.#agents.set(pool, agent);
    return agent;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const agents = [...this.#agents.values()];
    this.#agents.clear();
    await Promise.all(
      agents.map((agent) => agent.destroy(new APIConnectionError("The client was closed.", { code: "closed" }))),
    );
  }
}

/** A response before decompression. */
interface Received extends HttpResponse {
  /** `content-encoding`, when the body is not plain. */
  readonly encoding: string | undefined;
}

/** One request in progress: collects the response, enforces the deadline and the signal. Settles exactly once. */
class Exchanging implements Dispatcher.DispatchHandler {
  // Not the whole request, so that its headers can be freed while the response is pending.
  readonly #request: RequestFacts;
  readonly #maxBytes: number;
  readonly #resolve: (answer: Received) => void;
  readonly #reject: (error: unknown) => void;
  readonly #deadline: Deadline;
  readonly #forget: () => void;
  #controller: Dispatcher.DispatchController | undefined;
  #settled = false;
  #status = 0;
  #headers: Record<string, string | string[] | undefined> = {};
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(
    request: HttpRequest,
    clock: Clock,
    maxBytes: number,
    resolve: (answer: Received) => void,
    reject: (error: unknown) => void,
  ) {
    const { method, url, timeoutMs, signal } = request;
    this.#request = { method, url, timeoutMs };
    this.#maxBytes = maxBytes;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deadline = new Deadline(clock, timeoutMs, () => this.#fail(timeoutError(this.#request)));
    this.#forget = onAbort(signal, () => this.#fail(signal?.reason));
  }

  /** Sends a large body in chunks, so that the deadline sees progress. */
  outgoing(body: HttpRequest["body"]): { body: string | Uint8Array | null; length: object } {
    if (body === undefined || body.length <= pieceBytes) return { body: body ?? null, length: {} };
    const bytes = typeof body === "string" ? textEncoder.encode(body) : body;
    const pieces = async function* (this: Exchanging) {
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        yield bytes.subarray(at, at + pieceBytes);
        // undici requests the next chunk after it has written this one.
        this.#deadline.moved(pieceBytes);
      }
      // The operating system may still hold up to its send buffer.
      this.#deadline.restart(this.#request.timeoutMs + uploadMs(Math.min(bytes.length, mostBufferedBytes)));
    };
    // dispatch() accepts an async iterable, although undici's types do not say so.
    return { body: pieces.call(this) as unknown as Uint8Array, length: { "content-length": String(bytes.length) } };
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // Aborted while it waited in the pool's queue.
    if (this.#settled) controller.abort(new Error("given up"));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    this.#deadline.restart(this.#request.timeoutMs);
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Uint8Array): void {
    this.#length += piece.byteLength;
    if (this.#length > this.#maxBytes) {
      this.#fail(tooLargeError(this.#request, this.#maxBytes));
      return;
    }
    this.#pieces.push(piece);
    this.#deadline.moved(piece.byteLength);
  }

  onResponseEnd(): void {
    if (!this.#settle()) return;
    const headers = this.#headers;
    const header = (name: string) => {
      const value = headers[name];
      return Array.isArray(value) ? value.join(", ") : value;
    };
    const encoding = header("content-encoding")?.toLowerCase();
    this.#resolve({ status: this.#status, header, body: joinBytes(this.#pieces, this.#length), encoding });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (!this.#settle()) return;
    this.#reject(error instanceof APIConnectionError ? error : connectionError(this.#request, proxyError(error)));
  }

  #fail(error: TinkerError | unknown): void {
    if (!this.#settle()) return;
    this.#reject(error);
    this.#controller?.abort(new Error("given up"));
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#deadline.stop();
    this.#forget();
    return true;
  }
}

/**
 * TLS server names must not contain an underscore; the certificate is for the name with a dash. The result has no port and no user
 * info, which a redirect's URL may contain.
 */
export function tlsName(host: string): { servername?: string } {
  const name = host.slice(host.lastIndexOf("@") + 1).replace(/:\d*$/, "");
  return name.includes("_") ? { servername: name.replaceAll("_", "-") } : {};
}

/** Splits a URL without `new URL`, which costs more than the rest of the dispatch. The base URL was validated before. */
function splitUrl(url: string): { origin: string; path: string; host: string } {
  const start = url.indexOf("//") + 2;
  const slash = url.indexOf("/", start);
  if (slash === -1) return { origin: url, path: "/", host: url.slice(start) };
  return { origin: url.slice(0, slash), path: url.slice(slash), host: url.slice(start, slash) };
}

/** The proxies from the environment, in lower or upper case; an empty variable counts as unset. */
function environmentProxies(): { httpProxy?: string; httpsProxy?: string; noProxy: string } | undefined {
  const named = (name: string) => environment(name) ?? environment(name.toUpperCase());
  const httpProxy = named("http_proxy");
  const httpsProxy = named("https_proxy");
  if (httpProxy === undefined && httpsProxy === undefined) return undefined;
  return {
    ...omitUndefined({ httpProxy, httpsProxy }),
    noProxy: named("no_proxy") ?? "",
  };
}
