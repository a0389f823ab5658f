import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { tinyGguf, writeTinyModel, writeTinyShards } from "../../../../test/fixtures/models/tiny-models.ts";
import { loadTokenizer } from "../load-tokenizer.ts";
import { type FakeHub, startFakeHub } from "../testing/fake-hub.ts";
import { tinyTokenizer } from "../testing/tiny-tokenizer.ts";
import { openModel } from "../weights/open-model.ts";
import type { DownloadProgress, OpenModelOptions } from "../weights/types.ts";
import { fetchModel } from "./fetch-model.ts";
import { HubError } from "./hub-error.ts";
import { parseHubId } from "./hub-id.ts";
import { hubSettings } from "./hub-settings.ts";

let folder: string;
let hub: FakeHub;
let cacheDir: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "hub-"));
  cacheDir = join(folder, "cache");
  writeTinyModel(join(folder, "model"));
  const file = (name: string) => readFileSync(join(folder, "model", name));
  hub = await startFakeHub({
    "README.md": "not needed",
    "config.json": file("config.json"),
    "model.safetensors": file("model.safetensors"),
    "original/model.safetensors": "not needed",
  });
  vi.stubEnv("HF_ENDPOINT", hub.url);
  vi.stubEnv("HF_TOKEN", "");
  vi.stubEnv("HF_HOME", join(folder, "home")); // keeps the developer's own token out of the test
  vi.stubEnv("HF_HUB_OFFLINE", "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const waits: number[] = [];
const id = { owner: "org", name: "name", revision: "main" };
const get = (options: OpenModelOptions = {}) => {
  waits.length = 0;
  return fetchModel(id, { cacheDir, ...options }, { sleep: async (ms) => void waits.push(ms) });
};
const blobs = () => readdirSync(join(cacheDir, "models--org--name", "blobs"));
const unfinished = () => blobs().filter((name) => name.endsWith(".incomplete"));
/** Breaks the connection `bytes` after `start`, once all of them were written to the cache. */
const breakAfter = (bytes: number, start: number) => {
  const hasArrived = () =>
    unfinished().some((name) => statSync(join(cacheDir, "models--org--name", "blobs", name)).size === start + bytes);
  return { breakAfter: bytes, hasArrived };
};
const weightsBytes = () => hub.files.get("model.safetensors") as Buffer;
const storageRequests = () => hub.log.filter((line) => line.startsWith("storage GET"));

describe("first download", () => {
  test("uses the cache layout of huggingface_hub, and the model opens", async () => {
    const snapshot = await get();
    const root = join(cacheDir, "models--org--name");
    expect(snapshot).toBe(join(root, "snapshots", hub.commit));
    expect(readdirSync(snapshot).sort()).toEqual(["config.json", "model.safetensors"]);
    expect(lstatSync(join(snapshot, "model.safetensors")).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(root, "refs", "main"), "utf8")).toBe(hub.commit);
    expect(
      blobs()
        .map((name) => name.length)
        .sort(),
    ).toEqual([40, 64]); // a git id and a sha256
    const model = await openModel("org/name", { cacheDir });
    expect(model.weights.tensors.size).toBe(24);
    model.close();
  });

  test("reports progress per file up to its full size", async () => {
    const seen: DownloadProgress[] = [];
    await get({ onProgress: (progress) => seen.push(progress) });
    const last = seen.at(-1) as DownloadProgress;
    const size = weightsBytes().length;
    expect(last).toEqual({ file: "model.safetensors", receivedBytes: size, totalBytes: size });
    expect(seen[0]).toMatchObject({ file: "config.json", receivedBytes: 0 });
  });

  test("shards: all files that the index lists", async () => {
    writeTinyShards(join(folder, "model"));
    hub.files.delete("model.safetensors");
    for (const name of readdirSync(join(folder, "model")).filter((file) => /-of-|index/.test(file))) {
      hub.files.set(name, readFileSync(join(folder, "model", name)));
    }
    (await openModel("org/name", { cacheDir })).close();
    (await openModel("org/name", { cacheDir, offline: true })).close();
  });

  test("GGUF: the only file, or the named file", async () => {
    hub.files.clear();
    hub.files.set("a.gguf", readFileSync(tinyGguf));
    (await openModel("org/name", { cacheDir })).close();
    hub.files.set("b.gguf", readFileSync(tinyGguf));
    await expect(get()).rejects.toMatchObject({ code: "not_found", hint: expect.stringContaining("org/name:a.gguf") });
    (await openModel("org/name:b.gguf", { cacheDir })).close();
    (await openModel("org/name:b.gguf", { cacheDir, offline: true })).close();
    await expect(openModel("org/name:c.gguf", { cacheDir })).rejects.toMatchObject({ code: "not_found" });
  });

  test("redirects of a renamed repository are followed", async () => {
    const renamed = fetchModel({ ...id, name: "old-name" }, { cacheDir });
    await expect(renamed).rejects.toMatchObject({ code: "not_found" }); // the listing is found; the fake has no files under the old name
    expect(hub.log).toContain("hub GET /api/models/org/name/revision/main");
  });
});

