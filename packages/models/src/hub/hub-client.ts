/**
 * The requests that fetching from the Hub takes: what files there are, what one file is (size and checksum), its bytes from some
 * position on, and a small file as text. Knows HTTP and redirects; knows nothing of caches. No `node:` imports.
 */

import { HubError } from "./hub-error.ts";
import { type HubId, repositoryOf } from "./hub-id.ts";

/** What the Hub says about one file before its bytes are fetched. */
export interface RemoteFile {
  /** Names the content: a sha256 (64 hex digits) for large files, a git blob id (40) for small ones. */
  readonly etag: string;
  readonly size?: number;
  /** Where the bytes are; often a signed URL on another host, valid for a while. */
  readonly url: string;
}

export interface HubClient {
  /** The commit that a revision stands for, and the files in it. */
  listFiles(): Promise<{ commit: string; files: readonly string[] }>;
  describeFile(commit: string, file: string): Promise<RemoteFile>;
  /** Bytes from `start` on. `resumed` is false when the server sends the whole file instead. */
  openFile(remote: RemoteFile, start: number): Promise<{ body: AsyncIterable<Uint8Array>; resumed: boolean }>;
  /** A small file whole; `undefined` when the repository has none of that name. */
  readText(revision: string, file: string): Promise<HubText | undefined>;
}

/** A small file, and the commit that the revision stands for, if the Hub says so. */
export interface HubText {
  readonly text: string;
  readonly commit: string | undefined;
}

/** How the Hub is reached. */
export interface HubAccess {
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly token?: string;
}

export interface HubClientOptions {
  readonly signal?: AbortSignal | undefined;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch | undefined;
  /** Browsers follow redirects by themselves and show none of them: `"follow"`. @defaultValue `"manual"` */
  readonly redirect?: "manual" | "follow";
}

const mostRedirects = 5;
/** Listings are a few hundred kilobytes at most. */
const largestListingBytes = 64 * 1024 * 1024;
/** The largest published `tokenizer.json` are some 35 MB. */
const largestTextBytes = 256 * 1024 * 1024;

