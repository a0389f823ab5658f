import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { serve, startFakeHub } from "../../../models/src/testing/fake-hub.ts";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { loadTokenizer, tokenizerForModel } from "./load.ts";

const commit = "a".repeat(40); // the fake Hub's
const repository = "models--org--tiny";
let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "tinklet-hub-"));
  vi.stubEnv("HF_HOME", home);
  for (const name of ["HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_HUB_OFFLINE"]) vi.stubEnv(name, undefined);
  vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:1"); // nothing may reach the real Hub
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(home, { recursive: true, force: true });
});

/** Puts files where `huggingface_hub` would have. */
async function fillCache(files: Readonly<Record<string, string | undefined>>, root = join(home, "hub")): Promise<void> {
  const write = async (path: string, text: string) => {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  };
  await write(join(root, repository, "refs", "main"), commit);
  for (const [file, text] of Object.entries(files)) {
    if (text !== undefined) await write(join(root, repository, "snapshots", commit, file), text);
  }
}
const code = (expected: string) => expect.objectContaining({ name: "TokenizerError", code: expected });

describe("M-606 from a folder", () => {
  test("reads what is there", async () => {
    for (const [file, text] of Object.entries(tinyTokenizer)) await writeFile(join(home, file), text as string);
    const tokenizer = await loadTokenizer(home);
    expect(tokenizer.encode("hello", { addSpecialTokens: false })).toEqual([259]);
    expect(tokenizer.hasChatTemplate).toBe(true);
  });
  test("says that a folder has no tokenizer", async () => {
    await expect(loadTokenizer(home)).rejects.toThrow(code("tokenizer_not_found"));
  });
  test.each(["./no/such/folder", "a/b/c", "../up", "org/..", ""])(
    "refuses %j, which is neither folder nor name",
    async (id) => {
      await expect(loadTokenizer(id)).rejects.toThrow(code("tokenizer_not_found"));
    },
  );
});

describe("M-606 from the cache", () => {
  test("needs no network when everything is known", async () => {
    await fillCache({ ...tinyTokenizer, "chat_template.jinja": "x" });
    expect((await loadTokenizer("org/tiny")).vocabSize).toBe(269);
  });
  test("M-808 HF_HUB_OFFLINE sends no request, even for files that may exist", async () => {
    await using hub = await startFakeHub(tinyTokenizer, "org/tiny");
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    await expect(loadTokenizer("org/tiny")).rejects.toThrow(code("tokenizer_not_found"));
    await fillCache({ "tokenizer.json": tinyTokenizer["tokenizer.json"] });
    expect((await loadTokenizer("org/tiny")).hasChatTemplate).toBe(false);
    expect(hub.requests).toEqual([]);
  });
  test("an unreachable Hub does not matter when tokenizer.json is there", async () => {
    await fillCache({ "tokenizer.json": tinyTokenizer["tokenizer.json"] });
    expect((await loadTokenizer("org/tiny")).vocabSize).toBe(269);
  });
  test("M-808 HF_HUB_CACHE and cacheDir name another place", async () => {
    vi.stubEnv("HF_HUB_OFFLINE", "true");
    await fillCache(tinyTokenizer, join(home, "elsewhere"));
    await expect(loadTokenizer("org/tiny")).rejects.toThrow(code("tokenizer_not_found"));
    expect((await loadTokenizer("org/tiny", { cacheDir: join(home, "elsewhere") })).vocabSize).toBe(269);
    vi.stubEnv("HF_HUB_CACHE", join(home, "elsewhere"));
    expect((await loadTokenizer("org/tiny")).vocabSize).toBe(269);
  });
});

