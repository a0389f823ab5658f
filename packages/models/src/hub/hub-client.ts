/**
 * The three requests that fetching a model takes: what files there are, what one file is (size and checksum), and its bytes from
 * some position on. Knows HTTP, retries and redirects; knows nothing of caches.
 */

import { HubError } from "./hub-error.ts";
import { type HubId, repositoryOf } from "./hub-id.ts";
import type { HubSettings } from "./hub-settings.ts";

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
}

const MOST_REDIRECTS = 5;
/** Listings are a few hundred kilobytes at most. */
const LARGEST_LISTING_BYTES = 64 * 1024 * 1024;

export function hubClient(id: HubId, settings: HubSettings, signal?: AbortSignal): HubClient {
  const repository = repositoryOf(id);

  /** One request without following redirects; the token goes to the Hub itself and to nobody else. */
  const request = async (url: string, init: RequestInit, what: string): Promise<Response> => {
    const headers = new Headers(init.headers);
    headers.set("user-agent", "tinklet-engine");
    if (settings.token && new URL(url).origin === new URL(settings.endpoint).origin) {
      headers.set("authorization", `Bearer ${settings.token}`);
    }
    try {
      return await fetch(url, { ...init, headers, redirect: "manual", ...(signal && { signal }) });
    } catch (cause) {
      signal?.throwIfAborted();
      throw new HubError("network", `cannot reach the Hub for ${what}: ${reason(cause)}`, {
        cause,
        hint: "check the connection, or HF_ENDPOINT; a model that is in the cache already opens with HF_HUB_OFFLINE=1",
      });
    }
  };

  const refuse = (response: Response, what: string): HubError => {
    const { status } = response;
    if (status === 401 || status === 403) {
      const hint = settings.token
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
      let url = `${settings.endpoint}/api/models/${repository}/revision/${encodeURIComponent(id.revision)}`;
      for (let hop = 0; hop <= MOST_REDIRECTS; hop++) {
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
        return parseListing(await boundedText(response, what), what);
      }
      throw new HubError("bad_response", `too many redirects for ${what}`);
    },

    async describeFile(commit, file) {
      const what = `${file} of ${repository}`;
      let url = `${settings.endpoint}/${repository}/resolve/${commit}/${encodeURIComponent(file)}`;
      for (let hop = 0; hop <= MOST_REDIRECTS; hop++) {
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
      for (let hop = 0; hop <= MOST_REDIRECTS; hop++) {
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

async function boundedText(response: Response, what: string): Promise<string> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const part of response.body ?? []) {
    bytes += part.byteLength;
    if (bytes > LARGEST_LISTING_BYTES) throw new HubError("bad_response", `the listing of ${what} is too large`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
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
