/**
 * A Hugging Face Hub on the loopback interface to upload to: who am I, repositories and branches, the question which files are
 * large, the storage for those on another port, and commits. It takes nothing on trust: a large object must have the size and the
 * checksum that were promised before a commit may name it. The official Python client uploads to it as well.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface UploadHub {
  readonly endpoint: string;
  readonly user: string;
  readonly token: string;
  /** One line per request: method and path. */
  readonly log: string[];
  /** Contents by repository, branch and path. */
  readonly repos: Map<string, { readonly isPrivate: boolean; readonly branches: Map<string, Map<string, Buffer>> }>;
  /** Commits by repository, newest last. */
  readonly commits: {
    readonly repo: string;
    readonly branch: string;
    readonly summary: string;
    readonly pr: boolean;
  }[];
  /** Refuses uploads to the storage from now on. */
  breakStorage: boolean;
  /** Has large files confirmed at the storage's origin, which is not the Hub's. */
  verifyElsewhere: boolean;
  close(): Promise<void>;
}

/** Names that the Hub keeps in its storage whatever their size. */
const largeName = /\.(safetensors|bin|gguf|pt)$/;
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

export async function startUploadHub({ user = "someone", token = "hf_right" } = {}): Promise<UploadHub> {
  const objects = new Map<string, Buffer>();
  const verified = new Set<string>();

  const storage = await listen(async (request, response, body) => {
    const oid = (request.url ?? "").replace(/^\/(verify\/)?/, "").replace(/\?.*/, "");
    if (request.url?.startsWith("/verify/")) {
      if (request.headers.authorization !== undefined) return send(response, 400, { error: "the token leaked" });
      if (request.headers["x-verify"] !== "signed") return send(response, 403, { error: "not signed" });
      verified.add(oid);
      return send(response, 200, {});
    }
    if (hub.breakStorage || request.method !== "PUT") return send(response, 503, { error: "storage is down" });
    if (request.headers.authorization !== undefined) return send(response, 400, { error: "the token leaked" });
    if (sha256(body) !== oid) return send(response, 400, { error: "checksum" });
    objects.set(oid, body);
    return send(response, 200, {});
  });

  const api = await listen(async (request, response, body) => {
    const url = new URL(request.url ?? "/", "http://hub");
    const path = decodeURIComponent(url.pathname);
    hub.log.push(`${request.method} ${path}`);
    const signed = request.headers.authorization;
    if (path.startsWith("/verify/")) {
      const { oid, size } = JSON.parse(body.toString()) as { oid: string; size: number };
      if (objects.get(oid)?.length !== size) return send(response, 404, { error: "no such object" });
      verified.add(oid);
      return send(response, 200, {});
    }
    if (signed !== `Bearer ${token}`) return send(response, 401, { error: "Invalid user token." });
    const json = <T>() => JSON.parse(body.toString()) as T;
    if (path === "/api/validate-yaml") return send(response, 200, { errors: [], warnings: [] });
    if (path === "/api/whoami-v2")
      return send(response, 200, { type: "user", name: user, auth: { type: "access_token" } });
    if (path === "/api/repos/create") {
      const { name, organization, visibility, ...rest } = json<Record<string, unknown>>();
      const isPrivate = visibility === "private" || rest["private"] === true; // newer clients say it by a word
      const repo = `${organization ?? user}/${name}`;
      if (hub.repos.has(repo)) return send(response, 409, { error: "You already created this model repo" });
      hub.repos.set(repo, { isPrivate, branches: new Map([["main", new Map()]]) });
      return send(response, 200, { url: `${hub.endpoint}/${repo}`, name: repo, id: repo });
    }
    const [, kind, owner = "", name = "", action = "", ...rest] = path
      .split("/")
      .slice(path.startsWith("/api/") ? 1 : 0);
    const inner = path.startsWith("/api/models/");
    const repo = inner
      ? `${owner}/${name}`
      : path
          .split("/")
          .slice(1, 3)
          .join("/")
          .replace(/\.git$/, "");
    const found = hub.repos.get(repo);
    if (found === undefined) return send(response, 404, { error: "Repository not found" });
    if (inner && action === "" && request.method === "GET")
      return send(response, 200, { id: repo, private: found.isPrivate });
    if (inner && kind === "models" && action === "branch") {
      const branch = rest.join("/");
      if (found.branches.has(branch)) return send(response, 409, { error: "Reference already exists" });
      found.branches.set(branch, new Map(found.branches.get("main")));
      return send(response, 200, {});
    }
    if (inner && (action === "preupload" || action === "commit")) {
      const branch = rest.join("/");
      const files = found.branches.get(branch);
      if (files === undefined) return send(response, 404, { error: "Invalid rev id" });
      if (action === "preupload") {
        const asked = json<{ files: { path: string; size: number; sample: string }[] }>().files;
        return send(response, 200, {
          files: asked.map(({ path: file, size }) => ({
            path: file,
            uploadMode: largeName.test(file) || size > 10_000_000 ? "lfs" : "regular",
            shouldIgnore: false,
          })),
        });
      }
      if (!(request.headers["content-type"] ?? "").includes("ndjson"))
        return send(response, 400, { error: "not ndjson" });
      const target = url.searchParams.get("create_pr") ? new Map(files) : files;
      let summary = "";
      for (const line of body.toString().split("\n").filter(Boolean)) {
        const { key, value } = JSON.parse(line) as { key: string; value: Record<string, string> };
        const { path: file = "", content = "", oid = "" } = value;
        if (key === "header") summary = value["summary"] ?? "";
        else if (key === "file") target.set(file, Buffer.from(content, "base64"));
        else if (key === "lfsFile" && verified.has(oid)) target.set(file, objects.get(oid) as Buffer);
        else return send(response, 400, { error: `${key} ${file} was not uploaded` });
      }
      hub.commits.push({ repo, branch, summary, pr: target !== files });
      const commitOid = sha256(body).slice(0, 40);
      return send(response, 200, {
        success: true,
        commitOid,
        commitUrl: `${hub.endpoint}/${repo}/commit/${commitOid}`,
      });
    }
    if (path === `/${repo}.git/info/lfs/objects/batch`) {
      const { objects: asked } = json<{ objects: { oid: string; size: number }[] }>();
      const actions = (oid: string) => ({
        upload: { href: `${storageOrigin}/${oid}?signature=secret` },
        verify: hub.verifyElsewhere
          ? { href: `${storageOrigin}/verify/${oid}`, header: { "x-verify": "signed" } }
          : { href: `${hub.endpoint}/verify/${oid}` },
      });
      return send(response, 200, {
        transfer: "basic",
        objects: asked.map(({ oid, size }) => ({ oid, size, ...(verified.has(oid) ? {} : { actions: actions(oid) }) })),
      });
    }
    const resolve = /^\/[^/]+\/[^/]+\/resolve\/([^/]+)\/(.+)$/.exec(path);
    const content = resolve && found.branches.get(resolve[1] as string)?.get(resolve[2] as string);
    if (!content) {
      response.setHeader("x-error-code", "EntryNotFound");
      return send(response, 404, { error: "Entry not found" });
    }
    response.writeHead(200, {
      "content-length": content.length,
      etag: `"${sha256(content).slice(0, 40)}"`,
      "x-repo-commit": "0".repeat(40),
    });
    response.end(request.method === "HEAD" ? undefined : content);
  });

  const storageOrigin = originOf(storage);
  const hub: UploadHub = {
    endpoint: originOf(api),
    user,
    token,
    log: [],
    repos: new Map(),
    commits: [],
    breakStorage: false,
    verifyElsewhere: false,
    close: async () => {
      for (const server of [api, storage]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
  return hub;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

const originOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

type Answer = (request: IncomingMessage, response: ServerResponse, body: Buffer) => Promise<void>;

async function listen(answer: Answer): Promise<Server> {
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    await answer(request, response, Buffer.concat(chunks));
  };
  const server = createServer((request, response) => {
    take(request, response).catch((error: Error) => send(response, 500, { error: error.message }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}
