/** Which way a checkpoint's files come: file by file, by an export for the time of the download, or as an archive. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RestClient } from "@tinklet/sdk";
import { APIStatusError, NotFoundError } from "@tinklet/wire/errors";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { tarStream } from "../../../../server/src/http/runs/tar.ts";
import type { Context } from "../context.ts";
import { fetchCheckpoint } from "./fetch-checkpoint.ts";

const run = "s:train:0";
const lacking = (status: number) =>
  new (status === 404 ? NotFoundError : APIStatusError)(`status ${status}`, { status, body: {}, headers: {} } as never);

let base: string;
let parent: string;
let archive: Uint8Array;
const server = createServer((request, response) => {
  response.end(request.url === "/archive" ? archive : `file ${request.url}`);
});
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const content = async function* () {
    yield Buffer.from("packed");
  };
  const parts: Uint8Array[] = [];
  for await (const part of tarStream([{ name: "packed.txt", size: 6, content }], 0)) parts.push(part);
  archive = Buffer.concat(parts);
});
afterAll(() => void server.close());
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), "tinklet-fetch-"));
});
afterEach(() => rm(parent, { recursive: true, force: true }));

/** A server of some age, and what was asked of it. */
function world(can: { archive?: number; external?: number; checkpoints?: string[]; files?: string[] } = {}) {
  const asked: string[] = [];
  const files = can.files ?? ["adapter_config.json", "deep/model.safetensors"];
  const rest = {
    getExternalWeightsUrls: async (path: string) => {
      asked.push(`urls ${path}`);
      return { urls: Object.fromEntries(files.map((file) => [file, `${base}/${file}`])), expires: new Date() };
    },
    getCheckpointArchiveUrlFromTinkerPath: async () => {
      asked.push("archive");
      if (can.archive !== undefined) throw lacking(can.archive);
      return { url: `${base}/archive`, expires: new Date() };
    },
    deleteCheckpointFromTinkerPath: async (path: string) => void asked.push(`delete ${path}`),
    listCheckpoints: async () => ({
      checkpoints: (can.checkpoints ?? []).map((kind) => ({ tinkerPath: `tinker://${run}/${kind}` })),
    }),
  } as unknown as RestClient;
  const trainer = {
    saveWeightsExternal: async (name: string) => {
      asked.push("export");
      if (can.external !== undefined) throw lacking(can.external);
      return { path: `tinker://new/external_weights/${name}` };
    },
  };
  const context = {
    output: { progress: () => {}, endProgress: () => {} },
    signal: new AbortController().signal,
    fetch: (at: string, init?: RequestInit) => fetch(at, init),
    service: async () => ({
      createTrainingClientFromState: async (path: string) => {
        asked.push(`load ${path}`);
        return trainer;
      },
    }),
  } as unknown as Context;
  const get = (kind: string) => fetchCheckpoint(`tinker://${run}/${kind}`, join(parent, "out"), parent, context, rest);
  return { asked, get };
}

describe("fetchCheckpoint", () => {
  it("fetches external weights file by file, folders and all", async () => {
    const { get } = world();
    expect(await get("external_weights/x")).toBe("file /adapter_config.jsonfile /deep/model.safetensors".length);
    expect(await readFile(join(parent, "out", "deep", "model.safetensors"), "utf8")).toBe(
      "file /deep/model.safetensors",
    );
    expect(await readdir(parent)).toEqual(["out"]);
  });

  it("takes the archive of training weights: an export would leave a run behind", async () => {
    const { asked, get } = world();
    await get("weights/x");
    expect(asked).toEqual(["archive"]);
    expect(await readdir(join(parent, "out"))).toEqual(["packed.txt"]);
  });

  it.each([404, 405, 410])(
    "exports training weights for the time of the download where archives are off (%i)",
    async (archive) => {
      const { asked, get } = world({ archive });
      await get("weights/x");
      const exported = "tinker://new/external_weights/download";
      expect([...new Set(asked)]).toEqual([
        "archive",
        `load tinker://${run}/weights/x`,
        "export",
        `urls ${exported}`,
        `delete ${exported}`,
      ]);
    },
  );

  it("tells of the archive where the server knows no export either, and of an export that failed", async () => {
    await expect(world({ archive: 404, external: 405 }).get("weights/x")).rejects.toThrow("status 404");
    await expect(world({ archive: 404, external: 500 }).get("weights/x")).rejects.toThrow("status 500");
    await expect(world({ archive: 500 }).get("weights/x")).rejects.toThrow("status 500");
  });

  it("takes the archive of sampler weights, and their training half where archives are off", async () => {
    const old = world();
    await old.get("sampler_weights/x");
    expect(old.asked).toEqual(["archive"]);
    await rm(join(parent, "out"), { recursive: true });
    const modern = world({ archive: 410, checkpoints: ["weights/x"] });
    await modern.get("sampler_weights/x");
    expect(modern.asked.slice(0, 3)).toEqual(["archive", `load tinker://${run}/weights/x`, "export"]);
    await rm(join(parent, "out"), { recursive: true });
    await expect(world({ archive: 410 }).get("sampler_weights/x")).rejects.toThrow("status 410");
  });

  it.each(["../outside", "/etc/passwd", "a/../../b"])(
    "refuses a file that leads out of the folder: %s",
    async (file) => {
      await expect(world({ files: [file] }).get("external_weights/x")).rejects.toThrow("path outside its folder");
      expect(await readdir(parent)).toEqual([]);
    },
  );

  it("refuses a checkpoint without files", async () => {
    await expect(world({ files: [] }).get("external_weights/x")).rejects.toThrow("has no files");
  });
});
