/** Downloads of tokenizers: of a folder, a GGUF file and a Hub model, without a network and without access to the server's disk. */
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "@tinklet/models";
import { ServiceClient } from "@tinklet/sdk";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeTinyFolder } from "../../../../../test/fixtures/models/tiny-folder.ts";
import { tinyGguf } from "../../../../../test/fixtures/models/tiny-models.ts";
import { createLocalServer, type LocalServer } from "../../local.ts";

const bundled = fileURLToPath(new URL("../../../../base-model/", import.meta.url));
const commit = "0123456789abcdef0123456789abcdef01234567";
let root: string;
let server: LocalServer;
let folder: string;
let tokenizerFolder: string;

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "tinklet-tokenizer-"));
  folder = join(root, "folder");
  await writeTinyFolder(folder);
  // The Hub's cache after one download of a model.
  const repository = join(root, "hub", "models--org--tiny");
  mkdirSync(join(repository, "refs"), { recursive: true });
  writeFileSync(join(repository, "refs", "main"), commit);
  tokenizerFolder = join(repository, "snapshots", commit);
  cpSync(folder, tokenizerFolder, { recursive: true });
  vi.stubEnv("HF_HOME", root);
  vi.stubEnv("HF_HUB_OFFLINE", "1");
  vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:1"); // nothing may reach the real Hub
  server = await createLocalServer({
    models: [folder, `quantized=${tinyGguf}`, "org/tiny"],
    engine: { inThread: true, threads: 1, runtime: "wasm" },
  });
});
afterAll(async () => {
  await server.close();
  vi.unstubAllEnvs();
  rmSync(root, { recursive: true, force: true });
});

const connect = () => ServiceClient.connect({ apiKey: "tml-x", baseUrl: server.url, fetch: server.fetch });
const text = "hello there";

describe("getTokenizer", () => {
  it.each([
    ["a folder", () => folder, () => folder],
    ["a GGUF file", () => "quantized", () => tinyGguf],
    ["a Hub model", () => "org/tiny", () => tokenizerFolder],
  ])("of a sampler and of a trainer over %s", async (_, name, source) => {
    const own = await loadTokenizer(source());
    await using service = await connect();
    const sampler = await service.createSamplingClient({ baseModel: name() });
    const trainer = await service.createLoraTrainingClient({ baseModel: name(), rank: 2 });
    for (const tokenizer of [
      await sampler.getTokenizer(),
      await trainer.getTokenizer(),
      await service.getTokenizer(name()),
    ]) {
      expect(tokenizer.encode(text)).toEqual(own.encode(text));
      expect(tokenizer.eosTokenIds).toEqual(own.eosTokenIds);
      expect(tokenizer.hasChatTemplate).toBe(own.hasChatTemplate);
    }
  });

  it("asks a server once for each model", async () => {
    const asked: string[] = [];
    const fetch = (input: string | URL | Request, init?: RequestInit) => {
      asked.push(new URL(input instanceof Request ? input.url : input).pathname);
      return server.fetch(input, init);
    };
    await using service = await ServiceClient.connect({ apiKey: "tml-x", baseUrl: server.url, fetch });
    const first = await service.getTokenizer("quantized");
    expect(await service.getTokenizer("quantized")).toBe(first);
    expect(asked.filter((path) => path.endsWith("/tinklet/tokenizer"))).toHaveLength(1);
  });

  it("does not ask a server that does not announce the extension", async () => {
    const asked: string[] = [];
    const fetch = async (input: string | URL | Request, init?: RequestInit) => {
      const { pathname } = new URL(input instanceof Request ? input.url : input);
      asked.push(pathname);
      const answer = await server.fetch(input, init);
      if (!pathname.endsWith("/client/config")) return answer;
      const { tinklet_extensions: _, ...official } = (await answer.json()) as Record<string, unknown>;
      return Response.json(official);
    };
    await using service = await ServiceClient.connect({ apiKey: "tml-x", baseUrl: server.url, fetch });
    expect((await service.getTokenizer("org/tiny")).encode(text).length).toBeGreaterThan(0); // from the Hub's cache
    await expect(service.getTokenizer("quantized")).rejects.toThrow(
      expect.objectContaining({ code: "tokenizer_not_found" }),
    );
    expect(asked.filter((path) => path.includes("/tinklet/"))).toEqual([]);
  });
});

describe("the route", () => {
  const ask = async (model: string) => {
    const url = `${server.url}/api/v1/tinklet/tokenizer?model=${encodeURIComponent(model)}`;
    const answer = await server.fetch(url, { headers: { "x-api-key": "tml-x" } });
    return {
      status: answer.status,
      body: (await answer.json()) as { files?: Record<string, string>; detail?: string },
    };
  };
  it("lists only existing files", async () => {
    const { status, body } = await ask("quantized");
    expect(status).toBe(200);
    expect(Object.keys(body.files ?? {}).sort()).toEqual([
      "generation_config.json",
      "tokenizer.json",
      "tokenizer_config.json",
    ]);
  });
  it("a model that is not served is not found, also if it is on the server's disk", async () => {
    expect((await ask(bundled)).status).toBe(404);
    expect((await ask("../etc")).status).toBe(404);
  });
});
