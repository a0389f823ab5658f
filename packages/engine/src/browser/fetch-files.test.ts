/** Downloads of a model's files: progress, the cache, and failures. */
import { expect, it } from "vitest";
import { type FetchFilesOptions, fetchFile, fetchModelFiles } from "./fetch-files.ts";

const url = "http://models.test/base/config.json";

/** A server of files by path, and a cache. */
function world(files: Record<string, string>) {
  const kept = new Map<string, Response>();
  const asked: [string, string | undefined][] = [];
  let isOffline = false;
  const progress: (number | undefined)[][] = [];
  const options: FetchFilesOptions = {
    fetch: async (target, init) => {
      if (isOffline) throw new TypeError("Failed to fetch");
      const condition = new Headers(init?.headers).get("if-none-match") ?? undefined;
      asked.push([String(target), condition]);
      const text = files[new URL(String(target)).pathname];
      if (text === undefined) return new Response("missing", { status: 404 });
      if (text.startsWith("<!doctype"))
        return new Response(text, { headers: { "content-type": "text/html; charset=utf-8" } });
      const etag = `"${text.length}"`;
      if (condition === etag) return new Response(null, { status: 304 });
      return new Response(text, { headers: { etag, "content-length": String(text.length) } });
    },
    cache: {
      match: async (key) => kept.get(String(key))?.clone(),
      put: async (key, response) => void kept.set(String(key), response),
    },
    signal: new AbortController().signal,
    onProgress: ({ receivedBytes, totalBytes }) => progress.push([receivedBytes, totalBytes]),
  };
  return { options, kept, asked, progress, files, setOffline: (value: boolean) => (isOffline = value) };
}
const text = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

it("reports progress and keeps the file; a second time the server only confirms it", async () => {
  const { options, asked, progress, files } = world({ "/base/config.json": "one" });
  expect(text(await fetchFile(url, "config.json", options))).toBe("one");
  expect(progress).toEqual([[3, 3]]);
  expect(text(await fetchFile(url, "config.json", options))).toBe("one");
  expect(asked.map(([, condition]) => condition)).toEqual([undefined, '"3"']);
  files["/base/config.json"] = "another"; // a new version of the model
  expect(text(await fetchFile(url, "config.json", options))).toBe("another");
});

it("uses a cached file without a connection, and says why without one", async () => {
  const { options, setOffline } = world({ "/base/config.json": "one" });
  await fetchFile(url, "config.json", options);
  setOffline(true);
  expect(text(await fetchFile(url, "config.json", options))).toBe("one");
  await expect(fetchFile(`${url}.other`, "other", options)).rejects.toThrow(
    expect.objectContaining({
      code: "download_failed",
      message: expect.stringContaining("Failed to fetch") as string,
    }) as Error,
  );
});

it("treats a missing file, and a page in its place, as absent", async () => {
  const { options } = world({ "/base/chat_template.jinja": "<!doctype html>" });
  expect(await fetchModelFiles("http://models.test/base/", options)).toEqual({});
});

it("rejects a body that is cut off, and does not keep it", async () => {
  const { options, kept } = world({});
  const short: FetchFilesOptions = {
    ...options,
    fetch: async () => new Response("on", { headers: { "content-length": "3", etag: '"3"' } }),
  };
  await expect(fetchFile(url, "config.json", short)).rejects.toThrow("it has 3 bytes, and 2 arrived");
  expect(kept.size).toBe(0);
});

it("downloads without a cache, and with a cache that is full", async () => {
  const { options } = world({ "/base/config.json": "one" });
  expect(text(await fetchFile(url, "config.json", { ...options, cache: undefined }))).toBe("one");
  const full = {
    match: async () => undefined,
    put: () => Promise.reject(new DOMException("full", "QuotaExceededError")),
  };
  expect(text(await fetchFile(url, "config.json", { ...options, cache: full }))).toBe("one");
});

it("ends with the reason of an abort", async () => {
  const { options } = world({});
  const stop = new AbortController();
  const reason = new Error("stopped");
  stop.abort(reason);
  const aborting: FetchFilesOptions = {
    ...options,
    signal: stop.signal,
    fetch: () => Promise.reject(new Error("aborted")),
  };
  await expect(fetchFile(url, "config.json", aborting)).rejects.toBe(reason);
});
