/**
 * One session with one MCP server: starts or connects to it, lists its tools, calls them, and ends it. Everything that the server can size has a
 * bound here: the time of each call, the number and size of messages, of tools and of results. A server that breaks one is ended.
 */
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { ChatTool } from "@tinklet/models/chat";
import { type Clock, TinkerError } from "@tinklet/sdk";

/** A server that is started as a process and speaks over its standard input and output. */
export interface McpProcess {
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to a few harmless variables (`PATH`, `HOME`, …); the rest of this process's environment, such as keys, is not passed on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Prefix of its tools' names, for servers whose tools have the same names. */
  readonly name?: string;
}

/** A server that is reached by streamable HTTP. */
export interface McpUrl {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Prefix of its tools' names, for servers whose tools have the same names. */
  readonly name?: string;
}

/** A server. */
export type McpServer = McpProcess | McpUrl;

/** Bounds of a session. */
export interface McpLimits {
  /** Until a server has started and listed its tools, in milliseconds. @defaultValue 20,000 */
  readonly startTimeoutMs?: number;
  /** Of one call of a tool, in milliseconds; progress does not extend it. @defaultValue 10,000 */
  readonly callTimeoutMs?: number;
  /** Tools of one server. @defaultValue 64 */
  readonly maxTools?: number;
  /** Result of one call, in characters; the rest is cut and marked. @defaultValue 4,000 */
  readonly maxResultChars?: number;
  /** Largest message of a server, in bytes; over HTTP, largest response. @defaultValue 1 MiB */
  readonly maxMessageBytes?: number;
  /** Messages of a server in one session. @defaultValue 10,000 */
  readonly maxMessages?: number;
}

export type Limits = Required<McpLimits>;

/** A server did not answer as the protocol asks, or not in time, or exceeded a limit. */
export class McpServerError extends TinkerError {
  constructor(server: string, problem: string, cause?: unknown) {
    super(`MCP server ${server}: ${problem}`, { code: "mcp_server", cause });
  }
}

/**
 * The client of the protocol's SDK, an optional peer: loaded when a session opens, so that the entry can be imported without it.
 *
 * @throws TinkerError `missing_peer` with the install command.
 */
async function loadSdk() {
  try {
    const [{ Client }, { StdioClientTransport }, { StreamableHTTPClientTransport }] = await Promise.all([
      import("@modelcontextprotocol/sdk/client/index.js"),
      import("@modelcontextprotocol/sdk/client/stdio.js"),
      import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
    ]);
    return { Client, StdioClientTransport, StreamableHTTPClientTransport };
  } catch (cause) {
    throw new TinkerError("MCP servers need the package @modelcontextprotocol/sdk, which is not installed.", {
      code: "missing_peer",
      hint: "npm install @modelcontextprotocol/sdk",
      cause,
    });
  }
}
type Sdk = Awaited<ReturnType<typeof loadSdk>>;

/** Longest name, description and schema of a tool, in characters: they become part of every prompt. */
const [longestName, longestDescription, largestSchema] = [64, 2_000, 16_000];
/** Pages of a list of tools: a server could give a next one each time. */
const maxPages = 16;
/** How long a process may take to end after its input was closed; then it is killed. */
const graceMs = 500;

/** Processes that run; killed with this process, in case they ignore the end of their input. */
const running = new Set<number>();
let isWatchingExit = false;
function watchExit(): void {
  if (isWatchingExit) return;
  isWatchingExit = true;
  process.once("exit", () => {
    for (const pid of running) kill(pid);
  });
}
function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it has ended
  }
}

const labelOf = (server: McpServer): string =>
  server.name ??
  ("url" in server ? new URL(server.url).host : [server.command, ...(server.args ?? [])].join(" ").slice(0, 200));

/** A connected server. */
export class McpSession {
  readonly tools: readonly ChatTool[];
  readonly #client: Client;
  readonly #connection: Connection;
  readonly #limits: Limits;
  readonly #clock: Clock;

  private constructor(
    client: Client,
    connection: Connection,
    tools: readonly ChatTool[],
    limits: Limits,
    clock: Clock,
  ) {
    this.#client = client;
    this.#connection = connection;
    this.tools = tools;
    this.#limits = limits;
    this.#clock = clock;
  }

