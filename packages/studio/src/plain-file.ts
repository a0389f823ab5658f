/**
 * Opening a file of a folder that others may write to: a regular file whose path has no symbolic link in it. What was opened is checked, not
 * what the path named before, so that a link which is put in between makes no difference.
 */
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readlink, realpath } from "node:fs/promises";

// Without O_NONBLOCK, opening a pipe waits for its writer. Windows has neither flag.
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a file for reading.
 *
 * @param path - absolute, and without links: below a folder that `realpath` gave.
 * @param onOpened - called between the opening and the check, for tests.
 * @returns `undefined` when there is no such file, when it is no regular file, or when a part of its path is a link.
 */
export async function openPlainFile(path: string, onOpened?: () => Promise<void>): Promise<FileHandle | undefined> {
  const file = await open(path, flags).catch(() => undefined);
  if (file === undefined) return undefined;
  await onOpened?.();
  const isPlain = await isPlainFile(file, path).catch(() => false);
  if (isPlain) return file;
  await file.close();
  return undefined;
}

async function isPlainFile(file: FileHandle, path: string): Promise<boolean> {
  const opened = await file.stat({ bigint: true });
  if (!opened.isFile()) return false;
  // The kernel's own name of what is open: no later change of the path alters it.
  const name = await readlink(`/proc/self/fd/${file.fd}`).catch(() => undefined);
  if (name !== undefined) return name === path;
  // Elsewhere than on Linux: the path leads there without a link, and to the same file.
  if ((await realpath(path)) !== path) return false;
  const found = await lstat(path, { bigint: true });
  return found.ino === opened.ino && found.dev === opened.dev;
}

/** A small file's text; `undefined` when it is missing or not plain, and its size alone when it is larger than `maxBytes`. */
export async function readPlainFile(path: string, maxBytes: number): Promise<string | { bytes: number } | undefined> {
  const file = await openPlainFile(path);
  if (file === undefined) return undefined;
  try {
    const { size } = await file.stat();
    if (size > maxBytes) return { bytes: size };
    return (await readAt(file, 0, size)).toString("utf8");
  } finally {
    await file.close();
  }
}

/** Up to `length` bytes from a position: fewer when the file ends before, however much is written to it meanwhile. */
export async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await file.read(buffer, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}
