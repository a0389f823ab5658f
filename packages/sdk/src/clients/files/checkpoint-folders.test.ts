import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, sep } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import { InvalidInputError } from "@tinklet/wire/errors";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { tarStream } from "../../../../server/src/http/runs/tar.ts";
import { failure, harness } from "../../testing/harness.ts";
import type { FetchLike } from "../../transport/exchange.ts";
import type { DownloadProgress } from "./download.node.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-folders-"));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(folder, { recursive: true, force: true });
});

/** A client whose server answers some paths by `own`, the way a server inside the process does: without a socket. */
function setup(own: (path: string, init: RequestInit) => Response | Promise<Response> | undefined) {
  const kit = harness({ clock: systemClock() });
  const fetch: FetchLike = async (url, init) => (await own(new URL(url).pathname, init)) ?? kit.stub.fetch(url, init);
  const { service } = harness({}, { fetch, clock: systemClock() });
  return { ...kit, service, rest: service.createRestClient() };
}

async function archive(): Promise<Uint8Array> {
  const content = async function* () {
    yield Buffer.from("hello");
  };
  const parts: Uint8Array[] = [];
  for await (const part of tarStream([{ name: "adapter_config.json", size: 5, content }], 0)) parts.push(part);
  return Buffer.concat(parts);
}
const path = "tinker://run-1/sampler_weights/final";

describe("downloadCheckpoint", () => {
  it("brings the files into a folder through the client's own fetch, with progress", async () => {
    const bytes = await archive();
    const { rest } = setup((at) => {
      if (at.endsWith("/archive"))
        return new Response(null, { status: 302, headers: { location: "http://tinklet.local/a" } });
      return at === "/a"
        ? new Response(bytes as BodyInit, { headers: { "content-length": String(bytes.length) } })
        : undefined;
    });
    const seen: DownloadProgress[] = [];
    const target = join(folder, "deep", "adapter");
    const result = await rest.downloadCheckpoint(path, target, { onProgress: (progress) => seen.push(progress) });
    expect(result.bytes).toBe(bytes.length);
    expect(await readFile(join(target, "adapter_config.json"), "utf8")).toBe("hello");
    expect(seen.at(-1)).toEqual({ file: "archive", receivedBytes: bytes.length, totalBytes: bytes.length });
    expect(await readdir(join(folder, "deep"))).toEqual(["adapter"]);
  });

  it("leaves what was there when it breaks off, and ends with its signal", async () => {
    const bytes = await archive();
    const controller = new AbortController();
    const broken = [
      () => new Response(bytes.slice(0, 600) as BodyInit, { headers: { "content-length": String(bytes.length) } }),
      () => {
        controller.abort("enough");
        return new Promise<Response>(() => {});
      },
    ];
    for (const answer of broken) {
      const { rest } = setup((at) => {
        if (at.endsWith("/archive"))
          return new Response(null, { status: 302, headers: { location: "http://tinklet.local/a" } });
        return at === "/a" ? answer() : undefined;
      });
      const target = join(folder, "adapter");
      await mkdir(target, { recursive: true });
      await writeFile(join(target, "adapter_config.json"), "{}");
      await writeFile(join(target, "checkpoint_complete"), "");
      const error: unknown = await rest.downloadCheckpoint(path, target, { signal: controller.signal }).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(controller.signal.aborted ? error : (error as { code: string }).code).toBe(
        controller.signal.aborted ? "enough" : "download_failed",
      );
      expect(await readdir(target)).toEqual(["adapter_config.json", "checkpoint_complete"]);
    }
  });
});