  /** @throws {@link McpServerError}, after the server was ended; the signal's reason when aborted. */
  static async open(server: McpServer, limits: Limits, clock: Clock, signal?: AbortSignal): Promise<McpSession> {
    const sdk = await loadSdk();
    const connection = new Connection(sdk, server, limits);
    // Validators of a server's schemas are not compiled: schemas can be built to take long.
    const accepted = {
      getValidator: () => (data: unknown) => ({ valid: true as const, data: data as never, errorMessage: undefined }),
    };
    const client = new sdk.Client(
      { name: "tinklet", version: "1" },
      { capabilities: {}, jsonSchemaValidator: accepted },
    );
    const begun = clock.monotonic();
    const left = () => {
      const ms = limits.startTimeoutMs - (clock.monotonic() - begun);
      if (ms <= 0) throw new Error(`did not start within ${limits.startTimeoutMs} ms`);
      return { timeout: ms, maxTotalTimeout: ms, ...(signal === undefined ? {} : { signal: ownSignal(signal) }) };
    };
    try {
      const stop = clock.timer(limits.startTimeoutMs, () =>
        connection.fail(`did not start within ${limits.startTimeoutMs} ms`),
      );
      try {
        await client.connect(connection, left());
        const tools: ChatTool[] = [];
        let cursor: string | undefined;
        for (let page = 0; page === 0 || cursor !== undefined; page++) {
          if (page === maxPages) throw new Error(`lists its tools on more than ${maxPages} pages`);
          const listed = await client.listTools(cursor === undefined ? {} : { cursor }, left());
          for (const tool of listed.tools) tools.push(checkedTool(tool, server.name));
          if (tools.length > limits.maxTools) throw new Error(`has more than ${limits.maxTools} tools (maxTools)`);
          cursor = listed.nextCursor;
        }
        return new McpSession(client, connection, tools, limits, clock);
      } finally {
        stop();
      }
    } catch (error) {
      const problem = connection.problem ?? messageOf(error); // before the end of the connection becomes one
      connection.kill();
      await client.close().catch(() => {});
      signal?.throwIfAborted();
      throw new McpServerError(labelOf(server), problem, error);
    }
  }

  /**
   * Calls a tool by its name on the server.
   *
   * @throws {@link McpServerError} when the server does not answer as it must; an error that it reports is a result.
   */
  async call(
    name: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ text: string; isError: boolean }> {
    const { callTimeoutMs: timeout, maxResultChars } = this.#limits;
    try {
      if (this.#connection.problem !== undefined) throw new Error(this.#connection.problem);
      const options = { timeout, maxTotalTimeout: timeout, signal: ownSignal(signal) };
      const result = await this.#client.callTool({ name, arguments: args }, undefined, options);
      return { text: textOf(result, maxResultChars), isError: result.isError === true };
    } catch (error) {
      const problem = this.#connection.problem ?? `${name}: ${messageOf(error)}`;
      this.#connection.kill();
      signal.throwIfAborted();
      throw new McpServerError(this.#connection.label, problem, error);
    }
  }

  /** Ends the session, and a process with it. */
  async close(): Promise<void> {
    let cancel = () => {};
    const isLate = new Promise<void>((resolve) => {
      cancel = this.#clock.timer(graceMs, () => {
        this.#connection.kill();
        resolve();
      });
    });
    try {
      await Promise.race([this.#connection.endSession(), isLate]);
      await this.#client.close().catch(() => {});
    } finally {
      cancel();
      this.#connection.kill();
    }
  }
}

/** Aborts with the signal. The client adds a listener for each request, and many requests share a signal. */
const ownSignal = (signal: AbortSignal): AbortSignal => AbortSignal.any([signal]);

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 300);

/** A tool of a server as the model's template gets it. @throws Error when its name or size is not usable */
function checkedTool(
  { name, description, inputSchema }: { name: string; description?: string | undefined; inputSchema: unknown },
  prefix: string | undefined,
): ChatTool {
  const full = prefix === undefined ? name : `${prefix}_${name}`;
  if (full.length > longestName || !/^[\w.-]+$/.test(full))
    throw new Error(
      `has a tool named ${JSON.stringify(full.slice(0, longestName))}; names have 1 to ${longestName} letters, digits, _, . or -`,
    );
  const size = JSON.stringify(inputSchema).length;
  if (size > largestSchema)
    throw new Error(`has a schema of ${size} characters for ${full}; the limit is ${largestSchema}`);
  const about = description === undefined ? {} : { description: description.slice(0, longestDescription) };
  return { type: "function", function: { name: full, ...about, parameters: inputSchema } };
}

/** The text of a result: its text blocks, a word for other blocks, or its structured content where it has no blocks. */
function textOf(result: Record<string, unknown>, maxChars: number): string {
  const blocks = Array.isArray(result["content"]) ? (result["content"] as { type: string; text?: string }[]) : [];
  let text = "";
  for (const block of blocks) {
    text += `${text === "" ? "" : "\n"}${block.type === "text" ? block.text : `[${block.type}]`}`;
    if (text.length > maxChars) break;
  }
  if (blocks.length === 0 && result["structuredContent"] !== undefined)
    text = JSON.stringify(result["structuredContent"]);
  return text.length <= maxChars ? text : `${text.slice(0, maxChars)} [cut]`;
}

/** The transport to one server, which counts what arrives and ends the server when that is too much. */
class Connection implements Transport {
  readonly label: string;
  /** The limit that the server exceeded. */
  problem: string | undefined;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport["onmessage"];
  readonly #inner: StdioClientTransport | StreamableHTTPClientTransport;
  readonly #process: StdioClientTransport | undefined;
  readonly #http: StreamableHTTPClientTransport | undefined;
  #pid: number | undefined;
  #messages = 0;

