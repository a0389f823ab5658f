/**
 * Immutable folders of files under the data folder, written so that a crash leaves either the whole folder or nothing: into
 * `tmp/`, every file and the folder synced, then renamed and the parent synced. A folder that nothing owns yet, or any more, holds a
 * marker: only with it may a folder that the database does not know be deleted. Knows nothing of what the files mean.
 */
import { createReadStream, existsSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { randomHex } from "@tinklet/wire/entropy";
import { storeErrorFrom } from "../store-error.ts";
import { makeScratch } from "./scratch.ts";

/** One file of a folder; the parts are written end to end. */
export interface FileToWrite {
  readonly name: string;
  readonly parts: readonly Uint8Array[];
}

/** Where folders live. */
export interface FileStore {
  /** Writes a folder and returns its size in bytes. Durable when it resolves. */
  writeFolder(id: string, files: readonly FileToWrite[]): Promise<number>;
  readFile(id: string, name: string): Promise<Uint8Array>;
  /** In bytes. */
  fileSize(id: string, name: string): Promise<number>;
  /** The content as a stream, for archives. */
  streamFile(id: string, name: string): Readable;
  /** The folders, and whether each is marked as owned by nothing. Other things that lie among them are left out. */
  listFolders(): Promise<FolderEntry[]>;
  /** Marks a folder as owned (its row is committed), or as one that nothing needs (its row is about to be dropped). */
  markOwned(id: string, owned: boolean): Promise<void>;
  /** Moves a folder to `lost/`, out of the way and whole; returns where it is now. */
  setAside(id: string): Promise<string>;
  /** Idempotent. */
  removeFolder(id: string): Promise<void>;
  /** A new, empty folder for files that are on their way. Its maker removes it; after a kill, the next start does. */
  makeScratch(): Promise<string>;
}

/** A folder as it lies there. */
export interface FolderEntry {
  readonly id: string;
  /** Its writer had not stored a row that owns it, or had begun to drop that row. */
  readonly unowned: boolean;
}

/** An empty file in a folder that nothing owns. */
const unownedMarker = "unowned";

/** A fresh folder name. Never made from anything a client sent. */
export const newFolderId = (): string => randomHex(12);

const storedName = /^[a-z0-9][a-z0-9_.]{0,63}$/i;
const checkedName = (name: string): string => {
  if (!storedName.test(name)) throw new Error(`not a name for a stored file: ${JSON.stringify(name)}`);
  return name;
};

export interface FileStoreOptions {
  /** Called at named instants; the crash drill kills the process there. */
  readonly onPoint?: ((point: string) => void) | undefined;
  /** Bytes of one read or write: no single one may exceed 2 GiB. @defaultValue 64 MiB */
  readonly pieceBytes?: number;
}

/** Folders on the disk, under `root/adapters`. */
export async function openFileStore(root: string, options: FileStoreOptions = {}): Promise<FileStore> {
  const { onPoint, pieceBytes = 64 * 1024 * 1024 } = options;
  const folders = join(root, "adapters");
  const temporary = join(root, "tmp");
  const guard = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw storeErrorFrom(error) ?? error;
    }
  };
  const place = (id: string, name = "") => join(folders, checkedName(id), name === "" ? "" : checkedName(name));
  await guard(async () => {
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    await mkdir(folders, { recursive: true });
    await syncFolder(root);
  });

  return {
    writeFolder: (id, files) =>
      guard(async () => {
        const draft = join(temporary, checkedName(id));
        try {
          await mkdir(draft);
          let bytes = 0;
          for (const { name, parts } of [...files, { name: unownedMarker, parts: [] }]) {
            const handle = await open(join(draft, checkedName(name)), "wx");
            try {
              for (const part of parts) {
                let at = 0;
                while (at < part.byteLength) {
                  at += (await handle.write(part, at, Math.min(pieceBytes, part.byteLength - at))).bytesWritten;
                }
                bytes += part.byteLength;
              }
              onPoint?.("files.before-sync");
              await handle.sync();
            } finally {
              await handle.close();
            }
          }
          await syncFolder(draft);
          onPoint?.("files.before-rename");
          await rename(draft, place(id));
          await syncFolder(folders);
          onPoint?.("files.after-rename");
          return bytes;
        } catch (error) {
          await rm(draft, { recursive: true, force: true }).catch(() => {});
          throw error;
        }
      }),
    readFile: (id, name) => guard(() => readPieces(place(id, name), pieceBytes)),
    fileSize: (id, name) => guard(async () => (await stat(place(id, name))).size),
    streamFile: (id, name) => createReadStream(place(id, name)),
    listFolders: () =>
      guard(async () => {
        const entries = (await readdir(folders, { withFileTypes: true })).filter(
          (entry) => entry.isDirectory() && storedName.test(entry.name),
        );
        return entries.map(({ name }) => ({ id: name, unowned: existsSync(place(name, unownedMarker)) }));
      }),
    markOwned: (id, owned) =>
      guard(async () => {
        if (owned) await rm(place(id, unownedMarker), { force: true });
        else await writeFile(place(id, unownedMarker), "").catch(unlessMissing);
      }),
    setAside: (id) =>
      guard(async () => {
        const lost = join(root, "lost");
        await mkdir(lost, { recursive: true });
        const to = existsSync(join(lost, checkedName(id))) ? join(lost, `${id}.${newFolderId()}`) : join(lost, id);
        await rename(place(id), to);
        await syncFolder(lost);
        return to;
      }),
    removeFolder: (id) =>
      guard(async () => {
        // Aside first: what is in tmp/ goes at the next start, and half of a folder, its marker perhaps gone, is nobody's any more.
        const aside = join(temporary, `${checkedName(id)}.${newFolderId()}`);
        const found = await rename(place(id), aside).then(
          () => true,
          (error: unknown) => unlessMissing(error) ?? false,
        );
        if (!found) return;
        onPoint?.("files.removing");
        await rm(aside, { recursive: true, force: true });
      }),
    makeScratch: () => guard(() => mkdtemp(join(temporary, "scratch-"))),
  };
}