describe("second download", () => {
  test("requests the listing and the checksums, and downloads no file", async () => {
    await get();
    hub.log.length = 0;
    await get();
    expect(hub.log.filter((line) => line.includes(" GET "))).toEqual(["hub GET /api/models/org/name/revision/main"]);
  });

  test("a commit is immutable: no request is sent", async () => {
    await get();
    hub.log.length = 0;
    (await openModel(`org/name@${hub.commit}`, { cacheDir })).close();
    expect(hub.log).toEqual([]);
  });

  test("a new version of a file is downloaded, the other files are kept", async () => {
    const first = await get();
    (hub as { commit: string }).commit = "b".repeat(40);
    hub.files.set("config.json", Buffer.concat([hub.files.get("config.json") as Buffer, Buffer.from(" ")]));
    hub.log.length = 0;
    const second = await get();
    expect(second).not.toBe(first);
    expect(storageRequests()).toEqual([]);
    expect(existsSync(join(first, "config.json"))).toBe(true);
  });
});

describe("broken connections", () => {
  test("the download resumes where it stopped, and the whole file is verified", async () => {
    let breaks = 3;
    hub.fault = (file, start) => (file === "model.safetensors" && breaks-- > 0 ? breakAfter(4000, start) : undefined);
    const snapshot = await get();
    expect(readFileSync(join(snapshot, "model.safetensors"))).toEqual(weightsBytes());
    const requests = storageRequests();
    const ranges = requests.map((line) => /bytes=\S+/.exec(line)?.[0]);
    expect(ranges).toEqual([undefined, "bytes=4000-", "bytes=8000-", "bytes=12000-"]);
    expect(waits).toEqual([500, 500, 500]); // each attempt got further, so the back-off is reset
    expect(unfinished()).toEqual([]);
  });

  test("the download fails after several attempts, and the next one resumes it", async () => {
    hub.fault = (file, start) => {
      if (file !== "model.safetensors") return undefined;
      return start === 0 ? breakAfter(5000, start) : { status: 503 };
    };
    await expect(get()).rejects.toMatchObject({ code: "http_status", status: 503 });
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000]);
    expect(unfinished()).toHaveLength(1);
    hub.fault = undefined;
    hub.log.length = 0;
    const snapshot = await get();
    expect(storageRequests()[0]).toContain("bytes=5000-");
    expect(readFileSync(join(snapshot, "model.safetensors"))).toEqual(weightsBytes());
  });

  test("without range support the download starts over", async () => {
    let first = true;
    hub.fault = (file, start) => {
      if (file !== "model.safetensors") return undefined;
      const fault = first ? breakAfter(5000, start) : { ignoreRange: true as const };
      first = false;
      return fault;
    };
    const snapshot = await get();
    expect(readFileSync(join(snapshot, "model.safetensors"))).toEqual(weightsBytes());
  });

  test("an abort rejects with its reason", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    hub.fault = (file) => {
      if (file === "model.safetensors") controller.abort(reason);
      return undefined;
    };
    await expect(get({ signal: controller.signal })).rejects.toBe(reason);
    await expect(openModel("org/name", { cacheDir, signal: controller.signal })).rejects.toBe(reason);
  });
});

