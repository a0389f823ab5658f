// A server that is attachable: its record, the proof, the options that must match, and what remains of a server that was killed.
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ServiceClient } from "@tinklet/sdk";
import { findRunningServer } from "@tinklet/sdk/environment";
import { challengeHeader, parseServerRecord, proofHeader, release } from "@tinklet/wire/running-server";
import { expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "./http/access/auth.ts";
import { recordedModels } from "./models.ts";
import { type ServeOptions, serve } from "./serve.ts";
import { programName, proofOf } from "./store/server-record.ts";
import { openStore } from "./store/store.ts";
import { fakeEngine } from "./testing/fake-engine.ts";
import { baseModel } from "./testing/test-server.ts";

async function folder(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-attach-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

async function start(options: Partial<ServeOptions> = {}) {
  const dataDir = options.dataDir ?? (await folder());
  const models = [{ name: baseModel, open: async () => fakeEngine() }];
  const server = await serve({
    ...{ models, port: 0, log: "off", dataDir },
    attachable: { modelNames: [`${baseModel}=${dataDir}`] },
    ...options,
  });
  onTestFinished(() => server.close());
  return { server, dataDir };
}

const recordOf = async (dataDir: string) => parseServerRecord(await readFile(join(dataDir, "server.json"), "utf8"));

test("ServiceClient.local() uses the server that serves the data folder, and does not close it", async () => {
  const { server, dataDir } = await start();
  for (const strict of [undefined, false]) {
    const service = await ServiceClient.local({ dataDir, strict, telemetry: false });
    expect(service.baseUrl).toBe(server.url);
    const { supportedModels } = await service.getServerCapabilities();
    expect(supportedModels.map(({ modelName }) => modelName)).toEqual([baseModel]);
    await service.close();
  }
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

test("the record is readable by its owner only, and is removed when the server stops", async () => {
  const { server, dataDir } = await start();
  expect((await stat(join(dataDir, "server.json"))).mode & 0o777).toBe(0o600);
  expect(await recordOf(dataDir)).toMatchObject({
    pid: process.pid,
    release,
    attach: { url: server.url, strict: false },
  });
  await server.close();
  expect((await readdir(dataDir)).filter((name) => name.startsWith("server.json"))).toEqual([]);
  expect(await findRunningServer(dataDir)).toBeUndefined();
});

test("with configured keys the secret is the key of the local tenant, and no other unknown key is accepted", async () => {
  const { server, dataDir } = await start({ apiKeys: [{ name: "ann", sha256: hashApiKey("tml-ann") }] });
  const found = await findRunningServer(dataDir);
  const status = (key: string) =>
    fetch(`${server.url}/api/v1/get_server_capabilities`, { headers: { "x-api-key": key } }).then(
      ({ status: code }) => code,
    );
  expect(await status(found?.apiKey ?? "")).toBe(200);
  expect(await status("tml-local")).toBe(401);
});

test.each<[string, Parameters<typeof findRunningServer>[1], RegExp]>([
  ["strict", { strict: true }, /its option strict is false, requested is true/],
  ["models", { models: ["Qwen/Qwen3-0.6B"] }, /its models are test\/model, requested is Qwen\/Qwen3-0\.6B/],
  [
    "a model's source",
    { models: [`${baseModel}=${tmpdir()}`] },
    /its models are test\/model, requested is test\/model=/,
  ],
])("%s that differ are refused by name", async (_, options, message) => {
  const { dataDir } = await start();
  await expect(findRunningServer(dataDir, options)).rejects.toMatchObject({
    code: "attach_mismatch",
    message: expect.stringMatching(message),
    hint: expect.stringContaining("(dataDir)"),
  });
});

test("the same model, by its name or with its source, matches", async () => {
  const { server, dataDir } = await start();
  for (const models of [undefined, [], [baseModel], [`${baseModel}=${dataDir}/.`]])
    expect(await findRunningServer(dataDir, { models })).toMatchObject({ url: server.url });
});

test("a server of another release is refused", async () => {
  const { dataDir } = await start();
  const record = await recordOf(dataDir);
  await writeFile(join(dataDir, "server.json"), JSON.stringify({ ...record, release: "0.0.9" }));
  await expect(findRunningServer(dataDir)).rejects.toMatchObject({
    message: expect.stringContaining(`its release is 0.0.9, this is ${release}`),
  });
});

test("a record of a killed server is ignored, and the next server replaces it", async () => {
  const { server, dataDir } = await start();
  const left = await readFile(join(dataDir, "server.json"), "utf8");
  const { url } = server;
  await server.close();
  await writeFile(join(dataDir, "server.json"), left, { mode: 0o600 });
  expect(await findRunningServer(dataDir)).toBeUndefined();
  // Another server has the port now: it cannot prove the secret, so it does not receive the key.
  const keys: (string | null)[] = [];
  const other = async (input: string | URL | Request, init?: RequestInit) => {
    const headers = new Headers(init?.headers);
    keys.push(headers.get("x-api-key"), headers.get("authorization"));
    expect(String(input)).toBe(`${url}/healthz`);
    return new Response("{}", {
      headers: { [proofHeader]: proofOf("tml-local-other", headers.get(challengeHeader) ?? "") },
    });
  };
  expect(await findRunningServer(dataDir, {}, { fetch: other as typeof fetch })).toBeUndefined();
  expect(keys).toEqual([null, null]);
  const { server: next } = await start({ dataDir });
  expect(await findRunningServer(dataDir)).toMatchObject({ url: next.url });
});

test.each(["", "{", "null", "[]", '{"pid":1}', '{"pid":1,"program":"x","release":"y","attach":{"url":"http://x"}}'])(
  "a damaged record is ignored: %s",
  async (text) => {
    const dataDir = await folder();
    await writeFile(join(dataDir, "server.json"), text, { mode: 0o600 });
    expect(await findRunningServer(dataDir)).toBeUndefined();
    await (await openStore({ dataDir })).close();
  },
);

test.runIf(process.platform !== "win32")("a record that other users can read is ignored", async () => {
  const { dataDir } = await start();
  await chmod(join(dataDir, "server.json"), 0o644);
  expect(await findRunningServer(dataDir)).toBeUndefined();
});

test("a server inside a program is not attachable; a second program gets an error with the process id", async () => {
  const { dataDir } = await start({ attachable: undefined });
  expect(await findRunningServer(dataDir)).toBeUndefined();
  const locked = await openStore({ dataDir }).catch((error: Error) => error);
  expect(locked).toMatchObject({
    code: "locked",
    what: expect.stringMatching(new RegExp(`: .+ \\(process ${process.pid}\\) uses the data folder\\.$`)),
    hint: expect.stringMatching(/^Wait until it ends, or stop it\. .*`tinklet serve` first.*--data-dir/),
  });
  expect(Object.keys(locked)).not.toContain("hint"); // Node would print it a second time
});

test("a second server on the folder of tinklet serve names its address", async () => {
  const { server, dataDir } = await start();
  await expect(openStore({ dataDir })).rejects.toMatchObject({
    what: expect.stringContaining(`tinklet serve (process ${process.pid}) uses the data folder, at ${server.url}.`),
    hint: expect.stringContaining(`TINKER_BASE_URL=${server.url}`),
  });
});

test("a challenge that is too long gets no proof", async () => {
  const { server } = await start();
  const ask = (length: number) =>
    fetch(`${server.url}/healthz`, { headers: { [challengeHeader]: "x".repeat(length) } });
  expect((await ask(128)).headers.has(proofHeader)).toBe(true);
  expect((await ask(129)).headers.has(proofHeader)).toBe(false);
});

test("a program is named without its arguments, except the command of the command line", () => {
  expect(programName(["node", "/x/bin/tinklet.mjs", "train", "data.jsonl"])).toBe("tinklet train");
  expect(programName(["node", "/x/bin/tinklet", "--api-key", "tml-secret"])).toBe("tinklet");
  expect(programName(["node", "/x/mine.mjs", "secret"])).toBe("mine.mjs");
  expect(programName(["node"])).toBe("a program");
});

test("the release is that of the packages, and models without names are the bundled one", async () => {
  const manifest = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  expect(release).toBe(manifest.version);
  expect(recordedModels([]).map(({ name }) => name)).toEqual(["tinklet/base"]);
});
