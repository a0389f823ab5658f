import type { Studio } from "@tinklet/wire";
import { expect, onTestFinished, test } from "vitest";
import { TestServer } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";

const origin = "http://127.0.0.1:8471";
const studio: Studio = { file: () => undefined };
const open = async () => {
  const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
  // the heartbeats of twelve hours would be most of the test
  const server = await TestServer.open({ studio, apiKeys, limits: { chatHeartbeatMs: 100 * 3_600_000 } });
  onTestFinished(() => server.close());
  return server;
};
const ask = (server: TestServer, path: string, init: RequestInit = {}) =>
  server.server.fetch(new Request(`${origin}${path}`, init));
/** Signs in; returns the cookie. */
const signIn = async (server: TestServer, key = "tml-alice"): Promise<string> => {
  const answer = await ask(server, "/studio/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json", origin },
    body: JSON.stringify({ key }),
  });
  return answer.headers.get("set-cookie")!.split(";")[0]!;
};
/** An open event stream; `rest` resolves when it ends. */
const watch = async (server: TestServer, headers: Record<string, string>) => {
  const answer = await ask(server, "/api/v1/tinklet/events", { headers });
  expect(answer.status).toBe(200);
  const reader = answer.body!.getReader();
  expect(Buffer.from((await reader.read()).value!).toString()).toContain("event: ready");
  let hasEnded = false;
  const rest = (async () => {
    while (!(await reader.read()).done);
    hasEnded = true;
  })();
  return { reader, rest, hasEnded: () => hasEnded };
};
const signOut = (server: TestServer, cookie: string) =>
  ask(server, "/studio/sign-out", { method: "POST", headers: { origin, cookie } });

test("signing out ends the streams of this sign-in, and no others", async () => {
  const server = await open();
  const [cookie, another] = [await signIn(server), await signIn(server)];
  const ended = [await watch(server, { cookie }), await watch(server, { cookie })];
  const others = [await watch(server, { cookie: another }), await watch(server, { "x-api-key": "tml-alice" })];
  expect((await signOut(server, cookie)).status).toBe(200);
  await Promise.all(ended.map(({ rest }) => rest));
  // the others still send events
  server.key = "tml-alice";
  await server.result(server.optim(await server.model(), 1));
  await server.clock.advance(300);
  expect(others.map(({ hasEnded }) => hasEnded())).toEqual([false, false]);
  expect((await ask(server, "/api/v1/tinklet/events", { headers: { cookie } })).status).toBe(401);
  for (const { reader } of others) await reader.cancel();
});

test("so does its expiry, and a further sign-in beyond the limit", async () => {
  const server = await open();
  const first = await watch(server, { cookie: await signIn(server, "tml-bob") });
  for (let i = 0; i < 100; i++) {
    await server.clock.advance(1000); // each expires later than the previous one
    await signIn(server, "tml-bob");
  }
  await first.rest;
  const last = await watch(server, { cookie: await signIn(server, "tml-bob") });
  await server.clock.advance(12 * 3_600_000 - 1000);
  expect(last.hasEnded()).toBe(false);
  await server.clock.advance(1000);
  await last.rest;
});

test("a stream whose reader leaves is released", async () => {
  const server = await open();
  const cookie = await signIn(server);
  // streams per key are limited: a stream that was not released would count
  for (let i = 0; i < 50; i++) await (await watch(server, { cookie })).reader.cancel();
  expect((await signOut(server, cookie)).status).toBe(200);
});
