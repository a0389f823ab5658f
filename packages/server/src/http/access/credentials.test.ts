/** Tokens and cookies end with their key, with a sign-out, and with an upgrade from an older release. */
import { createHmac } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Studio } from "@tinklet/wire";
import { FakeClock } from "@tinklet/wire/testing";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "../../store/store.ts";
import { TestServer } from "../../testing/test-server.ts";
import { hashApiKey } from "./auth.ts";

const origin = "http://127.0.0.1:8471";
const studio: Studio = { file: () => undefined };

async function newFolder(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-credentials-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

/** A server on a folder whose one tenant has this key; without one, a server without keys. */
async function open(dataDir: string, key: string | undefined, name = "alice") {
  const keys = key === undefined ? {} : { apiKeys: [{ name, sha256: hashApiKey(key) }] };
  const server = await TestServer.open({ dataDir, studio, clock: new FakeClock(), ...keys });
  let isOpen = true;
  const close = async () => {
    if (isOpen) await server.close();
    isOpen = false;
  };
  onTestFinished(close);
  const by = (shown: string) => {
    server.key = shown;
    return server;
  };
  const byCookie = (cookie: string, method = "GET", path = "/api/v1/sessions") =>
    server.server.fetch(
      new Request(`${origin}${path}`, { method, headers: { cookie, ...(method === "GET" ? {} : { origin }) } }),
    );
  const signIn = async (given: object) => {
    const response = await server.server.fetch(
      new Request(`${origin}/studio/sign-in`, { method: "POST", headers: { origin }, body: JSON.stringify(given) }),
    );
    return { status: response.status, cookie: response.headers.get("set-cookie")?.split(";")[0] ?? "" };
  };
  return { server, close, by, byCookie, signIn };
}

test("a key that is replaced ends its tokens and its cookies; the tenant keeps what it has", async () => {
  const dataDir = await newFolder();
  const before = await open(dataDir, "tml-old");
  const { jwt } = (await before.by("tml-old").post("auth/token")).json;
  const session = await before.server.session();
  const { cookie } = await before.signIn({ key: "tml-old" });
  expect((await before.by(jwt).get("sessions")).status).toBe(200);
  expect((await before.byCookie(cookie)).status).toBe(200);
  await before.close();

  const after = await open(dataDir, "tml-new");
  for (const shown of ["tml-old", jwt]) {
    for (const answer of [await after.by(shown).get("sessions"), await after.by(shown).post("auth/token")]) {
      expect([answer.status, answer.json.code]).toEqual([401, "unauthorized"]);
    }
    expect((await after.signIn({ key: shown })).status).toBe(401);
  }
  expect((await after.by(jwt).get("sessions")).json.detail).toContain("its key was replaced");
  const refused = await after.byCookie(cookie);
  expect([refused.status, (await refused.json()).code]).toEqual([401, "signed_out"]);
  expect(await (await after.byCookie(cookie, "GET", "/studio/session")).json()).toMatchObject({ tenant: null });
  expect((await after.by("tml-new").get("sessions")).json.sessions).toEqual([session]);
  await after.close();

  // The first key is restored: its tokens and cookies are valid again until they expire.
  const again = await open(dataDir, "tml-old");
  expect((await again.by(jwt).get("sessions")).status).toBe(200);
});

test("tokens and cookies of a server without keys are refused once keys are configured, under any name", async () => {
  const dataDir = await newFolder();
  const before = await open(dataDir, undefined);
  const { jwt } = (await before.server.post("auth/token")).json;
  const { cookie } = await before.signIn({ key: "tml-any" });
  expect((await before.byCookie(cookie)).status).toBe(200);
  await before.close();
  const after = await open(dataDir, "tml-key", "local");
  expect((await after.by(jwt).get("sessions")).status).toBe(401);
  expect((await after.byCookie(cookie)).status).toBe(401);
});

test("only a key can be exchanged: neither a token nor a cookie gives a token or a cookie", async () => {
  const { server, by, byCookie, signIn } = await open(await newFolder(), "tml-key");
  const { jwt } = (await by("tml-key").post("auth/token")).json;
  const { cookie } = await signIn({ key: "tml-key" });
  const bought = await by(jwt).post("auth/token");
  expect([bought.status, bought.json.code]).toEqual([403, "key_required"]);
  expect((await byCookie(cookie, "POST", "/api/v1/auth/token")).status).toBe(403);
  expect((await signIn({ key: jwt })).status).toBe(401);
  await server.clock.advance(3_600_000);
  expect((await by(jwt).get("sessions")).status).toBe(401);
  expect((await by("tml-key").post("auth/token")).status).toBe(200);
});

test("signing out ends the cookie of the request, also after a restart, and no other", async () => {
  const dataDir = await newFolder();
  const first = await open(dataDir, "tml-key");
  const [out, other] = [
    (await first.signIn({ key: "tml-key" })).cookie,
    (await first.signIn({ key: "tml-key" })).cookie,
  ];
  expect((await first.byCookie(out, "POST", "/studio/sign-out")).status).toBe(200);
  expect((await first.byCookie(out)).status).toBe(401);
  expect((await first.byCookie(other)).status).toBe(200);
  await first.close();
  const second = await open(dataDir, "tml-key");
  expect((await second.byCookie(out)).status).toBe(401);
  expect((await second.byCookie(other)).status).toBe(200);
});

test("a tenant has at most a hundred sign-ins; a new one ends the one that expires first", async () => {
  const { server, byCookie, signIn } = await open(await newFolder(), "tml-key");
  const { cookie: first } = await signIn({ key: "tml-key" });
  await server.clock.advance(1000);
  const { cookie: second } = await signIn({ key: "tml-key" });
  for (let i = 0; i < 99; i++) await signIn({ key: "tml-key" });
  expect([(await byCookie(first)).status, (await byCookie(second)).status]).toEqual([401, 200]);
});

test("tokens and cookies of an older release, which have the tenant's name only, are refused with a 401 that says so", async () => {
  const dataDir = await newFolder();
  const store = await openStore({ dataDir });
  const { secret } = store;
  await store.close();
  const sign = (text: string) => createHmac("sha256", secret).update(text).digest("base64url");
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Date.UTC(2030, 0, 1) / 1000;
  const claims = `${part({ alg: "HS256", typ: "JWT" })}.${part({ iss: "passport-tinklet", sub: "tml:user:alice", exp })}`;
  const { server, by, byCookie } = await open(dataDir, "tml-key");
  const answer = await by(`${claims}.${sign(`token\0${claims}`)}`).get("sessions");
  expect([answer.status, answer.json.detail]).toEqual([401, expect.stringContaining("an older release issued it")]);
  const signedIn = `alice.${exp}`;
  const value = `${Buffer.from(signedIn).toString("base64url")}.${sign(`studio\0${signedIn}`)}`;
  const refused = await byCookie(`tinklet_studio_8471=${value}`);
  expect([refused.status, (await refused.json()).detail]).toEqual([401, expect.stringContaining("an older release")]);
  // malformed ones are refused too
  for (const shown of [
    `eyJ.${part([])}.x`,
    `eyJ.${part({ sub: 7, exp })}.x`,
    `eyJ.${part({ sub: "tml:user:bob", exp })}.`,
  ]) {
    expect((await by(shown).get("sessions")).status).toBe(401);
  }
  expect((await by("tml-key").get("sessions")).status).toBe(200);
  expect(server.logged.filter(({ level }) => level === "error")).toEqual([]);
});
