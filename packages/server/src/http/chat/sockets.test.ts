/** Chats over sockets: clients that leave at any moment, and the resources that they release. */
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../../models/src/testing/tiny-tokenizer.ts";
import { serve } from "../../serve.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";
import { hashApiKey } from "../access/auth.ts";

const tokenizer = tokenizerFromFiles(tinyTokenizer, "tiny");

test("50 clients that leave at any moment release their sequences, slots and file descriptors", async () => {
  let running = 0;
  const engine = fakeEngine({
    contextLength: 4096,
    reply: () => [...tokenizer.encode("hello world ".repeat(60), { addSpecialTokens: false }), 267],
    beforeToken: () => new Promise((resolve) => setImmediate(resolve)),
  });
  const counted = {
    ...engine,
    sample: async (...args: Parameters<typeof engine.sample>) => {
      running++;
      try {
        return await engine.sample(...args);
      } finally {
        running--;
      }
    },
  };
  const model = { name: "m", open: async () => counted, tokenizerFiles: async () => tinyTokenizer };
  const server = await serve({ models: [model], port: 0, log: "off", limits: { chats: 60, chatsPerTenant: 60 } });
  onTestFinished(() => server.close());
  const ask = (path: string, signal: AbortSignal | null = null) =>
    fetch(server.url + path, {
      method: "POST",
      headers: { authorization: "Bearer tml-x", "content-type": "application/json", connection: "close" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "x" }], max_tokens: 500, stream: true }),
      signal,
    });
  const descriptors = () => readdirSync("/proc/self/fd").length;
  await (await ask("/v1/chat/completions")).text(); // opens what stays open for later chats
  const before = process.platform === "linux" ? descriptors() : 0;
  const leave = async (chunks: number): Promise<void> => {
    const gone = new AbortController();
    const path = chunks % 2 === 0 ? "/v1/chat/completions" : "/anthropic/api/v1/messages";
    const response = await ask(path, gone.signal);
    const reader = response.body!.getReader();
    for (let i = 0; i < chunks; i++) await reader.read();
    gone.abort();
    await reader.closed.catch(() => {});
  };
  await Promise.all(Array.from({ length: 50 }, (_, i) => leave(i % 10)));
  await expect.poll(() => running, { timeout: 20_000 }).toBe(0);
  // all slots are free again: sixty chats at once are accepted
  const all = await Promise.all(Array.from({ length: 60 }, () => ask("/v1/chat/completions")));
  expect(all.map(({ status }) => status)).toEqual(new Array(60).fill(200));
  await Promise.all(all.map((response) => response.text()));
  if (process.platform === "linux") {
    await expect.poll(descriptors, { timeout: 20_000 }).toBeLessThanOrEqual(before + 2);
  }
}, 60_000);