describe("invalid content", () => {
  test.each(["model.safetensors", "config.json"])("%s with a wrong checksum is rejected and deleted", async (name) => {
    hub.fault = (file) => (file === name ? { corrupt: true } : undefined);
    await expect(get()).rejects.toMatchObject({ code: "corrupt_download", message: expect.stringContaining(name) });
    expect(unfinished()).toEqual([]);
    hub.fault = undefined;
    (await openModel("org/name", { cacheDir })).close();
  });

  test("a corrupt partial file of an earlier attempt is detected", async () => {
    hub.fault = (file, start) => {
      if (file !== "model.safetensors") return undefined;
      return start === 0 ? breakAfter(5000, start) : { status: 404 };
    };
    await expect(get()).rejects.toBeInstanceOf(HubError);
    const [left] = unfinished() as [string];
    const path = join(cacheDir, "models--org--name", "blobs", left);
    const bytes = readFileSync(path);
    bytes[100] = (bytes[100] as number) ^ 1;
    writeFileSync(path, bytes);
    hub.fault = undefined;
    await expect(get()).rejects.toMatchObject({ code: "corrupt_download" });
    await get();
  });

  test("a malformed listing", async () => {
    (hub as { commit: string }).commit = "../../etc";
    await expect(get()).rejects.toMatchObject({ code: "bad_response" });
  });

  test("an index with paths outside the repository downloads nothing outside it", async () => {
    hub.files.delete("model.safetensors");
    hub.files.set("model.safetensors.index.json", Buffer.from('{"weight_map":{"a":"../../../x.safetensors"}}'));
    await expect(get()).rejects.toMatchObject({ code: "bad_index" });
  });
});

describe("offline", () => {
  test("a complete model opens without a request; an incomplete one is an error with a hint", async () => {
    await expect(get({ offline: true })).rejects.toMatchObject({
      code: "offline",
      hint: expect.stringContaining("HF_HUB_OFFLINE"),
    });
    expect(hub.log).toEqual([]);
    const snapshot = await get();
    hub.log.length = 0;
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    (await openModel("org/name", { cacheDir })).close();
    expect(hub.log).toEqual([]);
    rmSync(join(snapshot, "model.safetensors"));
    await expect(openModel("org/name", { cacheDir })).rejects.toMatchObject({ code: "offline" });
  });

  test("if the Hub is unreachable, a complete model in the cache is used", async () => {
    const snapshot = await get();
    await hub[Symbol.asyncDispose]();
    expect(await get()).toBe(snapshot);
    rmSync(cacheDir, { recursive: true });
    await expect(get()).rejects.toMatchObject({ code: "network" });
  });
});

describe("access", () => {
  test("the token is sent to the Hub and not to its storage host", async () => {
    hub.requiredToken = "hf_secret";
    await expect(get()).rejects.toMatchObject({ code: "unauthorized", status: 401 });
    vi.stubEnv("HF_TOKEN", "hf_secret");
    await get();
    expect(hub.log.filter((line) => line.startsWith("storage")).some((line) => line.includes("with token"))).toBe(
      false,
    );
  });

  test("errors contain neither token nor signature", async () => {
    vi.stubEnv("HF_TOKEN", "hf_secret");
    hub.fault = () => ({ status: 404 });
    const error = (await get().catch((caught) => caught)) as HubError;
    expect(error).toBeInstanceOf(HubError);
    expect(`${error.message} ${error.hint} ${JSON.stringify(error)}`).not.toMatch(/secret/);
  });

  test("a model that does not exist", async () => {
    const mistyped = openModel("modles/mine", { cacheDir });
    await expect(mistyped).rejects.toMatchObject({ code: "not_found", status: 404 });
    await expect(mistyped).rejects.toThrow(
      "there is no file or folder modles/mine, and the Hub has no modles/mine at main",
    );
    await expect(fetchModel({ ...id, name: "other" }, { cacheDir })).rejects.toMatchObject({ code: "not_found" });
    await expect(fetchModel({ ...id, revision: "dev" }, { cacheDir })).rejects.toMatchObject({ code: "not_found" });
    hub.files.delete("model.safetensors");
    await expect(get()).rejects.toMatchObject({ code: "not_found" });
  });
});

