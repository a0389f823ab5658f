/**
 * A Hugging Face Hub on the loopback interface: the listing, the HEAD that names a file's checksum, the redirect of large files to
 * another host (another port here), ranges, tokens, and faults on demand.
 */

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeHub {
  readonly endpoint: string;
  readonly commit: string;
  /** One line per request: method, path, range, and whether a token came along. */
  readonly log: string[];
  /** Files of the repository `org/name`; change them to publish something else. */
  readonly files: Map<string, Buffer>;
  /** Called for each request for bytes; what it returns goes wrong. */
  fault?: ((file: string, start: number) => Fault | undefined) | undefined;
  /** A token that every request to the Hub (not to its storage) must carry. */
  requiredToken?: string | undefined;
  close(): Promise<void>;
}

export type Fault =
  /** The connection breaks after so many bytes, as soon as `hasArrived` says that the other end has them. */
  | { readonly breakAfter: number; readonly hasArrived: () => boolean }
  | { readonly status: number }
  /** Bytes are not what the checksum says. */
  | { readonly corrupt: true }
  /** Ranges are not honoured. */
  | { readonly ignoreRange: true };

/** Files from this size on are "large": named by their sha256 and kept by the storage host. */
const LARGE_BYTES = 10_000;
const REPOSITORY = "org/name";

export async function startFakeHub(files: Record<string, string | Uint8Array>): Promise<FakeHub> {
  const log: string[] = [];
  const contents = new Map(Object.entries(files).map(([name, content]) => [name, Buffer.from(content)]));
  const note = (where: string, request: IncomingMessage) => {
    const range = request.headers.range ? ` ${request.headers.range}` : "";
    const token = request.headers.authorization ? " with token" : "";
    log.push(`${where} ${request.method} ${request.url}${range}${token}`);
  };

  const storage = await listen((request, response) => {
    note("storage", request);
    sendFile(decodeURIComponent((request.url ?? "").slice(1).replace(/\?.*/, "")), request, response);
  });
  const storageOrigin = originOf(storage);

  const hub = await listen((request, response) => {
    note("hub", request);
    const url = request.url ?? "";
    if (self.requiredToken !== undefined && request.headers.authorization !== `Bearer ${self.requiredToken}`) {
      return answer(response, 401);
    }
    const listing = new RegExp(`^/api/models/${REPOSITORY}/revision/(.+)$`).exec(url);
    if (listing) {
      if (!["main", self.commit].includes(decodeURIComponent(listing[1] as string))) return answer(response, 404);
      const siblings = [...contents.keys()].map((rfilename) => ({ rfilename }));
      return answer(response, 200, JSON.stringify({ sha: self.commit, siblings }));
    }
    if (url === "/api/models/org/old-name/revision/main") {
      response.setHeader("location", `/api/models/${REPOSITORY}/revision/main`);
      return answer(response, 307);
    }
    const file = new RegExp(`^/${REPOSITORY}/resolve/${self.commit}/(.+)$`).exec(url);
    const name = file && decodeURIComponent(file[1] as string);
    const content = name ? contents.get(name) : undefined;
    if (!name || !content) return answer(response, 404);
    response.setHeader("x-repo-commit", self.commit);
    if (content.length >= LARGE_BYTES) {
      response.setHeader("x-linked-etag", `"${createHash("sha256").update(content).digest("hex")}"`);
      response.setHeader("x-linked-size", String(content.length));
      response.setHeader("location", `${storageOrigin}/${encodeURIComponent(name)}?signature=secret`);
      return answer(response, 302);
    }
    response.setHeader(
      "etag",
      `"${createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex")}"`,
    );
    return sendFile(name, request, response);
  });

  function sendFile(name: string, request: IncomingMessage, response: ServerResponse): unknown {
    const content = contents.get(name);
    if (!content) return answer(response, 404);
    if (request.method === "HEAD") {
      response.setHeader("content-length", content.length);
      return answer(response, 200);
    }
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const fault = self.fault?.(name, start);
    if (fault && "status" in fault) return answer(response, fault.status);
    const from = fault && "ignoreRange" in fault ? 0 : start;
    const body = Buffer.from(content.subarray(from));
    if (fault && "corrupt" in fault) body[body.length - 1] = (body.at(-1) as number) ^ 1;
    response.statusCode = from > 0 ? 206 : 200;
    if (from > 0) response.setHeader("content-range", `bytes ${from}-${content.length - 1}/${content.length}`);
    response.setHeader("content-length", body.length);
    if (fault && "breakAfter" in fault) {
      response.write(body.subarray(0, fault.breakAfter));
      const breakWhenRead = (): unknown => (fault.hasArrived() ? response.destroy() : setImmediate(breakWhenRead));
      return breakWhenRead();
    }
    return response.end(body);
  }

  const self: FakeHub = {
    endpoint: originOf(hub),
    commit: "a".repeat(40),
    log,
    files: contents,
    async close() {
      await Promise.all([hub, storage].map((server) => stop(server)));
    },
  };
  return self;
}

function answer(response: ServerResponse, status: number, body = ""): unknown {
  response.statusCode = status;
  return response.end(body);
}

function listen(handle: (request: IncomingMessage, response: ServerResponse) => unknown): Promise<Server> {
  const server = createServer(handle);
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

function originOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