test("clients that never complete their head, send byte by byte or never read delay no other client, and hold at most their share", async () => {
  let drawn = 0;
  /** When the other key's sample began. */
  let before = 0;
  const engine = fakeEngine({
    contextLength: 4096,
    reply: () => [...tokenizer.encode("hello world ".repeat(60), { addSpecialTokens: false }), 267],
    onSample: ({ scope }) => {
      if (scope === "other") before = drawn;
    },
    beforeToken: () => {
      drawn++;
      return new Promise((resolve) => setImmediate(resolve));
    },
  });
  const model = { name: "m", open: async () => engine, tokenizerFiles: async () => tinyTokenizer };
  const server = await serve({
    models: [model],
    apiKeys: [
      { name: "hostile", sha256: hashApiKey("tml-hostile") },
      { name: "other", sha256: hashApiKey("tml-other") },
    ],
    port: 0,
    log: "off",
    limits: { chats: 40, chatsPerTenant: 20 },
  });
  onTestFinished(() => server.close());
  const { hostname, port } = new URL(server.url);
  const sockets: Socket[] = [];
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  const open = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname).on("error", () => {});
    sockets.push(socket);
    await once(socket, "connect");
    return socket;
  };
  const body = JSON.stringify({
    model: "m",
    messages: [{ role: "user", content: "x" }],
    max_tokens: 500,
    stream: true,
  });
  const head = (length: number) =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer tml-hostile\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n`;
  for (let i = 0; i < 50; i++) (await open()).write(head(body.length)); // incomplete head
  const slow = await Promise.all(Array.from({ length: 50 }, open));
  for (const socket of slow) socket.write(`${head(body.length)}\r\n${body.slice(0, 5)}`); // bodies that do not arrive
  // Streams without a reader, ten times the limit of one key: the others are refused.
  const statuses = new Map<string, number>();
  await Promise.all(
    Array.from({ length: 200 }, async () => {
      const socket = await open();
      const first = once(socket, "data");
      socket.write(`${head(body.length)}\r\n${body}`);
      const [data] = (await first) as [Buffer];
      socket.pause();
      const status = /^HTTP\/1\.1 (\d+)/.exec(data.toString("latin1"))?.[1] ?? "none";
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }),
  );
  expect(statuses.get("429")).toBeGreaterThan(0);
  expect([...statuses.keys()].sort()).toEqual(["200", "429"]);
  for (const socket of slow) socket.write(body.slice(5, 6));
  // Another key's chat is answered in the meantime, and takes its own tokens besides those of the accepted streams.
  const answer = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer tml-other", "content-type": "application/json" },
    body: JSON.stringify({ ...JSON.parse(body), stream: false, max_tokens: 50 }),
  });
  expect(answer.status).toBe(200);
  expect(((await answer.json()) as { usage: { completion_tokens: number } }).usage.completion_tokens).toBe(50);
  // A step gives one token to each sequence, so at most twenty tokens of the hostile key lie between two of the other key.
  expect(drawn - before).toBeLessThanOrEqual(50 * 21);
}, 60_000);

test("unread complete responses hold their slots and bytes until their connections are closed", async () => {
  const tokens = tokenizer.encode("hello world ".repeat(1000), { addSpecialTokens: false });
  const engine = fakeEngine({ contextLength: 8192, reply: () => [...tokens, 267] });
  const model = { name: "m", open: async () => engine, tokenizerFiles: async () => tinyTokenizer };
  const server = await serve({
    models: [model],
    apiKeys: ["hostile", "other"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    port: 0,
    log: "off",
    limits: { chatsPerTenant: 2, answerStallMs: 4000 },
  });
  onTestFinished(() => server.close());
  const { hostname, port } = new URL(server.url);
  const chat = { model: "m", messages: [{ role: "user", content: "x" }] };
  // Larger than the kernel's buffers of a connection; a smaller response would be sent without a reader.
  const large = JSON.stringify({ ...chat, n: 24, max_tokens: 3000, logprobs: true, top_logprobs: 2 });
  /** A client that reads only the head of the response. */
  const ask = async (): Promise<{ socket: Socket; status: string }> => {
    const socket = connect(Number(port), hostname).on("error", () => {});
    onTestFinished(() => void socket.destroy());
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer tml-hostile\r\ncontent-length: ${large.length}\r\n\r\n${large}`,
    );
    const [data] = (await once(socket, "data")) as [Buffer];
    socket.pause();
    return { socket, status: data.toString("latin1").slice(9, 12) };
  };
  const gauge = async (name: string): Promise<number> => {
    const answer = await fetch(`${server.url}/metrics`, { headers: { authorization: "Bearer tml-other" } });
    return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(await answer.text())?.[1]);
  };
  const unread = await Promise.all([ask(), ask()]);
  expect(unread.map(({ status }) => status)).toEqual(["200", "200"]);
  expect((await ask()).status).toBe("429");
  expect(await gauge("tinklet_bodies_bytes")).toBeGreaterThan(20_000_000);
  const answer = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer tml-other", "content-type": "application/json" },
    body: JSON.stringify({ ...chat, max_tokens: 5 }),
  });
  expect(answer.status).toBe(200);
  await answer.text();
  await expect.poll(() => gauge("tinklet_bodies_bytes"), { timeout: 20_000 }).toBe(0);
  expect((await ask()).status).toBe("200");
}, 60_000);
