/**
 * Writes stored keys in the official tool's format, so that both tools read the same file: one JSON file with mode 0600, replaced
 * atomically. The SDK reads it (`transport/stored-key.node.ts`).
 */
import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { hostedBaseUrl, readCredentials, type StoredCredentials, type StoredKey } from "@tinklet/sdk/credentials";
import { writeFailure } from "@tinklet/sdk/files";
import { omitUndefined } from "@tinklet/wire/options";

/**
 * Stores a key for its server.
 *
 * A key of the hosted service becomes the default key, which the official tool uses too. Keys of other servers do not, because that tool
 * would send them to the hosted service. Key ids are unique per server only.
 */
export async function storeKey(
  file: string,
  id: string,
  record: StoredKey & { readonly origin: string },
): Promise<void> {
  const { default: chosen, keys } = readCredentials(file);
  const isHosted = record.origin === new URL(hostedBaseUrl).origin;
  const own = isHosted ? id : `${record.origin} ${id}`;
  const main = isHosted ? id : chosen;
  await save(file, { version: 1, ...omitUndefined({ default: main }), keys: { ...keys, [own]: record } });
}

/** Removes a key from the file. */
export async function forgetKey(file: string, id: string): Promise<void> {
  const { default: chosen, keys } = readCredentials(file);
  const { [id]: _gone, ...kept } = keys;
  await save(file, { version: 1, ...(chosen === undefined || chosen === id ? {} : { default: chosen }), keys: kept });
}

/** Writes a temporary file with mode 0600 and renames it, so that the file is never incomplete or readable by other users. */
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
      await handle.chmod(0o600); // independent of the umask
    } finally {
      await handle.close();
    }
    await rename(scratch, file);
  } catch (cause) {
    await rm(scratch, { force: true });
    throw writeFailure(file, cause);
  }
}
