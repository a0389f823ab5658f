/**
 * Folders for files that are on their way, of servers without a data folder: in the system's temporary folder, named by the process, so
 * that the next start can tell what a killed server left there. Those with a data folder have `tmp/` in it, which each start empties.
 */
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@tinklet/wire/clock";

const prefix = "tinklet-scratch-";
/** Younger ones stay: in a container of its own, another server's process is not to be seen here. */
const minAgeMs = 3_600_000;

export const makeScratch = (): Promise<string> => mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));

/** Removes the scratch of servers that are gone. What cannot be read or removed stays: it is another user's. */
export async function removeOldScratch(now: number = systemClock().now()): Promise<void> {
  const folder = tmpdir();
  for (const name of await readdir(folder).catch(() => [])) {
    const pid = /^tinklet-scratch-(\d+)-[A-Za-z0-9]+$/.exec(name)?.[1];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const found = await stat(join(folder, name)).catch(() => undefined);
    if (found === undefined || now - found.mtimeMs < minAgeMs) continue;
    await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
}
