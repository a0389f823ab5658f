/** Files that a command writes for its user: whole or not at all, and a full disk is called one. */
import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { writeFailure } from "@tinklet/sdk/files";

/**
 * Has a file written beside its place and moves it there, so that a failure leaves what was there before. What is not a plain file
 * (a pipe, `/dev/stdout`, a link) is written as it is.
 *
 * @throws {@link TinkerError} naming the file.
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

/** Writes a file whole or not at all, as {@link replaceFile} does. */
export function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  return replaceFile(path, async (scratch) => {
    await writeFile(scratch, content).catch((cause: unknown) => Promise.reject(writeFailure(path, cause)));
  });
}

/** A name for a file or folder that Windows, macOS and Linux all allow: ids have colons and slashes. */
export function portableName(text: string): string {
  const safe = text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: Windows forbids them in names
    .replace(/[<>:"/\\|?*\u0000-\u001f]/g, "_")
    .replace(/[. ]+$/, (end) => "_".repeat(end.length));
  return /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(safe) || safe === "" ? `_${safe}` : safe;
}
