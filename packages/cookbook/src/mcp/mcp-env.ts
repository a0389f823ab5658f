/** Tasks in which the model calls the tools of MCP servers. */
import { type Clock, InvalidInputError, systemClock } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import type { Env, EnvGroup } from "../environments/env.ts";
import { messageEnv } from "../environments/message-env.ts";
import type { ProblemOptions } from "../environments/problem-env.ts";
import { toolEpisode } from "../environments/tool-env.ts";
import type { Tool } from "../environments/tools.ts";
import { type Limits, type McpLimits, type McpServer, McpSession } from "./session.ts";

/** Options of {@link connectMcp}. */
export interface ConnectMcpOptions extends McpLimits {
  /**
   * `rollout`: every rollout has sessions of its own, with a process each where servers are processes, so that what one rollout changes
   * is not seen by another. `shared`: all rollouts use the same sessions, for servers that keep no state. @defaultValue "rollout"
   */
  readonly isolation?: "rollout" | "shared";
  /** @defaultValue the system's */
  readonly clock?: Clock;
}

const connectNames: OptionNames<ConnectMcpOptions> = {
  isolation: true,
  clock: true,
  startTimeoutMs: true,
  callTimeoutMs: true,
  maxTools: true,
  maxResultChars: true,
  maxMessageBytes: true,
  maxMessages: true,
};