describe("downloadCheckpoint into a folder that is there", () => {
  /** A server with an archive. @param arriving - called when the archive is fetched */
  async function serving(arriving: () => Promise<unknown> = async () => {}) {
    const bytes = await archive();
    const asked: string[] = [];
    const { rest } = setup(async (at) => {
      asked.push(at);
      if (at.endsWith("/archive"))
        return new Response(null, { status: 302, headers: { location: "http://tinklet.local/a" } });
      if (at !== "/a") return undefined as unknown as Response;
      await arriving();
      return new Response(bytes as BodyInit);
    });
    return { rest, asked };
  }
  const put = async (name: string, text = "mine") => {
    await mkdir(dirname(join(folder, "to", name)), { recursive: true });
    await writeFile(join(folder, "to", name), text);
  };

  it("refuses one with files that no checkpoint brought, before it asks for anything", async () => {
    await put("thesis.md");
    const { rest, asked } = await serving();
    const target = join(folder, "to");
    const error = await failure(rest.downloadCheckpoint(path, target));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error).toMatchObject({ field: "folder" });
    expect(error.message).toContain(`${target} contains thesis.md`);
    expect(error.hint).toContain(join(target, "checkpoint"));
    expect(asked.filter((at) => at.includes("archive"))).toEqual([]);
    expect(await readFile(join(target, "thesis.md"), "utf8")).toBe("mine");
    expect(await readdir(folder)).toEqual(["to"]);
  });

  it("refuses a file in its place, and files that came during the download", async () => {
    await writeFile(join(folder, "file"), "mine");
    const { rest } = await serving(() => put("late.md"));
    expect(await failure(rest.downloadCheckpoint(path, join(folder, "file")))).toBeInstanceOf(InvalidInputError);
    expect(await readFile(join(folder, "file"), "utf8")).toBe("mine");
    expect(await failure(rest.downloadCheckpoint(path, join(folder, "to")))).toBeInstanceOf(InvalidInputError);
    expect(await readdir(join(folder, "to"))).toEqual(["late.md"]);
    expect((await readdir(folder)).toSorted()).toEqual(["file", "to"]);
  });

  it("refuses a project that has an adapter in it, naming the first of its own entries", async () => {
    for (const name of ["adapter_config.json", "adapter_model.safetensors"]) await put(name);
    const target = join(folder, "to");
    const { rest } = await serving();
    for (const [path, first] of [
      ["src/main.ts", "src"],
      [".git/HEAD", ".git"],
    ] as const) {
      await put(path);
      expect(await failure(rest.downloadCheckpoint("tinker://run-1/sampler_weights/final", target))).toMatchObject({
        name: "InvalidInputError",
        field: "folder",
        message: expect.stringContaining(`${target} contains ${first}${sep}`),
        hint: expect.stringContaining(`move ${first}${sep}`),
      });
      expect(await readFile(join(target, path), "utf8")).toBe("mine");
    }
  });

  it("refuses a link under the name of a checkpoint's file", async () => {
    await put("adapter_config.json");
    const target = join(folder, "to");
    await symlink(join(target, "adapter_config.json"), join(target, "adapter_model.safetensors"));
    const { rest } = await serving();
    expect((await failure(rest.downloadCheckpoint(path, target))).message).toContain("adapter_model.safetensors");
  });

  it.each([
    [[]],
    [["adapter_config.json", "adapter_model.safetensors", "checkpoint_complete"]],
    [["adapter_config.json", "adapter_model-00001-of-00002.safetensors", "adapter_model.safetensors.index.json"]],
  ])("replaces an empty one or a checkpoint: %j", async (names: string[]) => {
    await mkdir(join(folder, "to"));
    for (const name of names) await put(name);
    const { rest } = await serving();
    await rest.downloadCheckpoint(path, join(folder, "to"));
    expect(await readdir(join(folder, "to"))).toEqual(["adapter_config.json"]);
    expect(await readFile(join(folder, "to", "adapter_config.json"), "utf8")).toBe("hello");
    expect(await readdir(folder)).toEqual(["to"]);
  });

  /** Fetches while the renames with these numbers, from 1, fail. */
  async function withFailing(failing: readonly number[]) {
    await put("adapter_config.json");
    const disk = process.getBuiltinModule("node:fs/promises");
    const rename = disk.rename;
    let count = 0;
    vi.spyOn(disk, "rename").mockImplementation(async (from, to) => {
      count++;
      if (failing.includes(count)) throw new Error(`rename ${count} failed`);
      return rename(from, to);
    });
    vi.resetModules();
    const { fetchInto } = await import("./checkpoint-files.node.ts");
    const bytes = await archive();
    const fetching = { fetch: async () => new Response(bytes as BodyInit), signal: undefined, onProgress: () => {} };
    return failure(fetchInto("http://tinklet.local/a", join(folder, "to"), folder, fetching));
  }

  it.each([1, 2])("puts the old one back when rename %i fails", async (failing) => {
    expect((await withFailing([failing])).message).toBe(`rename ${failing} failed`);
    expect(await readFile(join(folder, "to", "adapter_config.json"), "utf8")).toBe("mine");
    expect(await readdir(folder)).toEqual(["to"]);
  });

  it("keeps the only copy of the old one, and says where, when it cannot be put back", async () => {
    const error = await withFailing([2, 3]);
    expect(error).toMatchObject({ code: "write_failed" });
    const [scratch = ""] = await readdir(folder);
    expect(error.hint).toContain(join(folder, scratch, "before"));
    expect(await readFile(join(folder, scratch, "before", "adapter_config.json"), "utf8")).toBe("mine");
    expect(await readFile(join(folder, scratch, "files", "adapter_config.json"), "utf8")).toBe("hello");
  });
});

describe("importAdapter", () => {
  it("sends the two files of the folder as a form, and gives back the checkpoint's path", async () => {
    const adapter = join(folder, "my adapter");
    await mkdir(adapter);
    await writeFile(join(adapter, "adapter_config.json"), "{}");
    await writeFile(join(adapter, "adapter_model.safetensors"), "weights");
    const forms: FormData[] = [];
    const { service } = setup(async (at, init) => {
      if (!at.endsWith("/tinklet/import_adapter")) return undefined as unknown as Response;
      const headers = new Headers(init.headers);
      expect(headers.get("x-api-key")).toBe("tml-test-key");
      forms.push(
        await new Response(init.body as BodyInit, {
          headers: { "content-type": headers.get("content-type")! },
        }).formData(),
      );
      return Response.json({ tinker_path: path });
    });
    expect(await service.importAdapter(adapter, { baseModel: "m" })).toEqual({ path });
    const [form] = forms;
    expect([form?.get("name"), form?.get("base_model")]).toEqual(["my-adapter", "m"]);
    expect(await (form!.get("adapter_model.safetensors") as File).text()).toBe("weights");
  });

  it("says when there is no such folder, and when the server takes none", async () => {
    const { service } = setup((at) => (at.includes("/tinklet/") ? new Response("{}", { status: 404 }) : undefined));
    expect(await failure(service.importAdapter(join(folder, "nope")))).toMatchObject({ code: "import_failed" });
    await writeFile(join(folder, "adapter_config.json"), "{}");
    await writeFile(join(folder, "adapter_model.safetensors"), "x");
    const error = await failure(service.importAdapter(folder));
    expect(error.message).toBe("This server does not support importing adapters.");
  });
});
