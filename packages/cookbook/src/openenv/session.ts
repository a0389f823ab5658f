/**
 * One episode with an OpenEnv server: `reset`, `step` and `state`, over a WebSocket (a session with its own environment on the server) or over
 * HTTP. Replies are bounded in time and size and checked before they are used.
 */
import { type Clock, InvalidInputError, TinkerError } from "@tinklet/sdk";

/** What an environment returns for a reset or a step. */
export interface OpenEnvResult {
  readonly observation: Readonly<Record<string, unknown>>;
  /** 0 where the server gave none. */
  readonly reward: number;
  readonly done: boolean;
}

/** How a server is reached. */
export interface OpenEnvTransport {
  /**
   * `websocket`: a session, in which the server keeps the state of the episode. `http`: a request per call; servers of the official package make a new
   * environment for each, so that it is for environments without a state. @defaultValue "websocket"
   */
  readonly transport?: "websocket" | "http";
  /** Sent with each request and handshake, for example `{ authorization: "Bearer …" }`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Of one call, in milliseconds. @defaultValue 30,000 */
  readonly callTimeoutMs?: number;
  /** Largest reply, in bytes. @defaultValue 1 MiB */
  readonly maxReplyBytes?: number;
  /** @defaultValue the system's */
  readonly clock?: Clock;
}

export type Transport = Required<OpenEnvTransport>;

/** The server refused a call, or did not answer as the protocol asks. */
export class OpenEnvError extends TinkerError {
  constructor(url: string, problem: string, cause?: unknown) {
    super(`OpenEnv ${url}: ${problem}`, { code: "open_env", cause });
  }
}

/** An episode on a server. */
export interface OpenEnvSession {
  reset(parameters: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<OpenEnvResult>;
  step(action: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<OpenEnvResult>;
  /** What the server says about the episode, for example `episode_id` and `step_count`. */
  state(signal?: AbortSignal): Promise<Readonly<Record<string, unknown>>>;
  close(): void;
}

/** @throws InvalidInputError for a URL that is not http or https. */
export function baseUrl(url: string): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol))
    throw new InvalidInputError("url", `must be an http or https URL, got ${JSON.stringify(url)}`);
  if (!parsed.pathname.endsWith("/")) parsed.pathname += "/";
  return parsed;
}

/** Opens a session. @throws {@link OpenEnvError}; the signal's reason when aborted */
export async function openSession(url: URL, transport: Transport, signal?: AbortSignal): Promise<OpenEnvSession> {
  return transport.transport === "http" ? httpSession(url, transport) : socketSession(url, transport, signal);
}

function httpSession(url: URL, { headers, callTimeoutMs, maxReplyBytes, clock }: Transport): OpenEnvSession {
  const ask = async (path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> => {
    const over = new AbortController();
    const problem = (text: string, cause?: unknown) => new OpenEnvError(url.href, `${path}: ${text}`, cause);
    const cancel = clock.timer(callTimeoutMs, () => over.abort(problem(`no answer within ${callTimeoutMs} ms`)));
    try {
      const response = await fetch(new URL(path, url), {
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
        headers: { ...headers, "content-type": "application/json" },
        signal: signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]),
      });
      const text = await boundedText(response, maxReplyBytes, () =>
        problem(`the reply has more than ${maxReplyBytes} bytes (maxReplyBytes)`),
      );
      if (!response.ok) throw problem(`HTTP ${response.status}: ${text.slice(0, 300)}`);
      return JSON.parse(text);
    } catch (error) {
      signal?.throwIfAborted();
      if (over.signal.aborted) throw over.signal.reason;
      throw error instanceof OpenEnvError ? error : problem(messageOf(error), error);
    } finally {
      cancel();
    }
  };
  return {
    reset: async (parameters, signal) => checkedResult(url, await ask("reset", parameters, signal)),
    step: async (action, signal) => checkedResult(url, await ask("step", { action }, signal)),
    state: async (signal) => checkedObject(url, "state", await ask("state", undefined, signal)),
    close() {},
  };
}

async function boundedText(response: Response, most: number, tooLarge: () => Error): Promise<string> {
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > most) throw tooLarge();
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** A message of a server over a WebSocket. */
interface Message {
  readonly type?: unknown;
  readonly data?: unknown;
}

