/**
 * The requests to the Hub: the list of files, a file's size and checksum, its bytes from a given offset, and a small file as text. Handles
 * HTTP and redirects, not the cache. No `node:` imports.
 */

import { HubError } from "./hub-error.ts";
import { type HubId, repositoryOf } from "./hub-id.ts";

/** The Hub's metadata of one file. */
export interface RemoteFile {
  /** Digest of the content: a sha256 (64 hex digits) for large files, a git blob id (40) for small ones. */
  readonly etag: string;
  readonly size?: number;
  /** Download URL; often a signed URL on another host that expires. */
  readonly url: string;
}

export interface HubClient {
  /** The commit of the revision and its files. */
  listFiles(): Promise<{ commit: string; files: readonly string[] }>;
  describeFile(commit: string, file: string): Promise<RemoteFile>;
  /** The bytes from `start`. `resumed` is false if the server ignores the range and sends the whole file. */
  openFile(remote: RemoteFile, start: number): Promise<{ body: AsyncIterable<Uint8Array>; resumed: boolean }>;
  /** The text of a small file; `undefined` if the repository does not have it. */
  readText(revision: string, file: string): Promise<HubText | undefined>;
}

/** A small file and, if the Hub sends it, the commit of the revision. */
export interface HubText {
  readonly text: string;
  readonly commit: string | undefined;
}

/** Endpoint and credentials of the Hub. */
export interface HubAccess {
  /** Without a trailing slash. */
  readonly endpoint: string;
  readonly token?: string;
}

export interface HubClientOptions {
  readonly signal?: AbortSignal | undefined;
  /** @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch | undefined;
  /** Browsers hide redirects, so they need `"follow"`. @defaultValue `"manual"` */
  readonly redirect?: "manual" | "follow";
}

const mostRedirects = 5;
/** Limit; real listings have at most a few hundred kilobytes. */
const largestListingBytes = 64 * 1024 * 1024;
/** Limit; the largest published `tokenizer.json` has about 35 MB. */
const largestTextBytes = 256 * 1024 * 1024;

