/** Writes output files atomically, with clear errors for a full disk. */
import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { writeFailure } from "@tinklet/sdk/files";

/**
 * Writes a temporary file next to `path` and renames it, so that a failure keeps the old content. Pipes, `/dev/stdout` and links are
 * written directly.
 *
 * @throws {@link TinkerError} naming the file
 */
export async function replaceFile<T>(path: string, write: (scratch: string) => Promise<T>): Promise<T> {
  const found = await lstat(path).catch(() => undefined);
  const scratch = found === undefined || found.isFile() ? `${path}.${process.pid}.part` : path;
  try {
    const result = await write(scratch);
    if (scratch !== path)
      await rename(scratch, path).catch((cause: unknown) => Promise.reject(writeFailure(path, cause)));
    return result;
  } catch (error) {
    if (scratch !== path) await rm(scratch, { force: true });
    throw error;
  }
}

/** Writes a file atomically, like {@link replaceFile}. */
export function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  return replaceFile(path, async (scratch) => {
    await writeFile(scratch, content).catch((cause: unknown) => Promise.reject(writeFailure(path, cause)));
  });
}

/** A file name that Windows, macOS and Linux allow, made from an id with colons and slashes. */
export function portableName(text: string): string {
  const safe = text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: Windows forbids them in names
    .replace(/[<>:"/\\|?*\u0000-\u001f]/g, "_")
    .replace(/[. ]+$/, (end) => "_".repeat(end.length));
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(safe) || safe === "" ? `_${safe}` : safe;
}
