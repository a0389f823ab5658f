/** Small text files, whole or not at all. */
import { rename, writeFile } from "node:fs/promises";

/** Writes a file so that readers see the old one or the whole new one. */
export async function writeTextAtomically(file: string, text: string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  await writeFile(temporary, text);
  await rename(temporary, file);
}
