import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ClientConfigResponse } from "@tinklet/wire";
import { FakeClock } from "@tinklet/wire/testing";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { failure } from "../../testing/harness.ts";
import { stubToken } from "../../testing/stub-server.ts";
import { credentialSource, exchangeCredentials, firstCredentials } from "./auth.ts";
import { credentialsFile } from "./credentials-file.node.ts";
import { readCredentials } from "./stored-key.node.ts";
import { ExchangedToken, passportToken, tokenClaims, whoamiOf } from "./token.ts";

afterEach(() => vi.unstubAllEnvs());

const config = (fields: object = {}) => ClientConfigResponse.decode(fields);
const source = (apiKey?: string, command?: string) => ({ apiKey, command });
const errorOf = (body: () => unknown) => {
  try {
    body();
  } catch (error) {
    return error as Error & { code: string; hint: string };
  }
  throw new Error("did not throw");
};

describe("a key that auth login stored", () => {
  const record = { type: "manual", key: "tml-stored", name: "mine" };
  /** A home folder, and how to write its file of stored keys. */
  async function home() {
    const folder = await mkdtemp(join(tmpdir(), "tinklet-home-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, ".tinker", "credentials.json");
    await mkdir(join(folder, ".tinker"));
    const home = vi.spyOn(process.getBuiltinModule("node:os"), "homedir").mockReturnValue(folder);
    onTestFinished(() => home.mockRestore());
    for (const name of ["TINKER_API_KEY", "TINKER_CREDENTIAL_CMD"]) vi.stubEnv(name, "");
    const write = (content: unknown) =>
      writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
    return { file, write };
  }
  const first = (options: { apiKey?: string; baseUrl?: string } = {}) => firstCredentials(credentialSource(options));

  it("comes last, is read once, and then stands among what was given", async () => {
    const { file, write } = await home();
    expect(errorOf(() => first()).code).toBe("no_api_key"); // there is no file
    await write({ version: 1, default: "7", keys: { 7: record } });
    expect(credentialsFile()).toBe(file);
    const given = credentialSource({});
    const credentials = firstCredentials(given);
    expect(given.apiKey).toBeUndefined();
    expect(await credentials.token()).toBe("tml-stored");
    expect(given).toEqual({ apiKey: "tml-stored", command: undefined });
    await write("broken since");
    expect(credentials.token()).toBe("tml-stored");
    expect(await exchangeCredentials(given, config()).token()).toBe("tml-stored");
    expect(first({ apiKey: "tml-option" }).token()).toBe("tml-option");
    vi.stubEnv("TINKER_API_KEY", "tml-env");
    expect(first().token()).toBe("tml-env");
    expect(errorOf(() => first({ apiKey: "sk-wrong" })).code).toBe("bad_api_key"); // never replaced by another key
  });

  it("is given to its own server alone; without an origin, to the hosted service", async () => {
    const { write } = await home();
    const token = (baseUrl?: string) => Promise.resolve(first({ ...(baseUrl && { baseUrl }) }).token());
    const mine = { ...record, key: "tml-mine", origin: "http://10.0.0.5:8000" };
    const old = { ...record, key: "tml-old", origin: "http://10.0.0.5:8000" };
    await write({ version: 1, default: "7", keys: { 7: record, "x 6": old, "x 7": mine } });
    expect(await token()).toBe("tml-stored");
    expect(await token("https://tinker.thinkingmachines.dev/another/path")).toBe("tml-stored");
    expect(await token("http://10.0.0.5:8000/prefix")).toBe("tml-mine"); // the newest
    for (const baseUrl of [
      "http://tinker.thinkingmachines.dev", // in clear
      "https://tinker.thinkingmachines.dev:444",
      "https://tinker.thinkingmachines.dev.evil.example",
      "http://127.0.0.1:8000/p/",
    ]) {
      const { origin } = new URL(baseUrl);
      expect(await failure(token(baseUrl))).toMatchObject({
        code: "key_of_another_server",
        message: `The stored API key belongs to https://tinker.thinkingmachines.dev or http://10.0.0.5:8000 and is not sent to ${origin}.`,
        hint: expect.stringContaining(`npx tinklet auth login --base-url ${baseUrl.replace(/\/$/, "")})`),
      });
    }
    vi.stubEnv("TINKER_BASE_URL", "http://127.0.0.1:8000");
    expect(await failure(token())).toMatchObject({ code: "key_of_another_server" });
    vi.stubEnv("TINKER_BASE_URL", "");
    await write({ version: 1, keys: { "x 7": mine } });
    expect(await failure(token())).toMatchObject({ code: "key_of_another_server" });
    await write({ version: 1, default: "7", keys: { 7: mine } }); // never the default of another server
    expect(await failure(token())).toMatchObject({ code: "key_of_another_server" });
  });

  it("where none of them is the one to use, the first request says that there is none", async () => {
    const { write } = await home();
    for (const chosen of [{}, { default: "8" }, { default: 7 }, { default: "toString" }]) {
      await write({ version: 1, ...chosen, keys: { 7: record } });
      expect(await failure(first().token() as Promise<string>)).toMatchObject({ code: "no_api_key" });
    }
    await write({ default: "7", keys: { 7: { ...record, key: "sk-other" } } });
    const credentials = first();
    expect(await failure(credentials.token() as Promise<string>)).toMatchObject({ code: "bad_api_key" });
    await write({ default: "7", keys: { 7: record } });
    expect(await credentials.token()).toBe("tml-stored"); // stored meanwhile
  });

  it("a file that cannot be used is named, and nothing of its content", async () => {
    const { file, write } = await home();
    const badKeys = [{ key: 5, name: "x" }, { key: "tml-secret" }, "tml-secret", null];
    const problems: (readonly [unknown, RegExp])[] = [
      ['{"keys": {"7": "tml-secret', /is not JSON\.$/],
      ["[]", /that this version reads\.$/],
      ["null", /that this version reads\.$/],
      [{ version: 2 }, /that this version reads\.$/],
      [{ keys: [] }, /that this version reads\.$/],
      ...badKeys.map((key) => [{ keys: { 6: record, 7: key } }, /that this version reads\.$/] as const),
    ];
    for (const [bad, message] of problems) {
      await write(bad);
      const error = await failure(first().token() as Promise<string>);
      expect([error.code, error.message], JSON.stringify(bad)).toEqual([
        "bad_credentials_file",
        expect.stringContaining(file),
      ]);
      expect(error.message).toMatch(message);
      expect(error["hint"]).toMatch(/TINKER_API_KEY.*auth login/);
      expect(`${error.message}${error["hint"]}${error.cause}`).not.toContain("secret");
      vi.stubEnv("TINKER_CREDENTIAL_CMD", "echo x");
      expect(await first().token()).toBe("x"); // is not looked for where there is a command
      vi.stubEnv("TINKER_CREDENTIAL_CMD", "");
    }
    await rm(file);
    await mkdir(file); // a folder in its place
    expect(await failure(first().token() as Promise<string>)).toMatchObject({
      code: "bad_credentials_file",
      message: `${file} cannot be read (EISDIR).`,
    });
  });

  it("a file that went away holds no keys, and a browser has no file", async () => {
    const { file, write } = await home();
    expect(readCredentials(file)).toEqual({ version: 1, keys: {} });
    expect(readCredentials(join(file, "below"))).toEqual({ version: 1, keys: {} });
    await write({ default: "7", keys: { 7: record } });
    expect(readCredentials(file)).toEqual({ version: 1, default: "7", keys: { 7: record } });
    expect(() => readCredentials(join(file, "below"))).not.toThrow(); // below a file
    // Without a pause in between: messages of the test runner to this process need the real one.
    vi.stubGlobal("process", { env: {} });
    try {
      expect(errorOf(() => first()).code).toBe("no_api_key");
    } finally {
      vi.unstubAllGlobals();
    }
  });
});

describe("where the credential comes from", () => {
  it("M-808: the option, else TINKER_API_KEY; TINKER_CREDENTIAL_CMD beside it", () => {
    vi.stubEnv("TINKER_API_KEY", "tml-env");
    vi.stubEnv("TINKER_CREDENTIAL_CMD", "echo x");
    expect(credentialSource({})).toEqual({ apiKey: "tml-env", command: "echo x" });
    expect(credentialSource({ apiKey: "tml-option" })).toEqual({ apiKey: "tml-option", command: "echo x" });
    vi.stubEnv("TINKER_API_KEY", "");
    vi.stubEnv("TINKER_CREDENTIAL_CMD", "");
    vi.stubEnv("HOME", "/nowhere");
    expect(credentialSource({})).toEqual({ apiKey: undefined, command: undefined });
  });

  it("a missing key says what to set, and that local needs none", () => {
    const error = errorOf(() => firstCredentials(source()));
    expect([error.code, error.message]).toEqual(["no_api_key", "No API key is set."]);
    expect(error.hint).toMatch(/TINKER_API_KEY.*tml-.*ServiceClient\.local/);
  });

  it("M-805: a wrong key is described without being shown", () => {
    const error = errorOf(() => firstCredentials(source("sk-verysecret")));
    expect(error.code).toBe("bad_api_key");
    expect(error.message).toContain("13 characters");
    expect(`${error.message}${error.hint}`).not.toContain("verysecret");
    expect(error.hint).toContain("the key of another service");
  });

  it("quotes and blanks around a key are recognised", () => {
    for (const key of ['"tml-x"', "'tml-x'", " tml-x"]) {
      expect(errorOf(() => firstCredentials(source(key))).hint, key).toContain("quotes or spaces");
    }
    expect(errorOf(() => firstCredentials(source(" other "))).hint).not.toContain("quotes");
  });

  it("keys and tokens are used as they are, without a promise", () => {
    expect(firstCredentials(source("tml-a")).token()).toBe("tml-a");
    expect(firstCredentials(source("eyJ.a.b")).token()).toBe("eyJ.a.b");
    expect(firstCredentials(source("tml-a", "exit 1")).token()).toBe("tml-a");
  });

  it("M-808: a command's output is the credential; its exit code and standard error say nothing", async () => {
    const credentials = firstCredentials(source(undefined, 'echo "  tml-$$ "; echo noise >&2; exit 3'));
    expect(await credentials.token()).toMatch(/^tml-\d+$/);
    expect(await firstCredentials(source("not-a-key", "echo tml-cmd")).token()).toBe("tml-cmd");
  });

  it("a command is run once for all requests of a minute, and of half its token's life", async () => {
    const clock = new FakeClock();
    const folder = await mkdtemp(join(tmpdir(), "tinklet-command-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const runs = async () => (await readFile(join(folder, "runs"), "utf8")).length;
    /** Counts its runs, and prints what the file `next` holds. */
    const command = `cd ${JSON.stringify(folder)} && printf x >> runs && cat next`;
    const next = (credential: string) => writeFile(join(folder, "next"), credential);
    const credentials = firstCredentials(source(undefined, command), clock);
    const token = async () => credentials.token();
    await next("tml-first");
    expect(new Set(await Promise.all(Array.from({ length: 33 }, token)))).toEqual(new Set(["tml-first"]));
    await clock.advance(59_999);
    expect([await token(), await runs()]).toEqual(["tml-first", 1]);
    const jwt = stubToken(clock.now() / 1000 + 20);
    await next(jwt);
    await clock.advance(1);
    expect([await token(), await runs()]).toEqual([jwt, 2]);
    await next("tml-third");
    await clock.advance(9_999);
    expect([await token(), await runs()]).toEqual([jwt, 2]);
    await clock.advance(1);
    expect([await token(), await runs()]).toEqual(["tml-third", 3]);
    await next("");
    await clock.advance(60_000);
    expect(await failure(token())).toMatchObject({ code: "credential_command" });
    await next("tml-fifth"); // a failure is not kept
    expect(await token()).toBe("tml-fifth");
  });

  it("a command that does not end is ended after a minute", async () => {
    const clock = new FakeClock();
    const asked = failure(Promise.resolve(firstCredentials(source(undefined, "exec sleep 600"), clock).token()));
    while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve)); // the code is loaded
    await clock.advance(60_000);
    expect(await asked).toMatchObject({
      code: "credential_command",
      message: "TINKER_CREDENTIAL_CMD printed no credential within 60 s, and was ended.",
    });
    expect(clock.pending).toBe(0);
  });

  it("a command that prints nothing is an error with a hint", async () => {
    const error = await failure(Promise.resolve(firstCredentials(source(undefined, "true")).token()));
    expect(error).toMatchObject({
      code: "credential_command",
      message: "TINKER_CREDENTIAL_CMD printed no credential.",
      hint: expect.stringContaining("must print the key or token on standard output"),
    });
  });

  it("what is exchanged: a token as it is, else what the server prefers, else the key, else the command", async () => {
    const byCommand = config({ credential_default_source: "credential_cmd" });
    expect(exchangeCredentials(source("eyJ.a.b", "echo c"), byCommand).token()).toBe("eyJ.a.b");
    expect(await exchangeCredentials(source("tml-a", "echo c"), byCommand).token()).toBe("c");
    expect(exchangeCredentials(source("tml-a"), byCommand).token()).toBe("tml-a");
    expect(exchangeCredentials(source("tml-a", "echo c"), config()).token()).toBe("tml-a");
    expect(await exchangeCredentials(source(undefined, "echo c"), config()).token()).toBe("c");
  });
});

describe("claims", () => {
  it("are read without verifying the signature, with and without padding, for all characters", () => {
    expect(tokenClaims(stubToken(5, { sub: "ü?>" }))).toMatchObject({ exp: 5, sub: "ü?>" });
    for (const bad of ["", "a", "a.", "a.b.c", "a.bnVsbA.c", "a.%%%.c"]) expect(tokenClaims(bad), bad).toBeUndefined();
  });

  it("are nothing in what is no token", () => {
    for (const text of [
      "",
      "tml-key",
      "a..c",
      "a.!!!.c",
      `a.${btoa("null")}.c`,
      `a.${btoa('"x"')}.c`,
      `a.${btoa("{")}.c`,
    ]) {
      expect(tokenClaims(text), text).toBeUndefined();
      expect(errorOf(() => whoamiOf(text)).code, text).toBe("whoami_unavailable");
    }
    expect(passportToken(source("eyJ.!!!.c"))).toBeUndefined();
  });

  it("are read in the letters of URLs", () => {
    const claims = { sub: "\u00fb\u00ff\u00bf?>~", exp: 1 }; // its base64 has both + and /
    const bytes = String.fromCharCode(...new TextEncoder().encode(JSON.stringify(claims)));
    const base64 = btoa(bytes);
    expect(base64).toMatch(/[+/]/);
    expect(tokenClaims(`a.${base64.replaceAll("+", "-").replaceAll("/", "_")}.c`)).toEqual(claims);
  });

  it("whoami: subject and e-mail, empty e-mail left out", () => {
    expect(whoamiOf(stubToken(5))).toEqual({ userUrn: "urn:user:1", email: "a@b.example" });
    expect(whoamiOf(stubToken(5, { email: "" }))).toEqual({ userUrn: "urn:user:1" });
    expect(whoamiOf(stubToken(5, { email: "", org_id: "9" }))).toEqual({
      userUrn: "urn:user:1",
      orgUrn: "tml:organization:9",
    });
    expect(whoamiOf(stubToken(5, { email: 7, org_id: 9 }))).toEqual({ userUrn: "urn:user:1" });
    expect(errorOf(() => whoamiOf(undefined))).toMatchObject({
      code: "whoami_unavailable",
      message: "The credential has no claims about its user.",
      hint: expect.stringContaining("an API key has no claims"),
    });
    expect(errorOf(() => whoamiOf(stubToken(5, { sub: 7 }))).code).toBe("whoami_unavailable");
  });

  it("a given token tells whose it is only if a passport issued it", () => {
    const passport = stubToken(5, { iss: "passport-1" });
    expect(passportToken(source(passport))).toBe(passport);
    expect(passportToken(source(stubToken(5, { iss: "other" })))).toBeUndefined();
    expect(passportToken(source(stubToken(5)))).toBeUndefined();
    expect(passportToken(source("tml-x"))).toBeUndefined();
    expect(passportToken(source())).toBeUndefined();
  });
});

describe("ExchangedToken", () => {
  function setup(lifetimeSec: number, initial?: string) {
    const clock = new FakeClock();
    const warnings: string[] = [];
    let exchanges = 0;
    let fails = false;
    const made = () => stubToken(clock.now() / 1000 + lifetimeSec, { n: exchanges });
    const token = new ExchangedToken({
      clock,
      warn: (message) => warnings.push(message),
      initial,
      exchange: async () => {
        exchanges++;
        await clock.sleep(10);
        if (fails) throw new Error("exchange down");
        return made();
      },
    });
    const start = async () => {
      const started = token.start();
      await clock.advance(10);
      await started;
    };
    return {
      clock,
      warnings,
      token,
      start,
      count: () => exchanges,
      fail: (on: boolean) => {
        fails = on;
      },
    };
  }
  const nOf = (token: string) => tokenClaims(token)?.["n"];

  it("exchanges once at the start, and refreshes five minutes before the end", async () => {
    const { clock, token, start, count } = setup(3600);
    await start();
    expect(count()).toBe(1);
    const first = token.token() as string;
    expect([nOf(first), token.current]).toEqual([1, first]);
    await clock.advance(3_300_000 - 1);
    expect(count()).toBe(1);
    await clock.advance(20);
    expect(count()).toBe(2);
    expect(nOf(token.token() as string)).toBe(2);
  });

  it("reads the claims of a token once, not for every request", async () => {
    const { token, start } = setup(3600);
    await start();
    const decode = vi.spyOn(globalThis, "atob");
    for (let i = 0; i < 100; i++) expect(token.token()).toBe(token.current);
    expect(decode).not.toHaveBeenCalled();
    decode.mockRestore();
  });

  it("a failed background refresh is tried again after a minute", async () => {
    const { clock, start, count, fail } = setup(3600);
    await start();
    fail(true);
    await clock.advance(3_300_020);
    expect(count()).toBe(2);
    await clock.advance(59_000);
    expect(count()).toBe(2);
    fail(false);
    await clock.advance(1_020);
    expect(count()).toBe(3);
  });

  it("refreshes on demand in the last minute; concurrent callers share one exchange", async () => {
    const { clock, token, start, count, fail } = setup(3600);
    await start();
    fail(true);
    await clock.advance(3_540_000 - 1000); // background refreshes fail; a bit more than a minute is left
    expect(typeof token.token()).toBe("string");
    await clock.advance(1000);
    fail(false);
    const before = count();
    const all = Promise.all([1, 2, 3, 4, 5].map(async () => token.token()));
    await clock.advance(10);
    expect(new Set(await all).size).toBe(1);
    expect(count()).toBe(before + 1);
  });

  it("uses the old token with a warning when a refresh fails", async () => {
    const { clock, token, start, warnings, fail } = setup(30);
    await start();
    const old = token.current;
    fail(true);
    const asked = token.token();
    await clock.advance(10);
    expect(await asked).toBe(old);
    expect(warnings[0]).toContain("exchange down");
  });

  it("has nothing to fall back on before the first exchange", async () => {
    const { clock, token, fail } = setup(30);
    fail(true);
    const asked = failure(Promise.resolve(token.token()));
    await clock.advance(10);
    expect((await asked).message).toBe("exchange down");
  });

  it("does not exchange a short-lived token without pause", async () => {
    const { clock, start, count } = setup(30);
    await start();
    await clock.advance(60_000);
    expect(count()).toBeLessThan(15);
    expect(count()).toBeGreaterThan(3);
  });

  it("refreshes a token it cannot read after a minute", async () => {
    const { clock, start, count } = setup(Number.NaN);
    await start();
    expect(count()).toBe(1);
    await clock.advance(60_020);
    expect(count()).toBe(2);
  });

  it("refreshes a token that is no token after a minute, too", async () => {
    const clock = new FakeClock();
    let exchanges = 0;
    const exchange = async () => `opaque-${++exchanges}`;
    const token = new ExchangedToken({ clock, warn: () => {}, exchange });
    await token.start();
    await clock.advance(59_999);
    expect(exchanges).toBe(1);
    await clock.advance(1);
    expect([exchanges, token.current]).toEqual([2, "opaque-2"]);
    token.close();
  });

  it("accepts a token of another process", async () => {
    const clock = new FakeClock();
    const given = stubToken(clock.now() / 1000 + 3600);
    const { token, start, count } = setup(3600, given);
    await start();
    expect([count(), token.token()]).toEqual([0, given]);
  });

  it("stops when closed, also in the middle of a refresh", async () => {
    const { clock, token, start } = setup(3600);
    await start();
    await clock.advance(3_300_000);
    token.close();
    await clock.advance(20);
    expect(clock.pending).toBe(0);
  });
});
