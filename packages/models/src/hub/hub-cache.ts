/**
 * The Hugging Face cache on disk, in the layout of `huggingface_hub`, so that both can use each other's files:
 * `models--org--name/blobs/<etag>` (`datasets--…` for datasets) holds contents, `snapshots/<commit>/<file>` links to them, and
 * `refs/<revision>` contains a commit. A partial download is a separate file next to the blobs. A process claims it by renaming, so that
 * two processes never write to the same file.
 */

import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { copyFile, mkdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, join, relative } from "node:path";
import { type HubId, repositoryOf } from "./hub-id.ts";

export interface HubCache {
  /** The commit of the revision at the last download. */
  knownCommit(): string | undefined;
  /** Folder of a commit's files; it may not exist. */
  snapshot(commit: string): string;
  hasBlob(etag: string, size: number | undefined): Promise<boolean>;
  /** Claims the partial file of an earlier attempt at a blob, or creates a new one; only the caller writes to it. */
  claimPartial(etag: string): Promise<string>;
  /** Releases a partial file for the next attempt. */
  releasePartial(partial: string, etag: string): Promise<void>;
  /** Renames a complete, verified file to the blob. */
  commitBlob(partial: string, etag: string): Promise<void>;
  link(commit: string, file: string, etag: string): Promise<void>;
  saveRevision(commit: string): Promise<void>;
  /** Reads a small file of a commit. The cache may also know that the repository does not have the file. */
  readText(commit: string, file: string): Promise<CachedText>;
  /** Caches a small file or, if `text` is undefined, the fact that it does not exist. Write errors are ignored. */
  cacheText(commit: string, file: string, text: string | undefined): Promise<void>;
}

/** A cached file; `text` is undefined if the repository does not have it. */
export type CachedText = { readonly known: true; readonly text: string | undefined } | { readonly known: false };

const incomplete = ".incomplete";
/** Distinguishes process ids of different machines that share the cache. */
const machine = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);

export function hubCache(cacheDir: string, id: HubId): HubCache {
  const root = join(
    cacheDir,
    `${id.kind === "dataset" ? "datasets" : "models"}--${repositoryOf(id).replaceAll("/", "--")}`,
  );
  const blobs = join(root, "blobs");
  const ref = join(root, "refs", ...id.revision.split("/"));
  // The ETag of a mirror may not be a checksum; it is hashed so that it cannot determine a path.
  const nameOf = (etag: string) =>
    /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(etag) ? etag : `etag-${createHash("sha256").update(etag).digest("hex")}`;
  const blob = (etag: string) => join(blobs, nameOf(etag));
  const snapshot = (commit: string) => join(root, "snapshots", commit);
  const absent = (commit: string, file: string) => join(root, ".no_exist", commit, file);

  return {
    snapshot,

    knownCommit() {
      if (/^[0-9a-f]{40}$/.test(id.revision)) return id.revision;
      if (!existsSync(ref)) return undefined;
      const commit = readFileSync(ref, "utf8").trim();
      return /^[0-9a-f]{40}$/.test(commit) ? commit : undefined;
    },

    async hasBlob(etag, size) {
      const found = await stat(blob(etag)).catch(() => undefined);
      return found?.isFile() === true && (size === undefined || found.size === size);
    },

    async claimPartial(etag) {
      await mkdir(blobs, { recursive: true });
      const claimedPath = join(
        blobs,
        `${nameOf(etag)}.${machine}-${process.pid}-${randomBytes(4).toString("hex")}${incomplete}`,
      );
      for (const left of readdirSync(blobs).filter((name) => isAbandoned(name, nameOf(etag)))) {
        const taken = await rename(join(blobs, left), claimedPath).then(
          () => true,
          () => false, // another process claimed it first
        );
        if (taken) return claimedPath;
      }
      await writeFile(claimedPath, "", { flag: "wx" });
      return claimedPath;
    },

    async releasePartial(partial, etag) {
      await rename(partial, `${blob(etag)}${incomplete}`).catch(() => undefined);
    },

    async commitBlob(partial, etag) {
      await rename(partial, blob(etag));
    },

    async link(commit, file, etag) {
      const target = join(snapshot(commit), file);
      await mkdir(dirname(target), { recursive: true });
      const temporary = `${target}.${randomBytes(4).toString("hex")}.tmp`;
      try {
        await symlink(relative(dirname(target), blob(etag)), temporary);
      } catch {
        await copyFile(blob(etag), temporary); // no symlinks: some file systems and Windows accounts
      }
      await rename(temporary, target).catch(async (error) => {
        await rm(temporary, { force: true });
        throw error;
      });
    },

    async saveRevision(commit) {
      if (commit !== id.revision) await replace(ref, commit);
    },

    async readText(commit, file) {
      const text = await textOf(join(snapshot(commit), file));
      if (text !== undefined) return { known: true, text };
      const isAbsent = (await textOf(absent(commit, file))) !== undefined;
      return isAbsent ? { known: true, text: undefined } : { known: false };
    },

    async cacheText(commit, file, text) {
      if (!/^[0-9a-f]{40}$/.test(commit)) return;
      try {
        await replace(text === undefined ? absent(commit, file) : join(snapshot(commit), file), text ?? "");
        if (commit !== id.revision) await replace(ref, commit);
      } catch {
        // a read-only home, a full disk: the caller has the text already
      }
    },
  };
}

/** Writes a temporary file and renames it, so that a reader never sees a partial file. */
async function replace(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${randomBytes(4).toString("hex")}.tmp`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}

/** The text of a file, or `undefined` if it does not exist. Other errors (a folder, no permission) are thrown. */
async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Whether `name` is a partial file of `blob` that no running process of this machine is writing to. */
function isAbandoned(name: string, blob: string): boolean {
  if (name === `${blob}${incomplete}`) return true;
  if (!name.startsWith(`${blob}.`) || !name.endsWith(incomplete)) return false;
  const owner = /\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.incomplete$/.exec(name);
  return owner !== null && owner[1] === machine && !isRunning(Number(owner[2]));
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // EPERM: the process exists and belongs to another user
  }
}
