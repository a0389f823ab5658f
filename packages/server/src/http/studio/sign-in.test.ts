import type { Studio } from "@tinklet/wire";
import { describe, expect, onTestFinished, test } from "vitest";
import { TestServer, type TestServerOptions } from "../../testing/test-server.ts";
import { hashApiKey } from "../access/auth.ts";

const html = new TextEncoder().encode("<!doctype html><title>page</title>");
const studio: Studio = {
  file: (path) =>
    path === "/" ? { bytes: html, gzip: html, contentType: "text/html; charset=utf-8", etag: '"1"' } : undefined,
};
const origin = "http://127.0.0.1:8471";
const open = async (options: TestServerOptions = {}) => {
  const server = await TestServer.open({ studio, ...options });
  onTestFinished(() => server.close());
  return server;
};
const ask = (server: TestServer, path: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
  server.server.fetch(new Request(`${origin}${path}`, init));
const signIn = (server: TestServer, body: unknown, headers: Record<string, string> = { origin }) =>
  ask(server, "/studio/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const tokenOf = (server: TestServer) => server.server.studioPath()!.split("token=")[1]!;
const cookieOf = (response: Response) => response.headers.get("set-cookie")!.split(";")[0]!;

describe("the page", () => {
  test("needs no key, and its policy allows only its own scripts", async () => {
    const server = await open();
    const page = await ask(server, "/", { headers: { "sec-fetch-site": "cross-site" } });
    expect(page.status).toBe(200);
    expect(page.headers.get("content-security-policy")).toMatch(/default-src 'none'; script-src 'self'/);
    expect(page.headers.get("content-security-policy")).not.toMatch(/unsafe/);
    expect((await ask(server, "/", { headers: { "if-none-match": '"1"' } })).status).toBe(304);
    expect((await ask(server, "/studio/../api/v1/sessions")).status).toBe(401);
  });

  test("is served only if a studio is configured; without one cookies are ignored", async () => {
    const server = await open({ studio: undefined });
    expect(await (await ask(server, "/")).text()).toMatch(/npm install @tinklet\/studio/);
    expect(server.server.studioPath()).toBeUndefined();
    expect((await signIn(server, { key: "tml-a" })).status).toBe(401);
  });

  test("clients learn from the config whether there is a studio, for their links to runs", async () => {
    const extensions = async (server: TestServer) =>
      (await server.post("client/config", { sdk_version: "0.36.0" })).json.tinklet_extensions as string[];
    expect(await extensions(await open())).toContain("studio");
    expect(await extensions(await open({ studio: undefined }))).not.toContain("studio");
  });

  test("an unknown host is refused", async () => {
    const server = await open();
    expect((await server.server.fetch(new Request("http://evil.example/"))).status).toBe(403);
  });
});

describe("signing in", () => {
  test("by the printed link, once", async () => {
    const server = await open();
    const token = tokenOf(server);
    const first = await signIn(server, { token });
    expect(first.status).toBe(200);
    expect(first.headers.get("set-cookie")).toMatch(
      /^tinklet_studio_8471=[^;]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    const cookie = cookieOf(first);
    expect((await ask(server, "/api/v1/sessions", { headers: { cookie } })).status).toBe(200);
    expect(await (await ask(server, "/studio/session", { headers: { cookie } })).json()).toMatchObject({
      tenant: "local",
    });
    const second = await signIn(server, { token });
    expect(second.status).toBe(401);
    expect(await second.text()).toMatch(/already used/);
  });

  test("by a key of the server, as its tenant", async () => {
    const server = await open({ apiKeys: [{ name: "alice", sha256: hashApiKey("tml-alice") }] });
    expect(server.server.studioPath()).toBe("/#/runs");
    expect((await signIn(server, { key: "tml-other" })).status).toBe(401);
    expect((await signIn(server, { token: "x" })).status).toBe(401);
    const cookie = cookieOf(await signIn(server, { key: "tml-alice" }));
    expect(await (await ask(server, "/studio/session", { headers: { cookie } })).json()).toMatchObject({
      tenant: "alice",
      needs_key: true,
    });
  });

  test("ends when it expires, when signing out, and for a changed cookie", async () => {
    const server = await open();
    const cookie = cookieOf(await signIn(server, { token: tokenOf(server) }));
    const status = async (sent: string) =>
      (await ask(server, "/api/v1/sessions", { headers: { cookie: sent } })).status;
    expect(await status(cookie.replace(/.$/, (last) => (last === "A" ? "B" : "A")))).toBe(401);
    const [name, value] = cookie.split("=") as [string, string];
    const forged = Buffer.from(`other.99999999999`).toString("base64url");
    expect(await status(`${name}=${forged}.${value.split(".")[1]}`)).toBe(401);
    expect(await status(cookie.replace("8471", "8472"))).toBe(401);
    const out = await ask(server, "/studio/sign-out", { method: "POST", headers: { origin, cookie } });
    expect(out.headers.get("set-cookie")).toMatch(/=; Path=\/; Max-Age=0;/);
    server.clock.jump(12 * 3_600_000);
    expect(await status(cookie)).toBe(401);
  });
});

describe("changes by cookie", () => {
  test("need the page's own origin", async () => {
    const server = await open();
    const cookie = cookieOf(await signIn(server, { token: tokenOf(server) }));
    const create = (headers: Record<string, string>) =>
      ask(server, "/api/v1/create_session", {
        method: "POST",
        headers: { cookie, "content-type": "application/json", ...headers },
        body: JSON.stringify({ tags: [], sdk_version: "x" }),
      });
    expect((await create({ origin })).status).toBe(200);
    expect((await create({})).status).toBe(403);
    expect((await create({ origin: "http://127.0.0.1:9999" })).status).toBe(403);
    expect((await create({ origin: "null" })).status).toBe(403);
    expect((await create({ "x-api-key": "tml-a" })).status).toBe(200);
    expect((await signIn(server, { key: "tml-a" }, {})).status).toBe(403);
    expect((await signIn(server, { key: "tml-a" }, { origin: "http://evil.example" })).status).toBe(403);
  });

  test("the body of a sign-in is limited and checked", async () => {
    const server = await open();
    expect((await signIn(server, { key: "x".repeat(10_000) })).status).toBe(413);
    expect((await signIn(server, null)).status).toBe(422);
    expect((await signIn(server, { key: 7 })).status).toBe(401);
  });
});