describe("M-606 from the Hub", () => {
  test("M-808 HF_ENDPOINT: fetched once, in one commit, into a cache that Python can read", async () => {
    await using hub = await startFakeHub(tinyTokenizer, "org/tiny");
    vi.stubEnv("HF_ENDPOINT", `${hub.url}/`);
    const tokenizer = await loadTokenizer("org/tiny");
    expect(tokenizer.eosTokenIds).toEqual([267, 268]);
    const paths = hub.requests.map((request) => request.path);
    expect(paths[0]).toBe("/org/tiny/resolve/main/tokenizer.json");
    expect(paths.slice(1).sort()).toEqual(
      ["chat_template.jinja", "generation_config.json", "tokenizer_config.json"].map(
        (file) => `/org/tiny/resolve/${commit}/${file}`,
      ),
    );
    const root = join(home, "hub", repository);
    expect(await readFile(join(root, "refs", "main"), "utf8")).toBe(commit);
    expect((await readdir(join(root, "snapshots", commit))).sort()).toEqual(Object.keys(tinyTokenizer).sort());
    expect(await readdir(join(root, ".no_exist", commit))).toEqual(["chat_template.jinja"]);

    await loadTokenizer("org/tiny");
    expect(hub.requests).toHaveLength(4);
  });
  test("a revision is asked for as it is", async () => {
    await using hub = await startFakeHub(tinyTokenizer, "org/tiny");
    vi.stubEnv("HF_ENDPOINT", hub.url);
    await loadTokenizer("org/tiny", { revision: "refs/pr/1" });
    expect(hub.requests[0]?.path).toBe("/org/tiny/resolve/refs%2Fpr%2F1/tokenizer.json");
  });
  test("M-808 HF_TOKEN goes to the Hub, and not where it redirects to", async () => {
    await using storage = await serve((_, response) => response.end(tinyTokenizer["tokenizer.json"]));
    await using hub = await serve((request, response) => {
      if (!request.url?.endsWith("/tokenizer.json")) return void response.writeHead(404).end();
      response.writeHead(302, { location: `${storage.url}/blob`, "x-repo-commit": commit }).end();
    });
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_TOKEN", "hf_secret");
    await loadTokenizer("org/tiny");
    expect(hub.requests.every((request) => request.authorization === "Bearer hf_secret")).toBe(true);
    expect(storage.requests).toEqual([{ path: "/blob", authorization: undefined }]);
    expect(await readdir(join(home, "hub", repository, "snapshots", commit))).toEqual(["tokenizer.json"]);
  });
  test("the token of a login is used, too", async () => {
    await using hub = await startFakeHub(tinyTokenizer, "org/tiny");
    vi.stubEnv("HF_ENDPOINT", hub.url);
    await writeFile(join(home, "token"), "hf_login\n");
    await loadTokenizer("org/tiny");
    expect(hub.requests[0]?.authorization).toBe("Bearer hf_login");
  });
  test("a mirror that names no commit is used without a cache", async () => {
    await using hub = await serve((request, response) => {
      const text = tinyTokenizer[request.url?.split("/").at(-1) as "tokenizer.json"];
      response.writeHead(text === undefined ? 404 : 200).end(text);
    });
    vi.stubEnv("HF_ENDPOINT", hub.url);
    expect((await loadTokenizer("org/tiny")).hasChatTemplate).toBe(true);
    expect(await readdir(home)).toEqual([]);
  });
  test.each([
    [401, {}, "tokenizer_access", /HF_TOKEN/],
    [403, {}, "tokenizer_access", /gated/],
    [404, { "x-error-code": "RepoNotFound" }, "tokenizer_not_found", /^undefined$/],
    [404, {}, "tokenizer_not_found", /tokenizer\.json/],
    [503, {}, "tokenizer_network", /^undefined$/],
  ])("a refusal of %i %j is %s", async (status, headers, expected, hint) => {
    await using hub = await serve((_, response) => response.writeHead(status, headers).end());
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_TOKEN", "hf_secret");
    const error = await loadTokenizer("org/tiny").catch((caught: unknown) => caught);
    expect(error).toEqual(code(expected));
    expect(String((error as { hint?: string }).hint)).toMatch(hint);
    expect(`${error}`).not.toContain("hf_secret");
  });
  test("redirects in a circle end", async () => {
    await using hub = await serve((request, response) =>
      response.writeHead(302, { location: request.url ?? "/" }).end(),
    );
    vi.stubEnv("HF_ENDPOINT", hub.url);
    await expect(loadTokenizer("org/tiny")).rejects.toThrow(code("tokenizer_network"));
  });
  test("an unreachable Hub is named with what to do", async () => {
    const error = await loadTokenizer("org/tiny").catch((caught: unknown) => caught);
    expect(error).toEqual(code("tokenizer_network"));
    expect((error as Error).message).toContain("http://127.0.0.1:1");
  });
  test("an abort is thrown as it is", async () => {
    const reason = new Error("enough");
    await expect(loadTokenizer("org/tiny", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

describe("M-606 tokenizerForModel", () => {
  test("resolves the name, loads once, and forgets failures", async () => {
    const model = { modelName: "org/tiny/variant:8" };
    await expect(tokenizerForModel(model, { cacheDir: home })).rejects.toThrow(code("tokenizer_network"));
    await using hub = await startFakeHub(tinyTokenizer, "org/tiny");
    vi.stubEnv("HF_ENDPOINT", hub.url);
    const [first, second] = await Promise.all([
      tokenizerForModel(model, { cacheDir: home }),
      tokenizerForModel({ modelName: "x", tokenizerId: "org/tiny" }, { cacheDir: home }),
    ]);
    expect(first).toBe(second);
    expect(hub.requests).toHaveLength(4);
  });
});