  constructor(sdk: Sdk, server: McpServer, limits: Limits) {
    this.label = labelOf(server);
    if ("url" in server) this.#http = httpTransport(sdk, server, limits, (problem) => this.fail(problem));
    else this.#process = processTransport(sdk, server, limits);
    this.#inner = (this.#http ?? this.#process) as StdioClientTransport | StreamableHTTPClientTransport;
    this.#inner.onclose = () => {
      if (this.#pid !== undefined) running.delete(this.#pid);
      this.problem ??= "the connection was closed";
      this.onclose?.();
    };
    this.#inner.onerror = (error) => {
      if (/exceeded maximum size/.test(error.message))
        this.fail(`sent a message of more than ${limits.maxMessageBytes} bytes (maxMessageBytes)`);
      this.onerror?.(error);
    };
    this.#inner.onmessage = (message) => {
      this.#messages += 1;
      if (this.#messages > limits.maxMessages)
        return this.fail(`sent more than ${limits.maxMessages} messages (maxMessages)`);
      this.onmessage?.(message);
    };
  }

  /** Streamable HTTP: set by the client after the handshake. */
  setProtocolVersion(version: string): void {
    this.#http?.setProtocolVersion(version);
  }

  async start(): Promise<void> {
    await this.#inner.start();
    this.#pid = this.#process?.pid ?? undefined;
    if (this.#pid === undefined) return;
    watchExit();
    running.add(this.#pid);
  }

  send(...args: Parameters<Transport["send"]>): Promise<void> {
    return (this.#inner as Transport).send(...args);
  }

  /** Tells an HTTP server that the session is over; that it does not answer is no failure. */
  async endSession(): Promise<void> {
    await this.#http?.terminateSession().catch(() => {});
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  /** Ends the connection for a reason that calls report. */
  fail(problem: string): void {
    this.problem ??= problem;
    this.kill();
    this.#inner.close().catch(() => {});
  }

  /** Ends the process at once. */
  kill(): void {
    if (this.#pid !== undefined && running.has(this.#pid)) kill(this.#pid);
  }
}

function processTransport(
  { StdioClientTransport }: Sdk,
  { command, args = [], env, cwd }: McpProcess,
  { maxMessageBytes }: Limits,
): StdioClientTransport {
  // What a server writes to stderr is dropped: a pipe that is not read would block it.
  const optional = { ...(env === undefined ? {} : { env: { ...env } }), ...(cwd === undefined ? {} : { cwd }) };
  return new StdioClientTransport({
    command,
    args: [...args],
    stderr: "ignore",
    maxBufferSize: maxMessageBytes,
    ...optional,
  });
}

function httpTransport(
  { StreamableHTTPClientTransport }: Sdk,
  { url, headers }: McpUrl,
  limits: Limits,
  fail: (problem: string) => void,
): StreamableHTTPClientTransport {
  const most = limits.maxMessageBytes;
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1_000,
      maxReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 1,
    },
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      if (response.body === null) return response;
      let bytes = 0;
      const counted = response.body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(chunk, controller) {
            bytes += chunk.byteLength;
            if (bytes <= most) return controller.enqueue(chunk);
            fail(`sent a response of more than ${most} bytes (maxMessageBytes)`);
            controller.error(new Error("the response is too large"));
          },
        }),
      );
      return new Response(counted, {
        status: response.status,
        statusText: response.statusText,
        headers: response.headers,
      });
    },
  });
}