test("concurrent downloads do not interfere", async () => {
  const [first, second] = await Promise.all([get(), get()]);
  expect(first).toBe(second);
  (await openModel("org/name", { cacheDir, offline: true })).close();
  expect(unfinished()).toEqual([]);
});

describe("names and settings", () => {
  test("Hub ids", () => {
    expect(parseHubId("org/na.me-1")).toEqual({ owner: "org", name: "na.me-1", revision: "main" });
    expect(parseHubId("o/n@refs/pr/1")).toMatchObject({ revision: "refs/pr/1" });
    expect(parseHubId("o/n@v1:x-Q4_0.gguf")).toMatchObject({ revision: "v1", file: "x-Q4_0.gguf" });
    for (const text of ["a", "a/b/c", "/a/b", "../b", "a/..", "a/b@../c", "a/b:../c.gguf", "a/b:c.bin", "a b/c", ""]) {
      expect(parseHubId(text)).toBeUndefined();
    }
  });

  test("the environment variables of huggingface_hub", () => {
    expect(hubSettings({}, { HF_HOME: "/h", HF_TOKEN: " t ", HF_ENDPOINT: "http://m/", HF_HUB_OFFLINE: "ON" })).toEqual(
      {
        endpoint: "http://m",
        token: "t",
        cacheDir: join("/h", "hub"),
        offline: true,
      },
    );
    expect(hubSettings({}, { HF_HUB_CACHE: "/c", HF_HOME: "/h" })).toMatchObject({ cacheDir: "/c", offline: false });
    expect(hubSettings({ cacheDir: "/mine", offline: false }, { HF_HUB_OFFLINE: "1" })).toMatchObject({
      cacheDir: "/mine",
      offline: false,
    });
    expect(hubSettings({}, {}).cacheDir).toMatch(/huggingface.hub$/);
    expect(hubSettings({}, { TRANSFORMERS_OFFLINE: "1" }).offline).toBe(true);
  });

  test("the token of `hf auth login`, unless another one is set", async () => {
    const home = join(folder, "home");
    expect(hubSettings({}, { HF_HOME: home })).not.toHaveProperty("token");
    mkdirSync(home);
    writeFileSync(join(home, "token"), "hf_login\n");
    writeFileSync(join(home, "other"), "hf_other\n");
    expect(hubSettings({}, { HF_HOME: home }).token).toBe("hf_login");
    expect(hubSettings({}, { HF_HOME: home, HF_TOKEN_PATH: join(home, "other") }).token).toBe("hf_other");
    expect(hubSettings({}, { HF_HOME: home, HF_TOKEN: "hf_given" }).token).toBe("hf_given");
    hub.requiredToken = "hf_login";
    expect(await get()).toContain(hub.commit);
  });

  test("a tokenizer is read from the cached model without a request", async () => {
    hub.files.set("tokenizer.json", Buffer.from(tinyTokenizer["tokenizer.json"]));
    hub.files.set("tokenizer_config.json", Buffer.from(tinyTokenizer["tokenizer_config.json"]));
    await get();
    hub.log.length = 0;
    expect((await loadTokenizer("org/name", { cacheDir })).vocabSize).toBe(269);
    expect(hub.log).toEqual([]);
  });
});
