/**
 * Stored keys, as the official tool stores them, so that either finds what the other wrote: one JSON file that only its owner can
 * read, replaced as a whole. Reading is the SDK's (`transport/stored-key.node.ts`).
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { writeFailure } from "../clients/download.node.ts";
import { readCredentials, type StoredCredentials, type StoredKey } from "../transport/stored-key.node.ts";

/** The key that is used, with its id. */
export function defaultKey(file: string): { readonly id: string; readonly record: StoredKey } | undefined {
  const { default: id = "", keys } = readCredentials(file);
  const record = Object.hasOwn(keys, id) ? keys[id] : undefined;
  return record === undefined ? undefined : { id, record };
}

/** Stores a key and makes it the one that is used. */
export async function storeKey(file: string, id: string, record: StoredKey): Promise<void> {
  const { keys } = readCredentials(file);
  await save(file, { version: 1, default: id, keys: { ...keys, [id]: record } });
}

/** Forgets a key. */
export async function forgetKey(file: string, id: string): Promise<void> {
  const { default: chosen, keys } = readCredentials(file);
  const { [id]: _gone, ...kept } = keys;
  await save(file, { version: 1, ...(chosen === undefined || chosen === id ? {} : { default: chosen }), keys: kept });
}

/** Never half written, and never readable by others, not even while it is written. */
async function save(file: string, content: StoredCredentials): Promise<void> {
  const folder = dirname(file);
  const scratch = join(folder, `.${basename(file)}.${randomUUID()}`);
  try {
    if ((await stat(folder).catch(() => undefined)) === undefined) {
      await mkdir(folder, { recursive: true });
      await chmod(folder, 0o700);
    }
    const handle = await open(scratch, "wx", 0o600);
    try {
      await handle.writeFile(JSON.stringify(content, null, 2));
      await handle.chmod(0o600); // whatever the umask is
    } finally {
      await handle.close();
    }
    await rename(scratch, file);
  } catch (cause) {
    await rm(scratch, { force: true });
    throw writeFailure(file, cause);
  }
}