export function hubClient(id: HubId, access: HubAccess, options: HubClientOptions = {}): HubClient {
  const repository = repositoryOf(id);
  const isDataset = id.kind === "dataset";
  const resolve = (revision: string, file: string) =>
    `${access.endpoint}/${isDataset ? "datasets/" : ""}${repository}/resolve/${encodeURIComponent(revision)}/${file.split("/").map(encodeURIComponent).join("/")}`;
  const { signal, redirect = "manual" } = options;

  /** One request without following redirects; the token goes to the Hub itself and to nobody else. */
  const request = async (url: string, init: RequestInit, what: string): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set("user-agent", "tinklet-models");
    if (access.token && new URL(url).origin === new URL(access.endpoint).origin) {
      headers.set("authorization", `Bearer ${access.token}`);
    }
    try {
      return await (options.fetch ?? fetch)(url, { ...init, headers, redirect, ...(signal && { signal }) });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new HubError("network", `cannot reach ${access.endpoint} for ${what}: ${reason(cause)}`, {
        cause,
        hint: "check the connection, or HF_ENDPOINT; a model that is in the cache already opens with HF_HUB_OFFLINE=1",
      });
    }
  };

  const refuse = (response: Response, what: string): HubError => {
    const { status } = response;
    if (status === 401 || status === 403) {
      const hint = access.token
        ? "the token in HF_TOKEN does not give access; for a gated model, accept its terms on its page first"
        : "set HF_TOKEN, and for a gated model accept its terms on its page; a misspelt name is answered like this, too";
      return new HubError("unauthorized", `the Hub refuses access to ${what} (${status})`, { status, hint });
    }
    if (status === 404) return new HubError("not_found", `the Hub has no ${what}`, { status });
    return new HubError("http_status", `the Hub answered ${status} for ${what}`, { status });
  };

  return {
    async listFiles() {
      const what = `${repository} at ${id.revision}`;
      let url = `${access.endpoint}/api/${isDataset ? "datasets" : "models"}/${repository}/revision/${encodeURIComponent(id.revision)}`;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, {}, what);
        const next = redirectOf(response, url);
        if (next) {
          await response.body?.cancel();
          url = next; // a renamed repository
          continue;
        }
        if (!response.ok) {
          await response.body?.cancel();
          throw refuse(response, what);
        }
        return parseListing(await boundedText(response, what, largestListingBytes), what);
      }
      throw new HubError("bad_response", `too many redirects for ${what}`);
    },

    async describeFile(commit, file) {
      const what = `${file} of ${repository}`;
      let url = resolve(commit, file);
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, { method: "HEAD", headers: { "accept-encoding": "identity" } }, what);
        await response.body?.cancel();
        const next = redirectOf(response, url);
        // A large file is answered with a redirect to a storage host that already carries its checksum; other redirects
        // (renames) lead on.
        const etag = response.headers.get("x-linked-etag") ?? (next ? null : response.headers.get("etag"));
        if (next && etag === null) {
          url = next;
          continue;
        }
        if (!next && !response.ok) throw refuse(response, what);
        if (!etag) throw new HubError("bad_response", `the Hub gives no ETag for ${what}`);
        const size = Number(
          response.headers.get("x-linked-size") ?? (next ? null : response.headers.get("content-length")),
        );
        return {
          etag: etag.replace(/^W\//, "").replace(/^"|"$/g, ""),
          ...(Number.isSafeInteger(size) && size > 0 && { size }),
          url: next ?? url,
        };
      }
      throw new HubError("bad_response", `too many redirects for ${what}`);
    },

    async openFile(remote, start) {
      const what = `a file of ${repository}`;
      const headers = { "accept-encoding": "identity", ...(start > 0 && { range: `bytes=${start}-` }) };
      let { url } = remote;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, { headers }, what);
        const next = redirectOf(response, url);
        if (next) {
          await response.body?.cancel();
          url = next;
          continue;
        }
        const range = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "");
        const resumed = response.status === 206 && Number(range?.[1]) === start;
        if (!response.body || (!resumed && response.status !== 200)) {
          await response.body?.cancel();
          throw refuse(response, what);
        }
        return { body: response.body, resumed };
      }
      throw new HubError("bad_response", `too many redirects for ${what}`);
    },

    async readText(revision, file) {
      const what = `${file} of ${repository}`;
      let url = resolve(revision, file);
      let commit: string | undefined;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, {}, what);
        commit ??= response.headers.get("x-repo-commit") ?? undefined; // on the Hub's own answer, not on its storage's
        const next = redirectOf(response, url);
        if (response.ok) return { text: await boundedText(response, what, largestTextBytes), commit };
        await response.body?.cancel();
        if (next) {
          url = next;
          continue;
        }
        // The Hub says which of the two is missing; a mirror that does not is believed to mean the file.
        const missing = response.headers.get("x-error-code") ?? "";
        const isRepository = missing === "RepoNotFound" || missing === "RevisionNotFound";
        if (response.status === 404 && !isRepository) return undefined;
        throw refuse(response, isRepository ? `${repository} at revision ${revision}` : what);
      }
      throw new HubError("bad_response", `too many redirects for ${what}`);
    },
  };
}

/** Failures that another try may cure: no answer, too many requests, the server's own faults. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof HubError)) return false;
  if (error.code === "network") return true;
  return error.code === "http_status" && (error.status === 429 || (error.status ?? 0) >= 500);
}

function redirectOf(response: Response, url: string): string | undefined {
  const location = response.headers.get("location");
  return response.status >= 300 && response.status < 400 && location ? new URL(location, url).href : undefined;
}

async function boundedText(response: Response, what: string, largestBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > largestBytes) throw new HubError("bad_response", `${what} is larger than any such file`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function parseListing(text: string, what: string): { commit: string; files: readonly string[] } {
  let listing: { sha?: unknown; siblings?: unknown };
  try {
    listing = JSON.parse(text) ?? {};
  } catch (cause) {
    throw new HubError("bad_response", `the listing of ${what} is not JSON`, { cause });
  }
  const { sha, siblings } = listing;
  if (typeof sha !== "string" || !/^[0-9a-f]{40}$/.test(sha) || !Array.isArray(siblings)) {
    throw new HubError("bad_response", `the listing of ${what} has no commit or no files`);
  }
  const names = (siblings as { rfilename?: unknown }[]).map((sibling) => sibling?.rfilename);
  return { commit: sha, files: names.filter((name): name is string => typeof name === "string") };
}

function reason(cause: unknown): string {
  const error = cause as Error & { cause?: Error & { code?: string } };
  return error.cause?.code ?? error.cause?.message ?? error.message;
}
