/**
 * One writer at a time for a folder. The lock is a file that names its process; one whose process is gone (a crash, a kill)
 * is taken over. Readers need none.
 */
import { randomUUID } from "node:crypto";
import { link, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { DataError } from "../data/data-error.ts";

interface Holder {
  readonly pid: number;
  readonly host: string;
  /** Tells locks of one process apart. */
  readonly token: string;
}

/** Locks of this process: one that names this process and is not among them is left over from an earlier one with its number. */
const held = new Set<string>();

/**
 * Takes the lock of a folder.
 *
 * @param path - the lock's file
 * @param folder - what it guards, for the message
 * @returns releases it
 * @throws {@link DataError} when another writer has it.
 */
export async function takeLock(path: string, folder: string): Promise<() => Promise<void>> {
  const mine: Holder = { pid: process.pid, host: hostname(), token: randomUUID() };
  while (!(await create(path, mine))) {
    const holder = await read(path);
    if (holder === undefined) continue; // released just now
    if (isAlive(holder)) {
      throw new DataError({ file: folder }, `is being written by process ${holder.pid} on ${holder.host}`, {
        hint: `Two runs in one folder would mix: wait for that one, or choose another folder. If there is no such process, delete ${path}.`,
      });
    }
    await discard(path, holder);
  }
  held.add(mine.token);
  return async () => {
    held.delete(mine.token);
    if ((await read(path))?.token === mine.token) await rm(path, { force: true });
  };
}

/** Creates the file with its content in one step, so that no reader sees half of it. */
async function create(path: string, holder: Holder): Promise<boolean> {
  const scratch = `${path}.${holder.token}`;
  try {
    await writeFile(scratch, `${JSON.stringify(holder)}\n`);
    await link(scratch, path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "ENOSYS") throw error;
    // A file system without hard links.
    return writeFile(path, `${JSON.stringify(holder)}\n`, { flag: "wx" }).then(
      () => true,
      (failed: NodeJS.ErrnoException) => {
        if (failed.code === "EEXIST") return false;
        throw failed;
      },
    );
  } finally {
    await rm(scratch, { force: true });
  }
}

async function read(path: string): Promise<Holder | undefined> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Holder;
  } catch {
    return { pid: 0, host: hostname(), token: text }; // cut off by a crash: no owner
  }
}

/** A process of another machine cannot be asked and counts as alive. */
function isAlive({ pid, host, token }: Holder): boolean {
  if (host !== hostname()) return true;
  if (pid === process.pid) return held.has(token);
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // alive, and of another user
  }
}

/** Removes a lock without an owner; a lock that another process created in the meantime is put back. */
async function discard(path: string, stale: Holder): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return; // another process was faster
    throw error;
  }
  if ((await read(aside))?.token !== stale.token) await link(aside, path).catch(() => {});
  await rm(aside, { force: true });
}
