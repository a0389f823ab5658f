/** Clients that announce bodies, send slowly or do not read: they take no capacity from other tenants, and their sockets are closed. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { FakeClock } from "@tinklet/wire/testing";
import { expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "./http/access/auth.ts";
import type { Limits } from "./limits.ts";
import { serve } from "./serve.ts";
import { fakeEngine } from "./testing/fake-engine.ts";
import { baseModel } from "./testing/test-server.ts";

const names = ["hostile", "other"];

async function open(limits: Partial<Limits>) {
  const clock = new FakeClock();
  const server = await serve({
    models: [{ name: baseModel, open: async () => fakeEngine() }],
    apiKeys: names.map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    port: 0,
    log: "off",
    clock,
    limits,
  });
  const sockets: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await server.close();
  });
  const { hostname, port } = new URL(server.url);
  /** Opens a socket; returns it with the text that the server has written to it. */
  const dial = async () => {
    const socket = connect(Number(port), hostname).on("error", () => {});
    sockets.push(socket);
    const dialled = { socket, text: "" };
    socket.setEncoding("latin1").on("data", (text: string) => {
      dialled.text += text;
    });
    await once(socket, "connect");
    return dialled;
  };
  const post = (path: string, length: number | "chunked", key = "tml-hostile") => {
    const size = length === "chunked" ? "transfer-encoding: chunked" : `content-length: ${length}`;
    return `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\nx-api-key: ${key}\r\ncontent-type: application/json\r\n${size}\r\n\r\n`;
  };
  /** An ordinary request of the other tenant: its status. */
  const ordinary = async (body = "{}"): Promise<number> => {
    const answer = await fetch(`${server.url}/api/v1/asample`, {
      method: "POST",
      headers: { "x-api-key": "tml-other", "content-type": "application/json", connection: "close" },
      body,
    });
    await answer.text();
    return answer.status;
  };
  const gauge = async (name: string): Promise<number> => {
    const headers = { "x-api-key": "tml-other", connection: "close" };
    const answer = await fetch(`${server.url}/metrics`, { headers });
    return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(await answer.text())![1]);
  };
  return { clock, server, dial, post, ordinary, gauge };
}

const sample = (padding = 0) =>
  JSON.stringify({
    base_model: baseModel,
    prompt: { chunks: [{ type: "encoded_text", tokens: [1] }] },
    sampling_params: { max_tokens: 1 },
    padding: "x".repeat(padding),
  });

test("announced bodies that do not arrive take no capacity, and time out", async () => {
  const { clock, dial, post, ordinary, gauge } = await open({ bodiesBytes: 10_000_000 });
  const held = await Promise.all(Array.from({ length: 30 }, dial));
  for (const { socket } of held) socket.write(`${post("/api/v1/asample", 1_000_000)}{`);
  await expect.poll(() => gauge("tinklet_open_requests")).toBe(31); // with the one that asks
  expect(await ordinary(sample())).toBe(200);
  expect(await ordinary(sample(1_000_000))).toBe(200);
  await clock.advance(20_000);
  await expect.poll(() => held.filter(({ text }) => text.startsWith("HTTP/1.1 408")).length).toBe(30);
  expect(held[0]!.text).toContain("body_too_slow");
  await expect.poll(() => gauge("tinklet_open_requests")).toBe(1);
  expect(await gauge("tinklet_bodies_bytes")).toBe(0);
});

test("a body that arrives byte by byte must keep the minimum rate, and takes about as much memory as it has bytes", async () => {
  const { clock, dial, post, gauge } = await open({ bodyStallMs: 20_000, bodyBytesPerSecond: 100 });
  const [drip, brisk] = await Promise.all([dial(), dial()]);
  for (const { socket } of [drip, brisk]) socket.setNoDelay().write(post("/api/v1/asample", "chunked"));
  let sent = 0;
  for (let second = 0; second < 40; second++) {
    drip.socket.write("1\r\nx\r\n");
    brisk.socket.write(`64\r\n${"x".repeat(100)}\r\n`);
    sent += drip.text === "" ? 101 : 100;
    await expect.poll(() => gauge("tinklet_bodies_bytes")).toBeGreaterThanOrEqual(drip.text === "" ? sent : sent - 40);
    expect(await gauge("tinklet_bodies_bytes")).toBeLessThanOrEqual(2 * sent);
    await clock.advance(1000);
    if (second >= 20) await expect.poll(() => drip.text).toContain("HTTP/1.1 408");
  }
  brisk.socket.write("0\r\n\r\n");
  await expect.poll(() => brisk.text).toContain("bad_json");
});

test("received bytes count against the share of their tenant only", async () => {
  const { dial, post, ordinary, gauge } = await open({ bodiesBytes: 6_000_000 });
  const held = await Promise.all(Array.from({ length: 12 }, dial));
  for (const { socket } of held) {
    socket.write(`${post("/api/v1/asample", 1_000_000)}${"x".repeat(999_000)}`);
  }
  await expect.poll(() => held.filter(({ text }) => text.includes("too_many_bytes")).length).toBeGreaterThan(0);
  expect(await gauge("tinklet_bodies_bytes")).toBeLessThanOrEqual(4_000_000);
  expect(await ordinary(sample(600_000))).toBe(200);
  for (const { socket } of held) socket.destroy();
  await expect.poll(() => gauge("tinklet_bodies_bytes")).toBe(0);
});

test("requests in flight are limited per tenant: one tenant is refused, another is not", async () => {
  const { dial, post, ordinary } = await open({ concurrentRequests: 12 });
  const held = await Promise.all(Array.from({ length: 40 }, dial));
  for (const { socket } of held) socket.write(post("/api/v1/asample", 10));
  await expect.poll(() => held.filter(({ text }) => text.includes("too_many_requests")).length).toBe(32);
  expect(await ordinary(sample())).toBe(200);
});

test("connections are limited per tenant; without a key per address, where the longest idle one is closed", async () => {
  const { server, dial, post, ordinary } = await open({ connections: 30, unidentifiedConnections: 15 });
  const known = await Promise.all(Array.from({ length: 8 }, dial));
  for (const { socket } of known) socket.write(`${post("/api/v1/asample", sample().length)}${sample()}`);
  await expect.poll(() => known.filter(({ text }) => text.startsWith("HTTP/1.1 200")).length).toBe(8);
  for (let i = 0; i < 30; i++) {
    const { socket } = await dial();
    socket.write(`${post("/api/v1/asample", sample().length)}${sample()}`);
  }
  const silent = await Promise.all(Array.from({ length: 40 }, dial));
  await expect.poll(() => silent.filter(({ socket }) => socket.closed).length).toBeGreaterThanOrEqual(30);
  expect(await ordinary(sample())).toBe(200);
  const health = await fetch(`${server.url}/healthz`);
  expect(health.status).toBe(200);
  // Connections with a key are not closed to make room.
  for (const dialled of known) {
    dialled.text = "";
    dialled.socket.write(`${post("/api/v1/asample", sample().length)}${sample()}`);
  }
  await expect.poll(() => known.filter(({ text }) => text.startsWith("HTTP/1.1 200")).length).toBe(8);
});
