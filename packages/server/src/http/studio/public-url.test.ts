/** A server behind a proxy that terminates TLS: requests arrive as plain HTTP, with or without the outer Host. */

import type { Studio } from "@tinklet/wire";
import { describe, expect, onTestFinished, test } from "vitest";
import { serve } from "../../serve.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";
import { TestServer } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";
import { parsePublicUrl } from "../access/public-url.ts";

const publicUrl = "https://tinker.example.com";
const apiKeys = [{ name: "alice", sha256: hashApiKey("tml-alice") }];
const html = new TextEncoder().encode("<!doctype html><title>page</title>");
const studio: Studio = {
  file: (path) =>
    path === "/" ? { bytes: html, gzip: html, contentType: "text/html; charset=utf-8", etag: '"1"' } : undefined,
};
const open = async (url: string | undefined = publicUrl) => {
  const server = await TestServer.open({ studio, apiKeys, publicUrl: url });
  server.key = "tml-alice";
  onTestFinished(() => server.close());
  return server;
};
const json = { "content-type": "application/json" };

describe.each(["http://tinker.example.com", "http://127.0.0.1:8471"])("the proxy asks %s", (upstream) => {
  const send = (server: TestServer, path: string, init?: RequestInit) =>
    server.server.fetch(new Request(`${upstream}${path}`, init));
  const signIn = (server: TestServer, origin: string) =>
    send(server, "/studio/sign-in", {
      method: "POST",
      headers: { ...json, origin },
      body: JSON.stringify({ key: "tml-alice" }),
    });

  test("a page of the public origin can sign in, make changes, and sign out", async () => {
    const server = await open();
    const answer = await signIn(server, publicUrl);
    expect(answer.status).toBe(200);
    const setCookie = answer.headers.get("set-cookie")!;
    expect(setCookie).toMatch(/^tinklet_studio_443=[\w-]+; Path=\/; .*HttpOnly; SameSite=Strict; Secure$/);
    const headers = { ...json, origin: publicUrl, cookie: setCookie.split(";")[0]! };
    const body = JSON.stringify({ tags: [], sdk_version: "x" });
    expect((await send(server, "/api/v1/create_session", { method: "POST", headers, body })).status).toBe(200);
    expect(await (await send(server, "/studio/session", { headers })).json()).toMatchObject({ tenant: "alice" });
    expect((await send(server, "/studio/sign-out", { method: "POST", headers })).status).toBe(200);
    expect(await (await send(server, "/studio/session", { headers })).json()).toMatchObject({ tenant: null });
  });

  test.each(["http://tinker.example.com", "http://127.0.0.1:8471", "https://tinker.example.com:444", "null"])(
    "a page of %s is refused with the expected origin",
    async (origin) => {
      const answer = await signIn(await open(), origin);
      expect(answer.status).toBe(403);
      expect(await answer.text()).toContain(`Origin: ${publicUrl}`);
    },
  );

  test("links in responses begin with the public origin", async () => {
    const server = await open();
    const model = await server.model();
    await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "x" }));
    const answer = await send(server, `/api/v1/training_runs/${model}/checkpoints/weights/x/archive`, {
      headers: { "x-api-key": "tml-alice" },
      redirect: "manual",
    });
    expect(`${answer.headers.get("location") ?? ""}${await answer.text()}`).toContain(`${publicUrl}/download/archive/`);
  });
});

test("other host names are refused", async () => {
  const server = await open();
  expect((await server.server.fetch(new Request("http://evil.example/"))).status).toBe(403);
  expect((await server.server.fetch(new Request("http://evil.example/v1/models"))).status).toBe(403);
});

test.each([
  ["tinker.example.com", /must be a URL with its scheme/],
  ["htps://tinker.example.com", /must begin with https:\/\/ or http:\/\//],
  ["https://", /must be a URL/],
  ["https://tinker.example.com/tinklet", /must not have a path/],
  ["https://tinker.example.com/?", /must not have a path, query/],
  ["https://me:secret@tinker.example.com", /must not have a name or password/],
])("%s is no public URL", async (text, message) => {
  expect(() => parsePublicUrl(text)).toThrow(
    expect.objectContaining({ name: "InvalidInputError", field: "publicUrl" }),
  );
  expect(() => parsePublicUrl(text)).toThrow(message);
  await expect(serve({ models: [], port: 0, log: "off", publicUrl: text })).rejects.toThrow(message);
});

test("a public URL needs keys, and printed links begin with it", async () => {
  const model = { name: "m", open: async () => fakeEngine() };
  const options = { models: [model], port: 0, log: "off", studio, publicUrl } as const;
  await expect(serve(options)).rejects.toMatchObject({
    code: "no_keys",
    hint: expect.stringMatching(/^Configure keys/),
  });
  await using server = await serve({ ...options, apiKeys });
  expect([server.publicUrl, server.studioUrl("/runs")]).toEqual([publicUrl, `${publicUrl}/#/runs`]);
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  await using local = await serve({ ...options, publicUrl: "https://localhost:8443" });
  expect(local.studioUrl()).toMatch(/^https:\/\/localhost:8443\/#\/runs\?token=/);
});
