/** Ids and counters reveal nothing about other tenants. */
import { createHmac } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { OpaqueIds, RequestIds } from "../queue/request-id.ts";
import { TestServer, type TestServerOptions } from "../testing/test-server.ts";
import { hashApiKey } from "./access/auth.ts";

const open = async (options: TestServerOptions = {}) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};
const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
const secret = Buffer.alloc(32, 7);

test("request ids reveal neither the row number nor the number of requests between two of them", () => {
  const ids = new RequestIds(secret);
  const made = Array.from({ length: 2000 }, (_, row) => ids.make(row + 1, "alice"));
  expect(new Set(made).size).toBe(made.length);
  for (const id of made) expect(id).toMatch(/^[0-9a-f]{32}$/);
  // consecutive ids look random: each of their hex digits is equal in 1 of 16 cases
  const equal = made.slice(1).map((id, i) => [...id].filter((digit, at) => digit === made[i]![at]).length);
  const mean = equal.reduce((sum, each) => sum + each, 0) / equal.length / 32;
  expect(Math.abs(mean - 1 / 16)).toBeLessThan(0.01); // 64,000 digits: ten standard deviations
  expect(made.map((id) => ids.read(id, "alice"))).toEqual(made.map((_, i) => i + 1));
});

test("an id is valid for one tenant, one kind and one server", () => {
  const id = new RequestIds(secret).make(12, "alice");
  expect(new RequestIds(secret).read(id, "bob")).toBeUndefined();
  expect(new RequestIds(Buffer.alloc(32, 8)).read(id, "alice")).toBeUndefined();
  expect(new OpaqueIds(secret, "step").read(id, "alice")).toBeUndefined();
  for (let at = 0; at < 32; at++) {
    const other = `${id.slice(0, at)}${id[at] === "0" ? "1" : "0"}${id.slice(at + 1)}`;
    expect(new RequestIds(secret).read(other, "alice")).toBeUndefined();
  }
});

test("ids of older releases are accepted", async () => {
  const old = (row: number, tenant: string): string => {
    const checksum = createHmac("sha256", secret).update(`request\0${row}\0${tenant}`).digest("hex").slice(0, 16);
    return `${row.toString(36)}-${checksum}`;
  };
  const ids = new RequestIds(secret);
  expect(ids.read(old(1_234_567, "alice"), "alice")).toBe(1_234_567);
  expect(ids.read(old(1_234_567, "alice"), "bob")).toBeUndefined();
});

test("the step ids that a tenant sees do not depend on other tenants' steps", async () => {
  const seen = async (others: number) => {
    const server = await open({ apiKeys });
    server.key = "tml-alice";
    const hers = await server.model();
    for (let seq = 1; seq <= others; seq++) await server.result(server.optim(hers, seq));
    server.key = "tml-bob";
    const his = await server.model();
    await server.result(server.optim(his, 1));
    return (await server.get(`tinklet/runs/${his}/steps`)).json.steps.id as number[];
  };
  expect(await seen(3)).toEqual(await seen(0));
});

test("/metrics needs a key if keys are configured, also as a bearer token; /healthz needs none", async () => {
  const server = await open({ apiKeys });
  const ask = async (path: string, headers?: Record<string, string>) =>
    (await server.server.fetch(new Request(`http://localhost${path}`, headers === undefined ? {} : { headers })))
      .status;
  expect(await ask("/metrics")).toBe(401);
  expect(await ask("/metrics", { authorization: "Bearer tml-carol" })).toBe(401);
  expect(await ask("/metrics", { authorization: "Bearer tml-alice" })).toBe(200);
  expect(await ask("/metrics", { "x-api-key": "tml-alice" })).toBe(200);
  expect(await ask("/healthz")).toBe(200);
});
