/**
 * Immutable folders of files under the data folder. A folder is written to `tmp/`, synced with its files, renamed, and the parent is
 * synced, so that a crash leaves the whole folder or nothing. A folder contains the marker `unowned` while no row refers to it: a folder
 * without a row is deleted at the start only if it has the marker.
 */
import { createReadStream, existsSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { randomHex } from "@tinklet/wire/entropy";
import { storeErrorFrom } from "../store-error.ts";
import { makeScratch } from "./scratch.ts";

/** One file of a folder; its content is the concatenation of the parts. */
export interface FileToWrite {
  readonly name: string;
  readonly parts: readonly Uint8Array[];
}

/** Stores folders of files by id. */
export interface FileStore {
  /** Writes a folder and returns its size in bytes. Durable when it resolves. */
  writeFolder(id: string, files: readonly FileToWrite[]): Promise<number>;
  readFile(id: string, name: string): Promise<Uint8Array>;
  /** In bytes. */
  fileSize(id: string, name: string): Promise<number>;
  /** The content as a stream, for archives. */
  streamFile(id: string, name: string): Readable;
  /** The folders with their markers. Other files in the same place are ignored. */
  listFolders(): Promise<FolderEntry[]>;
  /** Removes the marker after the folder's row was committed, or writes it before the row is deleted. */
  markOwned(id: string, owned: boolean): Promise<void>;
  /** Moves a folder to `lost/`; returns its new path. */
  setAside(id: string): Promise<string>;
  /** Idempotent. */
  removeFolder(id: string): Promise<void>;
  /** Creates an empty folder for temporary files. The caller removes it; after a crash, the next start does. */
  makeScratch(): Promise<string>;
}

/** A stored folder. */
export interface FolderEntry {
  readonly id: string;
  /** Whether it has the marker: its row was not committed yet, or was about to be deleted. */
  readonly unowned: boolean;
}

/** Name of the marker, an empty file. */
const unownedMarker = "unowned";

/** A new folder name: random, never derived from client input. */
export const newFolderId = (): string => randomHex(12);

/**
 * Names in `tmp/`: a folder that is being written, one that is being removed, and a scratch folder. Anything else there is not the store's:
 * a data folder may be chosen that has a `tmp` of another program.
 */
const temporaryName = /^([0-9a-f]{24}|[a-z0-9][a-z0-9_]{0,63}\.[0-9a-f]{24}|scratch-[a-z0-9]{6})$/i;

const storedName = /^[a-z0-9][a-z0-9_.]{0,63}$/i;
const checkedName = (name: string): string => {
  if (!storedName.test(name)) throw new Error(`invalid name of a stored file: ${JSON.stringify(name)}`);
  return name;
};

export interface FileStoreOptions {
  /** Called at named points; the crash drill kills the process there. */
  readonly onPoint?: ((point: string) => void) | undefined;
  /** Maximum bytes per read or write; the system limit is 2 GiB. @defaultValue 64 MiB */
  readonly chunkBytes?: number;
}

/** Folders on the disk, under `root/adapters`. */
export async function openFileStore(root: string, options: FileStoreOptions = {}): Promise<FileStore> {
  const { onPoint, chunkBytes = 64 * 1024 * 1024 } = options;
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
    await mkdir(temporary, { recursive: true });
    for (const name of await readdir(temporary))
      if (temporaryName.test(name)) await rm(join(temporary, name), { recursive: true, force: true });
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
                  at += (await handle.write(part, at, Math.min(chunkBytes, part.byteLength - at))).bytesWritten;
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
    readFile: (id, name) => guard(() => readChunks(place(id, name), chunkBytes)),
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
        // Renamed into tmp/ first, so that a crash leaves no partial folder in adapters/; the next start empties tmp/.
        const removed = join(temporary, `${checkedName(id)}.${newFolderId()}`);
        const found = await rename(place(id), removed).then(
          () => true,
          (error: unknown) => unlessMissing(error) ?? false,
        );
        if (!found) return;
        onPoint?.("files.removing");
        await rm(removed, { recursive: true, force: true });
      }),
    makeScratch: () => guard(() => mkdtemp(join(temporary, "scratch-"))),
  };
}

/** The bytes of a file, in a buffer that they do not share. */
async function readChunks(path: string, chunkBytes: number): Promise<Uint8Array> {
  const handle = await open(path, "r");
  try {
    const bytes = new Uint8Array((await handle.stat()).size);
    let at = 0;
    while (at < bytes.byteLength) {
      const { bytesRead } = await handle.read(bytes, at, Math.min(chunkBytes, bytes.byteLength - at), at);
      if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`);
      at += bytesRead;
    }
    return bytes;
  } finally {
    await handle.close();
  }
}

/** Ignores ENOENT, for files that may have been deleted or never existed. */
export function unlessMissing(error: unknown): undefined {
  if ((error as { code?: string }).code !== "ENOENT") throw error;
}

/** Makes the entries of a folder durable. On systems that cannot sync a folder, a rename is durable by itself. */
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

/** Folders in memory, for servers without a data folder. */
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
