// Archives that are cut off anywhere are refused, and what was there before stays.
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tarStream } from "../../../../server/src/http/runs/tar.ts";
import type { Context } from "../context.ts";
import { portableName } from "../files.ts";
import { downloadFile } from "./download.ts";
import { fetchInto } from "./fetch-checkpoint.ts";

/** What the server sends next. @param says - the length it promises, if any */
let sent: { readonly bytes: Uint8Array; readonly says?: number };
const server = createServer((_, response) => {
  if (sent.says !== undefined) response.setHeader("content-length", sent.says);
  // after end() the connection would stay open for the keep-alive time
  if (sent.says !== undefined && sent.says > sent.bytes.length) response.write(sent.bytes, () => response.destroy());
  else response.end(sent.bytes);
});
let url: string;
let archive: Buffer;
const context = {
  output: { progress: () => {}, endProgress: () => {} },
  signal: new AbortController().signal,
  fetch: (at: string, init?: RequestInit) => fetch(at, init),
} as unknown as Context;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/archive`;
  const files = { "adapter_config.json": "{}", "adapter_model.safetensors": "x".repeat(3000), empty: "" };
  const entries = Object.entries(files).map(([name, text]) => ({
    name,
    size: text.length,
    content: async function* () {
      yield Buffer.from(text);
    },
  }));
  const parts: Uint8Array[] = [];
  for await (const part of tarStream(entries, 0)) parts.push(part);
  archive = Buffer.concat(parts);
});
afterAll(() => void server.close());

/** A folder with an adapter that is good, to be replaced. */
async function place() {
  const parent = await mkdtemp(join(tmpdir(), "tinklet-download-"));
  const target = join(parent, "adapter");
  await mkdir(target);
  await writeFile(join(target, "adapter_config.json"), "the good one");
  return { parent, target };
}

describe("fetchInto", () => {
  it.each([
    ["plain", () => archive],
    ["compressed", () => gzipSync(archive)],
  ])("unpacks a whole archive over what was there, and leaves nothing else: %s", async (_, bytes) => {
    const { parent, target } = await place();
    sent = { bytes: bytes(), says: bytes().length };
    expect(await fetchInto(url, target, parent, context)).toBe(bytes().length);
    expect((await readdir(target)).toSorted()).toEqual(["adapter_config.json", "adapter_model.safetensors", "empty"]);
    expect(await readdir(parent)).toEqual(["adapter"]);
  });

  it("refuses an archive that was cut off at any block or within one, and keeps the folder", async () => {
    const { parent, target } = await place();
    const ends = [1, 300, 512, 700, 1024, 1536, 2000, 3072, 4608, 5120];
    expect(ends.at(-1)).toBe(archive.length - 1024); // all but the blocks of zeros that end it
    for (const end of ends) {
      sent = { bytes: archive.subarray(0, end) };
      await expect(fetchInto(url, target, parent, context), `cut at ${end}`).rejects.toThrow("The archive is damaged.");
    }
    sent = { bytes: gzipSync(archive).subarray(0, -20) };
    await expect(fetchInto(url, target, parent, context)).rejects.toThrow("The archive is damaged.");
    sent = { bytes: archive.subarray(0, 2000), says: archive.length };
    await expect(fetchInto(url, target, parent, context)).rejects.toThrow("could not be downloaded");
    expect(await readFile(join(target, "adapter_config.json"), "utf8")).toBe("the good one");
    expect(await readdir(parent)).toEqual(["adapter"]);
  });

  it("puts the folder back where the new one cannot take its place", async () => {
    const { parent, target } = await place();
    sent = { bytes: archive };
    await expect(fetchInto(url, join(target, "x", "y"), parent, context)).rejects.toThrow();
    expect(existsSync(join(target, "adapter_config.json"))).toBe(true);
  });
});

describe("downloadFile", () => {
  it("replaces a file whole, and leaves it when the download fails", async () => {
    const file = join(await mkdtemp(join(tmpdir(), "tinklet-download-")), "trace.pftrace");
    await writeFile(file, "the good one");
    sent = { bytes: archive.subarray(0, 2000), says: archive.length };
    await expect(downloadFile(url, file, "trace", context)).rejects.toThrow("could not be downloaded");
    expect(await readFile(file, "utf8")).toBe("the good one");
    sent = { bytes: archive, says: archive.length };
    expect(await downloadFile(url, file, "trace", context)).toBe(archive.length);
    expect(await readFile(file)).toEqual(archive);
    expect(await readdir(dirname(file))).toEqual(["trace.pftrace"]);
  });

  it("leaves what is no plain file in its place", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tinklet-download-"));
    await writeFile(join(folder, "there"), "");
    await symlink(join(folder, "there"), join(folder, "link"));
    sent = { bytes: archive.subarray(0, 2000), says: archive.length };
    await expect(downloadFile(url, join(folder, "link"), "trace", context)).rejects.toThrow("could not be downloaded");
    expect(await readdir(folder)).toEqual(["link", "there"]);
  });
});

describe("portableName", () => {
  it.each([
    ["a1b2:train:0/sampler_weights/final", "a1b2_train_0_sampler_weights_final"],
    ['<a>|b?*"c\\d\u0001', "_a__b___c_d_"],
    ["name. .", "name___"],
    ["NUL.txt", "_NUL.txt"],
    ["com1", "_com1"],
    ["", "_"],
    ["über-größe_1.5", "über-größe_1.5"],
  ])("%j is %j on every system", (text, name) => expect(portableName(text)).toBe(name));
});
