/**
 * Uploads a folder to a model repository on the Hugging Face Hub with the commit API, without Python or git. Large files are uploaded
 * to LFS storage, small ones are part of the commit request.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { omitUndefined } from "@tinklet/wire/options";
import { CliError } from "../output/explain.ts";

/** Address and token of the Hub. */
export interface Hub {
  readonly endpoint: string;
  readonly token: string;
}

export interface UploadOptions {
  readonly repo: string;
  readonly revision?: string | undefined;
  readonly message: string;
  readonly createPr: boolean;
  readonly onProgress: (text: string) => void;
  readonly signal: AbortSignal;
}

interface LocalFile {
  readonly path: string;
  readonly absolute: string;
  readonly size: number;
}

/** The Hub settings of the environment and of `hf auth login`. @throws {@link CliError} when there is no token */
export async function hubFromEnvironment(): Promise<Hub> {
  const { hubSettings } = await import("@tinklet/models");
  const { endpoint, token } = hubSettings();
  if (token === undefined) throw new CliError("Not logged in", { hint: "Run: hf auth login, or set HF_TOKEN." });
  return { endpoint, token };
}

/** The user's name. @throws {@link CliError} when the token is not accepted. */
export async function hubUser(hub: Hub, signal: AbortSignal): Promise<string> {
  const { name } = (await call(hub, "GET", "/api/whoami-v2", { signal })) as { name: string };
  return name;
}

/**
 * Creates the repository and the branch if they do not exist.
 *
 * @returns whether the repository is public; an existing repository keeps its visibility
 * @throws {@link CliError} when the repository is public and `isPrivate` is set, so that nothing is published by accident
 */
export async function ensureRepo(
  hub: Hub,
  repo: string,
  isPrivate: boolean,
  revision: string | undefined,
  signal: AbortSignal,
): Promise<{ readonly isPublic: boolean }> {
  const [organization, name] = repo.split("/") as [string, string];
  const body = { name, organization, private: isPrivate, type: "model" };
  await call(hub, "POST", "/api/repos/create", { json: body, allowed: [409], signal });
  const found = (await call(hub, "GET", `/api/models/${repo}`, { signal })) as { readonly private?: boolean };
  const isPublic = !(found.private ?? isPrivate);
  if (isPublic && isPrivate) {
    throw new CliError(`The repository ${repo} exists and is public.`, {
      hint: "Add --public to publish the upload, or choose another repository with --repo.",
    });
  }
  if (revision !== undefined && revision !== "main") {
    await call(hub, "POST", `/api/models/${repo}/branch/${encodeURIComponent(revision)}`, {
      json: {},
      allowed: [409],
      signal,
    });
  }
  return { isPublic };
}

/** A file of a repository as text; `undefined` when it does not exist. */
export async function readRepoFile(hub: Hub, repo: string, revision: string, path: string, signal: AbortSignal) {
  const url = `${hub.endpoint}/${repo}/resolve/${encodeURIComponent(revision)}/${path}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${hub.token}` }, signal });
  return response.ok ? response.text() : undefined;
}

