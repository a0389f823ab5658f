/**
 * HTTP/2 sessions for requests that wait side by side, over `node:http2`; undici's own HTTP/2 fails requests above the server's limit of
 * streams (decision 0026). Dispatches like an undici agent. An origin that does not offer `h2` gets the fallback agent.
 */

import type { ClientHttp2Session, ClientHttp2Stream, OutgoingHttpHeaders } from "node:http2";
import type { TLSSocket } from "node:tls";
import type { Clock } from "@tinklet/wire/clock";
import type { Dispatcher } from "undici";
import { nodeBuiltin } from "../node-builtin.ts";
import { causeCode } from "./exchange.ts";

const { connect: openSession, constants } = nodeBuiltin<typeof import("node:http2")>("node:http2");
const { isIP } = nodeBuiltin<typeof import("node:net")>("node:net");
const { pipeline, Readable } = nodeBuiltin<typeof import("node:stream")>("node:stream");
const { connect: openTls } = nodeBuiltin<typeof import("node:tls")>("node:tls");

/** Streams of one session; servers allow 100 to 250. A lower limit of the server counts. */
const mostStreams = 200;
/** An idle session is closed before NATs and load balancers forget it. */
const idleMs = 30_000;
/** A session that does not acknowledge a ping in this time is considered dead. */
const pingMs = 5_000;
/** Flow-control windows in bytes. Node's 64 KiB for a whole session would make 200 polls share 64 KiB per round trip. */
const windows = { stream: 1024 * 1024, session: 16 * 1024 * 1024 };
/** Headers that HTTP/2 forbids or writes in another way. */
const connectionHeaders = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

type Options = Dispatcher.DispatchOptions & { readonly servername?: string };
type Handler = Dispatcher.DispatchHandler;
interface Queued {
  readonly options: Options;
  readonly handler: Handler;
}

export interface Http2SessionsOptions {
  /** Clock of timeouts. */
  readonly clock: Clock;
  /** Clock of idle timers, which must not keep the process alive. */
  readonly background: Clock;
  /** Requests in flight per origin; as many sessions are opened as they need. */
  readonly most: number;
  readonly connectTimeoutMs: number;
  /** Makes the agent for origins without HTTP/2. */
  readonly fallback: () => Dispatcher;
}

export class Http2Sessions {
  readonly #options: Http2SessionsOptions;
  readonly #origins = new Map<string, Origin>();
  #fallback: Dispatcher | undefined;

  constructor(options: Http2SessionsOptions) {
    this.#options = options;
  }

  dispatch(options: Options, handler: Handler): boolean {
    const name = String(options.origin);
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      origin = new Origin(new URL(name), this.#options, (queued) => this.#overHttp1(queued));
      this.#origins.set(name, origin);
    }
    origin.send({ options, handler });
    return true;
  }

  #overHttp1({ options, handler }: Queued): void {
    this.#fallback ??= this.#options.fallback();
    this.#fallback.dispatch(options, handler);
  }

  /** Fails the requests in progress with the error and closes the sessions. */
  async destroy(error: Error): Promise<void> {
    for (const origin of this.#origins.values()) origin.destroy(error);
    this.#origins.clear();
    await this.#fallback?.destroy(error);
  }
}

/** The sessions of one origin and the requests that wait for one. */
class Origin {
  readonly #url: URL;
  readonly #options: Http2SessionsOptions;
  readonly #overHttp1: (queued: Queued) => void;
  #queue: Queued[] = [];
  readonly #sessions = new Set<Session>();
  readonly #opening = new Set<TLSSocket>();
  #hasHttp2: boolean;
  /** Streams per session, as the last session's server allows; at least 1, also if it allows none for now. */
  #streams = mostStreams;

  constructor(url: URL, options: Http2SessionsOptions, overHttp1: (queued: Queued) => void) {
    this.#url = url;
    this.#options = options;
    this.#overHttp1 = overHttp1;
    this.#hasHttp2 = url.protocol === "https:"; // without TLS there is no negotiation
  }