/** The servers of a run. */
export interface McpServers {
  /** Sessions as a rollout has them, with their tools; `end` closes those that are not shared. */
  open(signal: AbortSignal): Promise<{ readonly tools: readonly Tool[]; readonly end: () => Promise<void> }>;
  /** Ends shared sessions. Sessions of rollouts end with their rollouts. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The servers of a run, for any number of {@link mcpEnv}. Sessions open when a rollout needs them.
 *
 * @throws InvalidInputError for servers or options that are not usable.
 *
 * @example
 * ```ts
 * const servers = connectMcp([{ command: "node", args: ["server.mjs"] }], { isolation: "shared" });
 * ```
 */
export function connectMcp(servers: readonly McpServer[], options: ConnectMcpOptions = {}): McpServers {
  checkOptions("connectMcp", options, connectNames);
  if (!Array.isArray(servers) || servers.length === 0)
    throw new InvalidInputError("servers", "must be a list of at least one server: { command, args } or { url }");
  for (const server of servers) checkServer(server);
  const { isolation = "rollout", clock = systemClock() } = options;
  if (isolation !== "rollout" && isolation !== "shared")
    throw new InvalidInputError("isolation", `must be rollout or shared, got ${JSON.stringify(isolation)}`);
  const limits: Limits = {
    startTimeoutMs: positive("startTimeoutMs", options.startTimeoutMs ?? 20_000),
    callTimeoutMs: positive("callTimeoutMs", options.callTimeoutMs ?? 10_000),
    maxTools: positive("maxTools", options.maxTools ?? 64),
    maxResultChars: positive("maxResultChars", options.maxResultChars ?? 4_000),
    maxMessageBytes: positive("maxMessageBytes", options.maxMessageBytes ?? 2 ** 20),
    maxMessages: positive("maxMessages", options.maxMessages ?? 10_000),
  };
  const openAll = async (signal?: AbortSignal) => {
    const opened = await Promise.allSettled(servers.map((server) => McpSession.open(server, limits, clock, signal)));
    const sessions = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const end = async () => void (await Promise.all(sessions.map((session) => session.close())));
    try {
      signal?.throwIfAborted();
      const failed = opened.find((one) => one.status === "rejected");
      if (failed !== undefined) throw failed.reason;
      return { tools: toolsOf(servers, sessions), end };
    } catch (error) {
      await end();
      throw error;
    }
  };
  let shared: ReturnType<typeof openAll> | undefined;
  const close = async () => {
    const opened = await shared?.catch(() => undefined);
    shared = undefined;
    await opened?.end();
  };
  return {
    async open(signal) {
      if (isolation === "rollout") return openAll(signal);
      shared ??= openAll(); // not under this rollout's signal: others wait for it, too
      const opened = shared;
      try {
        const { tools } = await opened;
        return { tools: tools.map((tool) => reopening(tool, opened)), end: async () => {} };
      } catch (error) {
        if (shared === opened) shared = undefined; // the next rollout tries again
        throw error;
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };

  /** A tool of shared sessions, which are opened again after a failure. */
  function reopening(tool: Tool, opened: NonNullable<typeof shared>): Tool {
    return {
      definition: tool.definition,
      async call(args, signal) {
        try {
          return await tool.call(args, signal);
        } catch (error) {
          if (shared === opened) {
            shared = undefined;
            void opened.then(({ end }) => end());
          }
          throw error;
        }
      },
    };
  }
}

function checkServer(server: McpServer): void {
  if ("url" in server) {
    if (!/^https?:$/.test(URL.canParse(server.url) ? new URL(server.url).protocol : ""))
      throw new InvalidInputError("servers.url", `must be an http or https URL, got ${JSON.stringify(server.url)}`);
  } else if (typeof server?.command !== "string" || server.command === "")
    throw new InvalidInputError("servers", "must have a command to start or a url to connect to");
}

function positive(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1)
    throw new InvalidInputError(name, `must be a positive integer, got ${value}`);
  return value;
}

function toolsOf(servers: readonly McpServer[], sessions: readonly McpSession[]): Tool[] {
  const tools = sessions.flatMap((session, index) =>
    session.tools.map((definition) => toolOn(session, definition, servers[index]?.name)),
  );
  const names = tools.map(({ definition }) => definition.function.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new InvalidInputError(
      "servers",
      `have two tools named ${twice}; give each server a name, which prefixes its tools`,
    );
  return tools;
}

/** A tool of a server: wrong arguments and errors that the server reports go to the model, failures of the server end the rollout. */
function toolOn(session: McpSession, definition: Tool["definition"], prefix: string | undefined): Tool {
  const { name } = definition.function;
  const onServer = prefix === undefined ? name : name.slice(prefix.length + 1);
  return {
    definition,
    async call(args, signal) {
      let parsed: unknown;
      try {
        parsed = JSON.parse(args === "" ? "{}" : args);
      } catch {
        parsed = undefined;
      }
      if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
        return { content: JSON.stringify({ error: "the arguments must be a JSON object" }), isError: true };
      const { text, isError } = await session.call(onServer, parsed as Record<string, unknown>, signal);
      return { content: text, isError };
    },
  };
}

/** Options of {@link mcpEnv}. */
export interface McpEnvOptions extends Omit<ProblemOptions, "tools" | "question" | "check"> {
  /** What {@link connectMcp} returns, for many tasks; or servers, each of whose sessions belongs to one rollout. */
  readonly servers: McpServers | readonly McpServer[];
  /** What the model is asked. */
  readonly task: ProblemOptions["question"];
  /** Your reward, of the answer that follows the calls: `true` is 1 and `false` is 0. */
  readonly grade: ProblemOptions["check"];
  /** Replies that may call tools; the one after them is graded. @defaultValue 4 */
  readonly maxCalls?: number;
  /** Added for each call that the server answers with an error. @defaultValue 0 */
  readonly errorReward?: number;
}

const envNames: OptionNames<McpEnvOptions> = {
  servers: true,
  task: true,
  grade: true,
  maxCalls: true,
  errorReward: true,
  name: true,
  tags: true,
  chat: true,
  tokenizer: true,
  maxTokens: true,
  variables: true,
};

/**
 * A task in which the model may call the tools of MCP servers before it answers. A server that hangs, dies or exceeds a limit fails the
 * rollout, which the run's `strategy` deals with. Metrics: `tool_calls` and `tool_errors`.
 *
 * @throws InvalidInputError for options that are not usable.
 *
 * @example
 * ```ts
 * const group = mcpEnv({ chat, tokenizer, servers, task: "How many apples are there?", grade: (answer) => answer === "12" });
 * ```
 */
export function mcpEnv(options: McpEnvOptions): EnvGroup {
  checkOptions("mcpEnv", options, envNames);
  const { servers: given, task, grade, name, tags, maxCalls = 4, errorReward = 0, ...conversation } = options;
  if (typeof grade !== "function") throw new InvalidInputError("grade", "must be a function of the answer");
  const servers = "open" in given ? given : connectMcp(given);
  const messages = typeof task === "string" ? [{ role: "user", content: task }] : task;
  if (!Array.isArray(messages) || messages.length === 0)
    throw new InvalidInputError("task", "must be a string or a list of messages");
  return {
    name: name ?? String(messages.at(-1)?.content).slice(0, 80),
    ...(tags === undefined ? {} : { tags }),
    async makeEnvs({ size, signal }) {
      const opened = await Promise.allSettled(Array.from({ length: size }, () => servers.open(signal)));
      const sessions = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      const failed = opened.find((one) => one.status === "rejected");
      if (failed !== undefined || signal.aborted) {
        await Promise.all(sessions.map(({ end }) => end()));
        throw failed?.reason ?? signal.reason;
      }
      return sessions.map(({ tools, end }): Env => {
        const episode = toolEpisode({ tools, messages, check: grade, maxCalls, errorReward });
        const definitions = tools.map(({ definition }) => definition);
        return messageEnv({ ...episode, close: end }, { ...conversation, tools: definitions });
      });
    },
  };
}