/** Files of a folder whose relative paths match the patterns (`*` and `?`), sorted by path. */
export async function chooseFiles(
  folder: string,
  allow: readonly string[],
  ignore: readonly string[],
): Promise<LocalFile[]> {
  const all = await readdir(folder, { recursive: true, withFileTypes: true });
  const files: LocalFile[] = [];
  for (const entry of all.filter((one) => one.isFile())) {
    const absolute = join(entry.parentPath, entry.name);
    const path = absolute.slice(folder.length + 1).replaceAll("\\", "/");
    const fits = (pattern: string) => glob(pattern).test(path);
    if ((allow.length > 0 && !allow.some(fits)) || ignore.some(fits)) continue;
    files.push({ path, absolute, size: (await stat(absolute)).size });
  }
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

function glob(pattern: string): RegExp {
  const escaped = pattern
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", ".*")
    .replaceAll("?", ".");
  return new RegExp(`^${escaped}$`);
}

/** Uploads files as one commit. */
export async function uploadFiles(hub: Hub, files: readonly LocalFile[], options: UploadOptions): Promise<void> {
  const { repo, revision = "main", signal } = options;
  const asked = await Promise.all(
    files.map(async ({ path, absolute, size }) => ({
      path,
      size,
      sample: (await firstBytes(absolute, 512)).toString("base64"),
    })),
  );
  const branch = encodeURIComponent(revision);
  const plan = (await call(hub, "POST", `/api/models/${repo}/preupload/${branch}`, {
    json: { files: asked },
    signal,
  })) as {
    readonly files: readonly { readonly path: string; readonly uploadMode: string; readonly shouldIgnore?: boolean }[];
  };
  const ignored = new Set(plan.files.filter(({ shouldIgnore }) => shouldIgnore).map(({ path }) => path));
  const large = new Set(plan.files.filter(({ uploadMode }) => uploadMode === "lfs").map(({ path }) => path));
  const lines: unknown[] = [{ key: "header", value: { summary: options.message, description: "" } }];
  for (const file of files.filter(({ path }) => !ignored.has(path))) {
    options.onProgress(`Uploading ${file.path}`);
    if (large.has(file.path)) {
      const oid = await sha256(file.absolute);
      await uploadLarge(hub, repo, file, oid, signal);
      lines.push({ key: "lfsFile", value: { path: file.path, algo: "sha256", oid, size: file.size } });
    } else {
      const content = (await readFile(file.absolute)).toString("base64");
      lines.push({ key: "file", value: { path: file.path, content, encoding: "base64" } });
    }
  }
  await call(hub, "POST", `/api/models/${repo}/commit/${branch}${options.createPr ? "?create_pr=1" : ""}`, {
    ndjson: lines.map((line) => JSON.stringify(line)).join("\n"),
    signal,
  });
}

async function uploadLarge(hub: Hub, repo: string, file: LocalFile, oid: string, signal: AbortSignal): Promise<void> {
  const batch = (await call(hub, "POST", `/${repo}.git/info/lfs/objects/batch`, {
    json: { operation: "upload", transfers: ["basic"], hash_algo: "sha256", objects: [{ oid, size: file.size }] },
    type: "application/vnd.git-lfs+json",
    signal,
  })) as {
    readonly objects: readonly {
      readonly actions?: {
        readonly upload?: { readonly href: string; readonly header?: Readonly<Record<string, string>> };
        readonly verify?: { readonly href: string; readonly header?: Readonly<Record<string, string>> };
      };
    }[];
  };
  const actions = batch.objects[0]?.actions;
  if (actions?.upload === undefined) return; // the Hub already has a file with this hash
  const response = await fetch(actions.upload.href, {
    method: "PUT",
    headers: { ...actions.upload.header, "content-length": String(file.size) },
    body: Readable.toWeb(createReadStream(file.absolute)) as never,
    duplex: "half",
    signal,
  } as RequestInit);
  if (!response.ok) throw new CliError(`${file.path} could not be uploaded: status ${response.status}`);
  if (actions.verify !== undefined) {
    const { href, header: headers = {} } = actions.verify;
    await call(hub, "POST", href, { json: { oid, size: file.size }, headers, signal });
  }
}

async function call(
  hub: Hub,
  method: string,
  path: string,
  options: {
    readonly json?: unknown;
    readonly ndjson?: string;
    readonly type?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly allowed?: readonly number[];
    readonly signal: AbortSignal;
  },
): Promise<unknown> {
  const url = path.startsWith("http") ? path : `${hub.endpoint}${path}`;
  // The verify URL of a large file may be on another host, which must not receive the Hub's token.
  const trusted = new URL(url).origin === new URL(hub.endpoint).origin;
  const body = options.ndjson ?? (options.json === undefined ? undefined : JSON.stringify(options.json));
  const type = options.type ?? (options.ndjson === undefined ? "application/json" : "application/x-ndjson");
  const response = await fetch(url, {
    method,
    headers: {
      ...(trusted ? { authorization: `Bearer ${hub.token}` } : {}),
      ...options.headers,
      ...(body === undefined ? {} : { "content-type": type, accept: options.type ?? "*/*" }),
    },
    ...omitUndefined({ body }),
    signal: options.signal,
  });
  const text = await response.text();
  if (!response.ok && !options.allowed?.includes(response.status)) {
    const said = /"error"\s*:\s*"([^"]*)"/.exec(text)?.[1] ?? `status ${response.status}`;
    throw new CliError(`The Hub refused ${method} ${new URL(url).pathname}: ${said}`, {
      ...(response.status === 401
        ? { hint: "The token is not accepted: hf auth login, or set HF_TOKEN to one that may write." }
        : {}),
    });
  }
  return text === "" || !text.startsWith("{") ? {} : JSON.parse(text);
}

async function firstBytes(path: string, count: number): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(count), 0, count, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
