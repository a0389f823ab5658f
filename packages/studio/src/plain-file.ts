/**
 * Opens regular files below a folder that other programs may write to, and rejects paths with symbolic links. The checks run on the open
 * file, so that a link created between a check and the open (TOCTOU) has no effect.
 */
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readlink, realpath } from "node:fs/promises";

// Without O_NONBLOCK, opening a named pipe blocks until it has a writer. Windows has neither flag.
const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Opens a file for reading.
 *
 * @param path - absolute path below a folder returned by `realpath`.
 * @param onOpened - called between open and check, for tests.
 * @returns `undefined` if the file does not exist, is not a regular file, or if a part of its path is a link.
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
  // Linux: the kernel's path of the open file, which later changes of the path do not affect.
  const name = await readlink(`/proc/self/fd/${file.fd}`).catch(() => undefined);
  if (name !== undefined) return name === path;
  // Other systems: the path must have no link and refer to the same file.
  if ((await realpath(path)) !== path) return false;
  const found = await lstat(path, { bigint: true });
  return found.ino === opened.ino && found.dev === opened.dev;
}

/** Reads a small file as text; `undefined` if it is missing or not plain, and only its size if it is larger than `maxBytes`. */
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

/** Reads up to `length` bytes from a position; fewer at the end of the file. Bytes appended meanwhile are not waited for. */
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
