/**
 * Immutable folders of files under the data folder, written so that a crash leaves either the whole folder or nothing: into
 * `tmp/`, every file and the folder synced, then renamed and the parent synced. Knows nothing of what the files mean.
 */
import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { storeErrorFrom } from "./store-error.ts";

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
  listFolders(): Promise<string[]>;
  /** Idempotent. */
  removeFolder(id: string): Promise<void>;
}

/** A fresh folder name. Never made from anything a client sent. */
export const newFolderId = (): string => randomBytes(12).toString("hex");

const checkedName = (name: string): string => {
  if (!/^[a-z0-9][a-z0-9_.]{0,63}$/i.test(name))
    throw new Error(`not a name for a stored file: ${JSON.stringify(name)}`);
  return name;
};

/** Folders on the disk, under `root/adapters`. */
export async function openFileStore(root: string, onPoint?: (point: string) => void): Promise<FileStore> {
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
          for (const { name, parts } of files) {
            const handle = await open(join(draft, checkedName(name)), "wx");
            try {
              for (const part of parts) {
                let at = 0;
                while (at < part.byteLength) at += (await handle.write(part, at, part.byteLength - at)).bytesWritten;
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
    readFile: (id, name) => guard(() => readFile(place(id, name))),
    fileSize: (id, name) => guard(async () => (await stat(place(id, name))).size),
    streamFile: (id, name) => createReadStream(place(id, name)),
    listFolders: () => guard(() => readdir(folders)),
    removeFolder: (id) => guard(() => rm(place(id), { recursive: true, force: true })),
  };
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
    listFolders: async () => [...folders.keys()],
    removeFolder: async (id) => {
      folders.delete(id);
    },
  };
}