  send(queued: Queued): void {
    if (!this.#hasHttp2) {
      this.#overHttp1(queued);
      return;
    }
    this.#queue.push(queued);
    this.#next();
  }

  /** Sends what the sessions have room for, and opens sessions for the rest. */
  #next(): void {
    for (const session of this.#sessions) {
      while (session.hasRoom && this.#inFlight < this.#options.most) {
        const queued = this.#queue.shift(); // before send(), which may call this method again
        if (queued === undefined) return;
        session.send(queued);
      }
    }
    if (this.#inFlight >= this.#options.most) return;
    const most = Math.ceil(this.#options.most / this.#streams);
    // Sessions that are ending do not count: their requests may take minutes.
    let usable = this.#opening.size;
    for (const session of this.#sessions) if (!session.isEnding) usable++;
    while (usable < most && this.#queue.length > this.#opening.size * this.#streams) {
      this.#open(this.#queue[0] as Queued);
      usable++;
    }
  }

  #open({ options }: Queued): void {
    const { clock, connectTimeoutMs } = this.#options;
    const { hostname, port } = this.#url;
    const host = hostname.replace(/^\[|\]$/g, "");
    const servername = options.servername ?? (isIP(host) === 0 ? host : undefined);
    const socket = openTls({
      host,
      port: Number(port) || 443,
      ALPNProtocols: ["h2", "http/1.1"],
      ...(servername === undefined ? {} : { servername }),
    });
    this.#opening.add(socket);
    socket.setNoDelay(true).setKeepAlive(true, 60_000);
    const late = () =>
      Object.assign(new Error("the connection could not be opened in time"), { code: "UND_ERR_CONNECT_TIMEOUT" });
    const stopTimer = clock.timer(connectTimeoutMs, () => socket.destroy(late()));
    let failure: Error | undefined;
    socket.on("error", (error) => {
      failure = error;
    });
    const closed = () => {
      stopTimer();
      if (this.#opening.delete(socket)) this.#failQueue(failure ?? new Error("the connection was closed"));
    };
    socket.once("close", closed);
    socket.once("secureConnect", () => {
      if (socket.alpnProtocol !== "h2") {
        stopTimer();
        this.#opening.delete(socket);
        socket.destroy();
        this.#giveUpHttp2();
        return;
      }
      const session = openSession(this.#url, {
        createConnection: () => socket,
        settings: { enablePush: false, initialWindowSize: windows.stream },
      });
      session.on("error", (error) => {
        failure = error;
      });
      session.once("connect", () => session.setLocalWindowSize(windows.session));
      // Before the server's settings its limit of streams is not known.
      session.once("remoteSettings", () => {
        stopTimer();
        socket.off("close", closed);
        if (!this.#opening.delete(socket)) return;
        const made = new Session(session, this.#options, { onRoom: () => this.#next(), failure: () => failure });
        this.#sessions.add(made);
        this.#streams = Math.max(1, made.limit);
        session.on("remoteSettings", () => {
          this.#streams = Math.max(1, made.limit);
          this.#next();
        });
        session.once("close", () => {
          this.#sessions.delete(made);
          made.end(failure);
          this.#next();
        });
        this.#next();
      });
    });
  }

  get #inFlight(): number {
    let count = 0;
    for (const session of this.#sessions) count += session.streams;
    return count;
  }

  #giveUpHttp2(): void {
    this.#hasHttp2 = false;
    for (const queued of this.#queue.splice(0)) this.#overHttp1(queued);
  }

  /** Fails the waiting requests, unless a session can still take them. */
  #failQueue(error: Error): void {
    if (this.#opening.size > 0 || [...this.#sessions].some((session) => !session.isEnding)) return;
    for (const { handler } of this.#queue.splice(0)) handler.onResponseError?.(noController, error);
  }

  destroy(error: Error): void {
    const queue = this.#queue.splice(0);
    for (const socket of this.#opening) socket.destroy();
    this.#opening.clear();
    for (const session of this.#sessions) session.destroy(error);
    for (const { handler } of queue) handler.onResponseError?.(noController, error);
  }
}

/** One session with its streams. */
class Session {
  readonly #session: ClientHttp2Session;
  readonly #clocks: Pick<Http2SessionsOptions, "clock" | "background">;
  readonly #onRoom: () => void;
  readonly #failure: () => Error | undefined;
  readonly #streams = new Set<Stream>();
  #stopIdle: (() => void) | undefined;
  #stopPing: (() => void) | undefined;
  #isEnding = false;
  /** Counts what arrived, so that a stream can tell whether anything did during its life. */
  #arrived = 0;

  constructor(
    session: ClientHttp2Session,
    clocks: Pick<Http2SessionsOptions, "clock" | "background">,
    { onRoom, failure }: { readonly onRoom: () => void; readonly failure: () => Error | undefined },
  ) {
    this.#session = session;
    this.#clocks = clocks;
    this.#onRoom = onRoom;
    this.#failure = failure;
    session.once("goaway", () => {
      this.#isEnding = true;
    });
    this.#idle();
  }

  /** The server has announced the end: streams in progress are completed, and there are no new ones. */
  get isEnding(): boolean {
    return this.#isEnding || this.#session.closed || this.#session.destroyed;
  }

  get limit(): number {
    return Math.min(mostStreams, this.#session.remoteSettings.maxConcurrentStreams ?? mostStreams);
  }

  get streams(): number {
    return this.#streams.size;
  }

  get hasRoom(): boolean {
    return !this.isEnding && this.#streams.size < this.limit;
  }

  send({ options, handler }: Queued): void {
    const stream = new Stream(handler, () => this.#ended(stream));
    stream.arrivedBefore = this.#arrived;
    handler.onRequestStart?.(stream, undefined);
    if (stream.aborted) return;
    if (this.#streams.size === 0) {
      this.#stopIdle?.();
      this.#session.ref();
    }
    this.#streams.add(stream);
    try {
      stream.start(this.#session, options, { arrived: () => this.#arrived++, failure: this.#failure });
    } catch (error) {
      stream.fail(error as Error);
    }
  }

  #ended(stream: Stream): void {
    if (!this.#streams.delete(stream)) return;
    // A request that was given up without any sign of the server: perhaps the connection is dead.
    if (stream.aborted && stream.arrivedBefore === this.#arrived) this.#ping();
    if (this.#streams.size === 0) this.#idle();
    this.#onRoom();
  }

  #ping(): void {
    if (this.#stopPing !== undefined || this.#session.destroyed) return;
    const dead = () => new Error("the server does not answer on this connection");
    const stop = this.#clocks.background.timer(pingMs, () => this.#session.destroy(dead()));
    this.#stopPing = stop;
    const answered = () => {
      stop();
      if (this.#stopPing === stop) this.#stopPing = undefined;
    };
    this.#session.ping((error) => {
      if (error === null) answered();
    });
  }

  /** An idle session does not keep the process alive, and is closed after a while. */
  #idle(): void {
    if (this.#session.destroyed) return;
    this.#session.unref();
    this.#stopIdle = this.#clocks.background.timer(idleMs, () => this.#session.close());
  }

  /** The session is closed: its remaining streams fail. */
  end(error: Error | undefined): void {
    this.#isEnding = true;
    this.#stopIdle?.();
    this.#stopPing?.();
    for (const stream of [...this.#streams]) stream.fail(error ?? new Error(brokenOff));
  }

  destroy(error: Error): void {
    this.end(error);
    this.#session.destroy();
  }
}

const brokenOff = "the connection was closed before the answer was complete";

/** One request of a session; the controller that its handler gets. */
class Stream implements Dispatcher.DispatchController {
  readonly #handler: Handler;
  readonly #onEnd: () => void;
  #stream: ClientHttp2Stream | undefined;
  #over = false;
  aborted = false;
  arrivedBefore = 0;
  reason: Error | null = null;
  readonly paused = false;
  readonly rawHeaders = null;
  readonly rawTrailers = null;

  constructor(handler: Handler, onEnd: () => void) {
    this.#handler = handler;
    this.#onEnd = onEnd;
  }

  start(
    session: ClientHttp2Session,
    options: Options,
    watch: { readonly arrived: () => void; readonly failure: () => Error | undefined },
  ): void {
    const { body } = options;
    const stream = session.request(headersOf(options), { endStream: body === null || body === undefined });
    this.#stream = stream;
    const handler = this.#handler;
    let failure: Error | undefined;
    let hasResponse = false;
    let isComplete = false;
    stream.on("response", ({ ":status": status = 0, ...headers }) => {
      watch.arrived();
      hasResponse = true;
      if (!this.#over) handler.onResponseStart?.(this, status, headers as Record<string, string | string[]>, "");
    });
    stream.on("data", (piece: Buffer) => {
      watch.arrived();
      if (!this.#over) handler.onResponseData?.(this, piece);
    });
    stream.once("end", () => {
      // Node ends the readable side of a stream that was reset, too.
      isComplete = hasResponse && stream.rstCode === constants.NGHTTP2_NO_ERROR && !session.destroyed;
    });
    stream.once("error", (error) => {
      failure = error;
    });
    stream.once("close", () => {
      if (isComplete && failure === undefined) this.#finish(() => handler.onResponseEnd?.(this, {}));
      else this.fail(watch.failure() ?? streamError(failure, stream.rstCode));
    });
    if (typeof body === "string" || body instanceof Uint8Array) stream.end(body);
    // The stream reports its failures itself.
    else if (body !== null && body !== undefined)
      pipeline(Readable.from(body as AsyncIterable<Uint8Array>), stream, () => {});
  }

  abort(reason: Error): void {
    this.aborted = true;
    this.reason = reason;
    this.#finish(() => this.#stream?.close(constants.NGHTTP2_CANCEL));
  }

  fail(error: Error): void {
    this.#finish(() => this.#handler.onResponseError?.(this, error));
  }

  #finish(report: () => void): void {
    if (this.#over) return;
    this.#over = true;
    report();
    this.#onEnd();
  }

  // Responses are collected as they arrive.
  pause(): void {}
  resume(): void {}
}

/** For requests that fail before they have a stream. */
const noController = new Stream({}, () => {});

/** Why a stream ended: what ended its session, or the code that the server sent for it. */
function streamError(failure: Error | undefined, code: number): Error {
  if (failure !== undefined && causeCode(failure) !== "ERR_HTTP2_STREAM_ERROR") return failure;
  if (code === constants.NGHTTP2_NO_ERROR) return new Error(brokenOff);
  if (code === constants.NGHTTP2_REFUSED_STREAM) {
    return new Error("the server refused the request before it processed it");
  }
  return new Error(`the server ended the request before the answer was complete (HTTP/2 code ${code})`);
}

function headersOf(options: Options): OutgoingHttpHeaders {
  const { method, path, origin, body } = options;
  const headers: OutgoingHttpHeaders = {
    ":method": method,
    ":path": path,
    ":scheme": "https",
    ":authority": String(origin).slice(String(origin).indexOf("//") + 2),
  };
  for (const [name, value] of Object.entries(options.headers as Readonly<Record<string, string>>)) {
    const lower = name.toLowerCase();
    if (lower === "host") headers[":authority"] = value;
    else if (!connectionHeaders.has(lower)) headers[lower] = value;
  }
  if (typeof body === "string") headers["content-length"] = String(Buffer.byteLength(body));
  else if (body instanceof Uint8Array) headers["content-length"] = String(body.byteLength);
  else if (body === null || body === undefined) headers["content-length"] = "0";
  return headers;
}
