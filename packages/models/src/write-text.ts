/** Writes small text files atomically. */
import { rename, writeFile } from "node:fs/promises";

/** Writes a file atomically: readers see either the old file or the complete new one. */
export async function writeTextAtomically(file: string, text: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, text);
  await rename(temporary, file);
}