async function socketSession(url: URL, transport: Transport, signal?: AbortSignal): Promise<OpenEnvSession> {
  const { headers, callTimeoutMs, maxReplyBytes, clock } = transport;
  const { Agent, WebSocket } = await import("undici"); // loaded only by programs that need it
  const address = new URL("ws", url);
  address.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  signal?.throwIfAborted();
  // A connection of its own, which refuses messages above the limit before it holds them.
  const dispatcher = new Agent({ webSocket: { maxPayloadSize: maxReplyBytes } });
  const socket = new WebSocket(address, { headers: { ...headers }, dispatcher });
  /** Set once: the session cannot be used after it. */
  let failure: OpenEnvError | undefined;
  let waiting: { resolve: (message: Message) => void; reject: (error: unknown) => void } | undefined;
  const fail = (problem: string) => {
    failure ??= new OpenEnvError(url.href, problem);
    waiting?.reject(failure);
    socket.close();
  };
  /** The next message, or the end of the socket, the time or the signal. */
  const next = async (begin: () => void, of?: AbortSignal): Promise<Message> => {
    if (failure !== undefined) throw failure;
    if (waiting !== undefined)
      throw new OpenEnvError(url.href, "a call is under way: calls of a session come one after the other");
    of?.throwIfAborted();
    const abort = () => fail("the call was aborted");
    of?.addEventListener("abort", abort, { once: true });
    const cancel = clock.timer(callTimeoutMs, () => fail(`no answer within ${callTimeoutMs} ms`));
    try {
      return await new Promise<Message>((resolve, reject) => {
        waiting = { resolve, reject };
        begin();
      });
    } catch (error) {
      of?.throwIfAborted();
      throw error;
    } finally {
      waiting = undefined;
      cancel();
      of?.removeEventListener("abort", abort);
    }
  };
  socket.addEventListener("open", () => waiting?.resolve({}));
  socket.addEventListener("error", () => fail("the connection failed; is the URL that of an OpenEnv server?"));
  socket.addEventListener("close", () => fail("the server closed the connection"));
  socket.addEventListener("message", ({ data }) => {
    if (typeof data !== "string" || data.length > maxReplyBytes)
      return fail(`the reply is not text of at most ${maxReplyBytes} bytes (maxReplyBytes)`);
    let message: Message;
    try {
      message = JSON.parse(data) as Message;
    } catch {
      return fail("the reply is not JSON");
    }
    if (waiting !== undefined) waiting.resolve(message ?? {});
    // An error that arrives unasked comes before the end of a session, for example where the server is full.
    else if (message?.type === "error") failure ??= new OpenEnvError(url.href, errorText(message.data));
    else fail("the server sent a message that was not asked for");
  });
  await next(() => {}, signal);
  const ask = async (type: string, data: unknown, answer: string, of?: AbortSignal): Promise<unknown> => {
    const body = data === undefined ? { type } : { type, data };
    const message = await next(() => socket.send(JSON.stringify(body)), of);
    if (message.type === "error") throw new OpenEnvError(url.href, `${type}: ${errorText(message.data)}`);
    if (message.type !== answer)
      throw new OpenEnvError(url.href, `${type} was answered with ${JSON.stringify(message.type)?.slice(0, 80)}`);
    return message.data;
  };
  return {
    reset: async (parameters, of) => checkedResult(url, await ask("reset", parameters, "observation", of)),
    step: async (action, of) => checkedResult(url, await ask("step", action, "observation", of)),
    state: async (of) => checkedObject(url, "state", await ask("state", undefined, "state", of)),
    close() {
      failure ??= new OpenEnvError(url.href, "the session is closed");
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "close" }));
      socket.close();
    },
  };
}

const messageOf = (error: unknown): string => {
  const { cause } = error as { cause?: unknown };
  const inner = cause instanceof Error ? `: ${cause.message}` : "";
  return `${error instanceof Error ? error.message : String(error)}${inner}`.slice(0, 300);
};

function errorText(data: unknown): string {
  const { message, code } = (typeof data === "object" && data !== null ? data : {}) as {
    message?: unknown;
    code?: unknown;
  };
  const hint = code === "CAPACITY_REACHED" ? "; start the server with max_concurrent_envs of at least maxEpisodes" : "";
  return `${String(code ?? "error").slice(0, 80)}: ${String(message ?? "").slice(0, 300)}${hint}`;
}

function checkedObject(url: URL, what: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new OpenEnvError(url.href, `${what} must be an object, got ${JSON.stringify(value)?.slice(0, 80)}`);
  return value as Record<string, unknown>;
}

function checkedResult(url: URL, value: unknown): OpenEnvResult {
  const { observation, reward, done } = checkedObject(url, "the result", value);
  const number = reward === null || reward === undefined ? 0 : Number(reward);
  if (!["number", "boolean", "undefined"].includes(typeof reward) && reward !== null)
    throw new OpenEnvError(url.href, `reward must be a number, got ${JSON.stringify(reward)?.slice(0, 80)}`);
  if (done !== undefined && typeof done !== "boolean")
    throw new OpenEnvError(url.href, `done must be true or false, got ${JSON.stringify(done)?.slice(0, 80)}`);
  return { observation: checkedObject(url, "observation", observation), reward: number, done: done ?? false };
}
