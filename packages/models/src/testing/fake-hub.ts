/**
 * A fake Hugging Face Hub on the loopback interface: listings, HEAD requests with checksums, redirects of large files to another host
 * (here another port), ranges, tokens, and injected faults.
 */

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request to the Hub (not to its storage host). */
export interface HubRequest {
  readonly path: string;
  readonly authorization: string | undefined;
}

/** A server on a loopback port that records its requests and stops when disposed. */
export interface LoopbackServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: HubRequest[];
}

export interface FakeHub extends LoopbackServer {
  readonly commit: string;
  /** One line per request: method, path, range, and whether it had a token. */
  readonly log: string[];
  /** Files of the repository; modify the map to publish a new version. */
  readonly files: Map<string, Buffer>;
  /** Called for each request for bytes; the returned fault is injected. */
  fault?: ((file: string, start: number) => Fault | undefined) | undefined;
  /** A token that every request to the Hub (not to its storage) must carry. */
  requiredToken?: string | undefined;
}

export type Fault =
  /** Breaks the connection after this many bytes, once `hasArrived` returns true. */
  | { readonly breakAfter: number; readonly hasArrived: () => boolean }
  | { readonly status: number }
  /** Sends bytes that do not match the checksum. */
  | { readonly corrupt: true }
  /** Ignores the range header. */
  | { readonly ignoreRange: true };

/** Files of at least this size are "large": identified by their sha256 and served by the storage host. */
const largeBytes = 10_000;

/** Starts a Hub with one repository (`org/name`, or `datasets/org/name`) and one commit, to which every revision resolves. */
export async function startFakeHub(
  files: Readonly<Record<string, string | Uint8Array | undefined>>,
  repository = "org/name",
): Promise<FakeHub> {
  const log: string[] = [];
  const contents = new Map<string, Buffer>();
  for (const [name, content] of Object.entries(files)) {
    if (content !== undefined) contents.set(name, Buffer.from(content));
  }
  const note = (where: string, request: IncomingMessage) => {
    const range = request.headers.range ? ` ${request.headers.range}` : "";
    const token = request.headers.authorization ? " with token" : "";
    log.push(`${where} ${request.method} ${request.url}${range}${token}`);
  };

  const storage = await serve((request, response) => {
    note("storage", request);
    sendFile(decodeURIComponent((request.url ?? "").slice(1).replace(/\?.*/, "")), request, response);
  });

  const hub = await serve((request, response) => {
    note("hub", request);
    const url = request.url ?? "";
    if (self.requiredToken !== undefined && request.headers.authorization !== `Bearer ${self.requiredToken}`) {
      return answer(response, 401);
    }
    const api = repository.startsWith("datasets/") ? repository : `models/${repository}`;
    const listing = new RegExp(`^/api/${api}/revision/(.+)$`).exec(url);
    if (listing) {
      if (!["main", self.commit].includes(decodeURIComponent(listing[1] as string))) return answer(response, 404);
      const siblings = [...contents.keys()].map((rfilename) => ({ rfilename }));
      return answer(response, 200, JSON.stringify({ sha: self.commit, siblings }));
    }
    if (url === "/api/models/org/old-name/revision/main") {
      response.setHeader("location", `/api/models/${repository}/revision/main`);
      return answer(response, 307);
    }
    const file = new RegExp(`^/${repository}/resolve/[^/]+/(.+)$`).exec(url);
    response.setHeader("x-error-code", file ? "EntryNotFound" : "RepoNotFound");
    if (!file) return answer(response, 404);
    const name = decodeURIComponent(file[1] as string);
    const content = contents.get(name);
    response.setHeader("x-repo-commit", self.commit);
    if (!content) return answer(response, 404);
    response.removeHeader("x-error-code");
    if (content.length >= largeBytes) {
      response.setHeader("x-linked-etag", `"${createHash("sha256").update(content).digest("hex")}"`);
      response.setHeader("x-linked-size", String(content.length));
      response.setHeader("location", `${storage.url}/${encodeURIComponent(name)}?signature=secret`);
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
    url: hub.url,
    requests: hub.requests,
    commit: "a".repeat(40),
    log,
    files: contents,
    async [Symbol.asyncDispose]() {
      await Promise.all([hub, storage].map((server) => server[Symbol.asyncDispose]()));
    },
  };
  return self;
}

/** Starts a server with a request handler. */
export async function serve(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<LoopbackServer> {
  const requests: HubRequest[] = [];
  const server: Server = createServer((request, response) => {
    requests.push({ path: request.url ?? "", authorization: request.headers.authorization });
    handle(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answer(response: ServerResponse, status: number, body = ""): unknown {
  response.statusCode = status;
  return response.end(body);
}
