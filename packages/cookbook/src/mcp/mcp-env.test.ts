import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { McpServer as OfficialServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { createChat } from "@tinklet/models/chat";
import { loadTokenizer } from "@tinklet/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Env } from "../environments/env.ts";
import { connectMcp, type McpServer, mcpEnv } from "./index.ts";
import type { McpServers } from "./mcp-env.ts";

const program = fileURLToPath(new URL("../testing/mcp-server.mjs", import.meta.url));
const signal = new AbortController().signal;
let tokenizer: Awaited<ReturnType<typeof loadTokenizer>>;
let work: string;
let pidFile: string;
const server = (mode: string): McpServer => ({
  command: process.execPath,
  args: [program, mode],
  env: { PID_FILE: pidFile },
});
beforeAll(async () => {
  tokenizer = await loadTokenizer(fileURLToPath(new URL("../../../base-model", import.meta.url)));
  work = await mkdtemp(join(tmpdir(), "tinklet-mcp-"));
  pidFile = join(work, "pids");
});

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const pids = () => (existsSync(pidFile) ? readFileSync(pidFile, "utf8").trim().split("\n").map(Number) : []);
afterAll(async () => {
  // No process is left, independent of what a test did with its server.
  await vi.waitUntil(() => pids().every((pid) => !isAlive(pid)));
  await rm(work, { recursive: true, force: true });
});

const envOptions = () => ({ chat: createChat(tokenizer), tokenizer, task: "What is 2 + 3?" });
const action = (text: string) => {
  const tokens = [...tokenizer.encode(text, { addSpecialTokens: false }), ...tokenizer.eosTokenIds.slice(0, 1)];
  return { tokens, logprobs: tokens.map(() => 0), stopReason: "stop" };
};
const callOf = (name: string, args: object = {}) => action(JSON.stringify({ name, arguments: args }));
async function opened(servers: McpServers | McpServer[]): Promise<Env> {
  const group = mcpEnv({ ...envOptions(), servers, grade: (answer) => answer === "5" });
  const [env] = (await group.makeEnvs({ size: 1, seed: 0, signal })) as [Env];
  await env.initialObservation(signal);
  return env;
}
async function result(env: Env, name: string, args: object = {}): Promise<string> {
  const step = await env.step(callOf(name, args), signal);
  return tokenizer.decode(step.next?.tokens ?? []);
}

describe("mcpEnv", () => {
  it("lists the tools of a process, calls them, and grades the answer that follows", async () => {
    const env = await opened([server("good")]);
    const called = await env.step(callOf("add", { a: 2, b: 3 }), signal);
    expect(called).toMatchObject({ reward: 0, done: false });
    expect(tokenizer.decode(called.next?.tokens ?? [])).toMatch(/"content":"5"/);
    expect(await env.step(action("5"), signal)).toMatchObject({
      reward: 1,
      done: true,
      metrics: { tool_calls: 1, tool_errors: 0 },
    });
    await env.close?.();
  });

  it("gives the model the errors of its calls, and of arguments that are no object", async () => {
    const env = await opened([server("good")]);
    expect(await result(env, "add", { a: "x" })).toContain("a and b must be integers");
    expect(await env.step(action("6"), signal)).toMatchObject({
      reward: 0,
      metrics: { tool_calls: 1, tool_errors: 1 },
    });
    await env.close?.();
    const servers = connectMcp([server("good")]);
    const { tools, end } = await servers.open(signal);
    expect(await tools[0]?.call("[1]", signal)).toMatchObject({
      isError: true,
      content: expect.stringContaining("JSON object"),
    });
    await end();
  });

  it("does not pass keys of this process to a server", async () => {
    vi.stubEnv("TINKER_API_KEY", "tml-secret");
    const env = await opened([server("good")]);
    expect(await result(env, "secret")).toContain("none");
    await env.close?.();
    vi.unstubAllEnvs();
  });

  it("isolates rollouts: a process each, all of them ended with the group's environments", async () => {
    const before = pids().length;
    const group = mcpEnv({ ...envOptions(), servers: [server("good")], grade: () => true });
    const envs = await group.makeEnvs({ size: 3, seed: 0, signal });
    for (const env of envs) {
      await env.initialObservation(signal);
      expect(await result(env, "calls")).toMatch(/"content":"1"/);
    }
    const own = pids().slice(before);
    expect(own).toHaveLength(3);
    for (const env of envs) await env.close?.();
    await vi.waitUntil(() => own.every((pid) => !isAlive(pid)));
  });

  it("shares a process among rollouts on request, until the servers are closed", async () => {
    const before = pids().length;
    const servers = connectMcp([server("good")], { isolation: "shared" });
    const [one, other] = [await opened(servers), await opened(servers)];
    expect(await result(one, "calls")).toMatch(/"content":"1"/);
    await one.close?.();
    expect(await result(other, "calls")).toMatch(/"content":"2"/);
    expect(pids().length).toBe(before + 1);
    await servers.close();
    await vi.waitUntil(() => !isAlive(pids().at(-1)!));
  });

  it("prefixes the tools of named servers, and refuses two tools of one name", async () => {
    const env = await opened([
      { ...server("good"), name: "left" },
      { ...server("good"), name: "right" },
    ]);
    expect(await result(env, "right_add", { a: 2, b: 3 })).toMatch(/"content":"5"/);
    await env.close?.();
    await expect(opened([server("good"), server("good")])).rejects.toThrow("servers: have two tools named add");
  });

  it("works with a server of the official SDK over streamable HTTP, and ends its session", async () => {
    const sessions = new Set<string>();
    const official = new OfficialServer({ name: "official", version: "1" });
    official.registerTool("greet", { description: "Greets." }, () => ({ content: [{ type: "text", text: "hello" }] }));
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => "one",
      onsessioninitialized: (id) => void sessions.add(id),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await official.connect(transport as Parameters<typeof official.connect>[0]);
    const http = createServer((request, response) => void transport.handleRequest(request, response));
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const env = await opened([{ url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp` }]);
    expect(await result(env, "greet")).toMatch(/"content":"hello"/);
    expect([...sessions]).toEqual(["one"]);
    await env.close?.();
    expect([...sessions]).toEqual([]);
    await official.close();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });

  it("does not wait for an HTTP server that does not answer at the end of its session", async () => {
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo: { name: "deaf", version: "1" },
      },
      "tools/list": { tools: [] },
    };
    const methods: (string | undefined)[] = [];
    const http = createServer((request, response) => {
      methods.push(request.method);
      if (request.method === "GET") return response.writeHead(405).end();
      if (request.method === "DELETE") return undefined;
      return request.once("data", (body) => {
        const { id, method } = JSON.parse(String(body)) as { id?: number; method: string };
        if (id === undefined) return response.writeHead(202).end();
        response.writeHead(200, { "content-type": "application/json", "mcp-session-id": "one" });
        return response.end(JSON.stringify({ jsonrpc: "2.0", id, result: results[method] }));
      });
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const env = await opened([{ url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp` }]);
    await env.close?.();
    expect(methods).toContain("DELETE");
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
});

describe("a server that fails ends the rollout", () => {
  const limits = { callTimeoutMs: 300, maxMessages: 500, maxMessageBytes: 100_000, maxResultChars: 100 };
  it.each([
    ["dies", "the connection was closed"],
    ["hangs", "timed out"],
    ["loops", "timed out"],
    ["floods", "sent more than 500 messages (maxMessages)"],
    ["one endless line", "sent a message of more than 100000 bytes (maxMessageBytes)"],
    ["lies", "add:"],
    ["not JSON", "timed out"],
    ["wrong id", "timed out"],
  ])("when called: %s", async (mode, message) => {
    const env = await opened(connectMcp([server(mode)], limits));
    await expect(env.step(callOf("add", { a: 2, b: 3 }), signal)).rejects.toThrow(message);
    await expect(env.step(callOf("add", { a: 2, b: 3 }), signal)).rejects.toThrow("MCP server");
    await env.close?.();
  });

  it.each([
    ["dies at start", "closed"],
    ["silent at start", "start within 1000 ms"],
    ["lists without end", "lists its tools on more than 16 pages"],
    ["many tools", "has more than 64 tools (maxTools)"],
    ["huge schema", "has a schema of"],
    ["bad name", "has a tool named"],
    ["no list", "MCP server"],
  ])("when it starts: %s", async (mode, message) => {
    const limited = connectMcp([server(mode)], mode === "silent at start" ? { startTimeoutMs: 1_000 } : {});
    await expect(opened(limited)).rejects.toThrow(message);
  });

  it("but a large result is cut", async () => {
    const env = await opened(connectMcp([server("huge result")], limits));
    expect(await result(env, "add")).toContain(`${"x".repeat(100)} [cut]`);
    await env.close?.();
  });

  it("and one that does not end when it is asked to is killed", async () => {
    const env = await opened([server("stays")]);
    await env.close?.();
    await vi.waitUntil(() => !isAlive(pids().at(-1)!));
  });

  it("and shared sessions are opened again for the next rollout", async () => {
    const servers = connectMcp([server("dies")], { isolation: "shared" });
    for (let i = 0; i < 2; i++) {
      const env = await opened(servers);
      await expect(env.step(callOf("add"), signal)).rejects.toThrow("the connection was closed");
    }
    await servers.close();
  });

  it("and an abort ends the servers that were starting", async () => {
    const abort = new AbortController();
    const group = mcpEnv({ ...envOptions(), servers: [server("silent at start")], grade: () => true });
    const before = pids().length;
    const made = Promise.resolve(group.makeEnvs({ size: 2, seed: 0, signal: abort.signal })).catch(
      (error: unknown) => error,
    );
    await vi.waitUntil(() => pids().length === before + 2);
    abort.abort(new Error("stopped"));
    expect(await made).toMatchObject({ message: "stopped" });
  });
});

it("options that are not usable are refused", () => {
  const options = { ...envOptions(), grade: () => true };
  expect(() => mcpEnv({ ...options, servers: [] })).toThrow("servers: must be a list of at least one server");
  expect(() => mcpEnv({ ...options, servers: [{ url: "file:///x" }] })).toThrow(
    "servers.url: must be an http or https URL",
  );
  expect(() => mcpEnv({ ...options, servers: [{} as McpServer] })).toThrow("servers: must have a command");
  expect(() => connectMcp([server("good")], { maxTools: 0 })).toThrow("maxTools: must be a positive integer, got 0");
  expect(() => mcpEnv({ ...options, servers: [server("good")], check: 1 } as never)).toThrow("check");
});

it("without the SDK of the protocol, the entry loads, and a session says what to install", async () => {
  vi.resetModules();
  vi.doMock("@modelcontextprotocol/sdk/client/index.js", () => {
    throw new Error("Cannot find package");
  });
  const { connectMcp: connect } = await import("./index.ts");
  const error = await connect([server("good")])
    .open(signal)
    .catch((caught: unknown) => caught);
  expect(error).toMatchObject({ code: "missing_peer", hint: "npm install @modelcontextprotocol/sdk" });
  vi.doUnmock("@modelcontextprotocol/sdk/client/index.js");
});
