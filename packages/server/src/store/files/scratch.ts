/**
 * Temporary folders of servers without a data folder. They are in the system's temporary folder and named after the process, so that a
 * later start can remove those of a killed server. Servers with a data folder use its `tmp/`, which each start cleans up.
 */
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@tinklet/wire/clock";

const prefix = "tinklet-scratch-";
/** Younger folders are kept, because the process of a server in another container is not visible here. */
const minAgeMs = 3_600_000;

export const makeScratch = (): Promise<string> => mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`));

/** Removes the scratch folders of processes that have ended. Folders that cannot be read or removed belong to other users and are kept. */
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