export function hubClient(id: HubId, access: HubAccess, options: HubClientOptions = {}): HubClient {
  const repository = repositoryOf(id);
  const isDataset = id.kind === "dataset";
  const resolve = (revision: string, file: string) =>
    `${access.endpoint}/${isDataset ? "datasets/" : ""}${repository}/resolve/${encodeURIComponent(revision)}/${file.split("/").map(encodeURIComponent).join("/")}`;
  const { signal, redirect = "manual" } = options;

  /** Sends one request without following redirects. The token is sent only to the Hub's own host. */
  const request = async (url: string, init: RequestInit, target: string): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set("user-agent", "tinklet-models");
    if (access.token && new URL(url).origin === new URL(access.endpoint).origin) {
      headers.set("authorization", `Bearer ${access.token}`);
    }
    try {
      return await (options.fetch ?? fetch)(url, { ...init, headers, redirect, ...(signal && { signal }) });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new HubError("network", `cannot reach ${access.endpoint} for ${target}: ${reason(cause)}`, {
        cause,
        hint: "check the connection and HF_ENDPOINT; a cached model opens with HF_HUB_OFFLINE=1",
      });
    }
  };

  const refuse = (response: Response, target: string): HubError => {
    const { status } = response;
    if (status === 401 || status === 403) {
      const hint = access.token
        ? "the token in HF_TOKEN has no access; for a gated model, accept its terms on its page first"
        : "set HF_TOKEN, and for a gated model accept its terms on its page; the Hub also sends this status for a misspelt name";
      return new HubError("unauthorized", `the Hub denied access to ${target} (${status})`, { status, hint });
    }
    if (status === 404) return new HubError("not_found", `the Hub has no ${target}`, { status });
    return new HubError("http_status", `the Hub answered ${status} for ${target}`, { status });
  };

  return {
    async listFiles() {
      const target = `${repository} at ${id.revision}`;
      let url = `${access.endpoint}/api/${isDataset ? "datasets" : "models"}/${repository}/revision/${encodeURIComponent(id.revision)}`;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, {}, target);
        const next = redirectOf(response, url);
        if (next) {
          await response.body?.cancel();
          url = next; // a renamed repository
          continue;
        }
        if (!response.ok) {
          await response.body?.cancel();
          throw refuse(response, target);
        }
        return parseListing(await boundedText(response, target, largestListingBytes), target);
      }
      throw new HubError("bad_response", `too many redirects for ${target}`);
    },

    async describeFile(commit, file) {
      const target = `${file} of ${repository}`;
      let url = resolve(commit, file);
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, { method: "HEAD", headers: { "accept-encoding": "identity" } }, target);
        await response.body?.cancel();
        const next = redirectOf(response, url);
        // For a large file the Hub redirects to a storage host, with the checksum in a header. Any other redirect (a renamed
        // repository) is followed.
        const etag = response.headers.get("x-linked-etag") ?? (next ? null : response.headers.get("etag"));
        if (next && etag === null) {
          url = next;
          continue;
        }
        if (!next && !response.ok) throw refuse(response, target);
        if (!etag) throw new HubError("bad_response", `the Hub sent no ETag for ${target}`);
        const size = Number(
          response.headers.get("x-linked-size") ?? (next ? null : response.headers.get("content-length")),
        );
        return {
          etag: etag.replace(/^W\//, "").replace(/^"|"$/g, ""),
          ...(Number.isSafeInteger(size) && size > 0 && { size }),
          url: next ?? url,
        };
      }
      throw new HubError("bad_response", `too many redirects for ${target}`);
    },

    async openFile(remote, start) {
      const target = `a file of ${repository}`;
      const headers = { "accept-encoding": "identity", ...(start > 0 && { range: `bytes=${start}-` }) };
      let { url } = remote;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, { headers }, target);
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
          throw refuse(response, target);
        }
        return { body: response.body, resumed };
      }
      throw new HubError("bad_response", `too many redirects for ${target}`);
    },

    async readText(revision, file) {
      const target = `${file} of ${repository}`;
      let url = resolve(revision, file);
      let commit: string | undefined;
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const response = await request(url, {}, target);
        commit ??= response.headers.get("x-repo-commit") ?? undefined; // sent by the Hub, not by its storage host
        const next = redirectOf(response, url);
        if (response.ok) return { text: await boundedText(response, target, largestTextBytes), commit };
        await response.body?.cancel();
        if (next) {
          url = next;
          continue;
        }
        // The Hub's header tells a missing repository from a missing file; without the header (mirrors), assume the file.
        const missing = response.headers.get("x-error-code") ?? "";
        const isRepository = missing === "RepoNotFound" || missing === "RevisionNotFound";
        if (response.status === 404 && !isRepository) return undefined;
        throw refuse(response, isRepository ? `${repository} at revision ${revision}` : target);
      }
      throw new HubError("bad_response", `too many redirects for ${target}`);
    },
  };
}

/** Whether a retry may succeed: network errors, status 429, and server errors. */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof HubError)) return false;
  if (error.code === "network") return true;
  return error.code === "http_status" && (error.status === 429 || (error.status ?? 0) >= 500);
}

function redirectOf(response: Response, url: string): string | undefined {
  const location = response.headers.get("location");
  return response.status >= 300 && response.status < 400 && location ? new URL(location, url).href : undefined;
}

async function boundedText(response: Response, target: string, largestBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > largestBytes) throw new HubError("bad_response", `${target} must be at most ${largestBytes} bytes`);
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function parseListing(text: string, target: string): { commit: string; files: readonly string[] } {
  let listing: { sha?: unknown; siblings?: unknown };
  try {
    listing = JSON.parse(text) ?? {};
  } catch (cause) {
    throw new HubError("bad_response", `the listing of ${target} is not JSON`, { cause });
  }
  const { sha, siblings } = listing;
  if (typeof sha !== "string" || !/^[0-9a-f]{40}$/.test(sha) || !Array.isArray(siblings)) {
    throw new HubError("bad_response", `the listing of ${target} has no valid commit or no files`);
  }
  const names = (siblings as { rfilename?: unknown }[]).map((sibling) => sibling?.rfilename);
  return { commit: sha, files: names.filter((name): name is string => typeof name === "string") };
}

function reason(cause: unknown): string {
  const error = cause as Error & { cause?: Error & { code?: string } };
  return error.cause?.code ?? error.cause?.message ?? error.message;
}
