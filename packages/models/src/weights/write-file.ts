/**
 * Writes large files atomically: a file gets its name only when it is complete and synced to disk, so a crash or an abort leaves the old
 * file, or none, and never a partial one.
 */

import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** A unique temporary path in the same folder as `path`. */
export function temporaryBeside(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomBytes(6).toString("hex")}.tmp`);
}

/**
 * Writes a file atomically.
 * @param fill Called with a function that appends bytes; the buffer may be reused once its promise settles.
 */
export async function writeFileAtomically(
  file: string,
  fill: (append: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
): Promise<void> {
  const temporary = temporaryBeside(file);
  let handle: FileHandle | undefined;
  try {
    handle = await open(temporary, "wx");
    const opened = handle;
    await fill((bytes) => appendTo(opened, bytes));
    await handle.sync();
    await handle.close();
    handle = undefined;
    await rename(temporary, file);
    await syncFolder(dirname(file));
  } catch (error) {
    await handle?.close();
    await rm(temporary, { force: true });
    throw error;
  }
}

async function appendTo(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const length = Math.min(bytes.byteLength - done, 64 * 1024 * 1024);
    done += (await handle.write(bytes, done, length)).bytesWritten;
  }
}

/** Syncs a folder, so that a rename in it survives a power failure. Windows cannot open folders and does not need it. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