/** A file's bytes, in an array of their own. */
async function readPieces(path: string, pieceBytes: number): Promise<Uint8Array> {
  const handle = await open(path, "r");
  try {
    const bytes = new Uint8Array((await handle.stat()).size);
    let at = 0;
    while (at < bytes.byteLength) {
      const { bytesRead } = await handle.read(bytes, at, Math.min(pieceBytes, bytes.byteLength - at), at);
      if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`);
      at += bytesRead;
    }
    return bytes;
  } finally {
    await handle.close();
  }
}

/** For what may have gone meanwhile, or was never there. */
export function unlessMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}

/** Makes the entries of a folder durable. Some systems cannot sync a folder; there the rename itself is. */
async function syncFolder(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code !== "EINVAL" && code !== "EPERM" && code !== "EISDIR") throw error;
  } finally {
    await handle.close();
  }
}

/** Folders in memory, for servers that keep nothing. */
export function memoryFileStore(): FileStore {
  const folders = new Map<string, Map<string, Uint8Array>>();
  const file = (id: string, name: string): Uint8Array => {
    const found = folders.get(id)?.get(name);
    if (found === undefined) throw Object.assign(new Error(`no file ${name} in ${id}`), { code: "ENOENT" });
    return found;
  };
  return {
    writeFolder: async (id, files) => {
      const content = new Map(files.map(({ name, parts }) => [checkedName(name), Buffer.concat(parts)]));
      folders.set(id, content);
      return [...content.values()].reduce((sum, bytes) => sum + bytes.byteLength, 0);
    },
    readFile: async (id, name) => file(id, name),
    fileSize: async (id, name) => file(id, name).byteLength,
    streamFile: (id, name) => Readable.from([file(id, name)]),
    listFolders: async () => [...folders.keys()].map((id) => ({ id, unowned: false })),
    markOwned: async () => {},
    setAside: async (id) => id,
    removeFolder: async (id) => {
      folders.delete(id);
    },
    makeScratch,
  };
}
