/**
 * The disk of the simulated server: real files in a folder, reached through replacements of `node:fs` and of the database driver that the
 * bundler puts in their place. Every asynchronous operation is an event. What was not synced is known, so that a power failure can take it
 * back. One disk per process of the simulator.
 */
import fs from "node:fs";
import { join } from "node:path";
import type { Random } from "./random.ts";
import type { Owner, Scheduler } from "./scheduler.ts";

/** One incarnation's view of the data folder. */
export interface Volume {
  readonly folder: string;
  readonly owner: Owner;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** Longest time of one operation. */
  readonly operationMs: number;
  full: boolean;
  syncsFail: boolean;
  /** Bytes of the largest result that the database stores. */
  mostBytes: number;
  /** Bytes of the database's log that a sync has made durable. */
  syncedLogBytes: number;
  /** The commit mark as it was last synced. */
  syncedMark: Buffer | undefined;
  /** Files with content that was not synced, and folder entries that were not. */
  readonly unsyncedFiles: Set<string>;
  readonly unsyncedRenames: Map<string, string>;
  /** Descriptors that are open. */
  readonly open: Set<number>;
  readonly databases: Set<{ close(): unknown; pragma(text: string): unknown }>;
  operations: number;
}

let mounted: Volume | undefined;

export const newVolume = (
  options: Pick<Volume, "folder" | "owner" | "scheduler" | "random" | "operationMs">,
): Volume => ({
  ...options,
  full: false,
  syncsFail: false,
  mostBytes: Number.POSITIVE_INFINITY,
  syncedLogBytes: 0,
  syncedMark: undefined,
  unsyncedFiles: new Set(),
  unsyncedRenames: new Map(),
  open: new Set(),
  databases: new Set(),
  operations: 0,
});

/** Makes a volume the one that the server's modules reach. */
export function mount(volume: Volume | undefined): void {
  mounted = volume;
}

/** The volume of a path. @throws when code of the server reaches for a file outside of its folder */
export function volumeOf(path: unknown): Volume {
  if (mounted === undefined) throw new Error(`simulator: no disk is mounted for ${String(path)}`);
  if (!String(path).startsWith(mounted.folder)) {
    // Of an incarnation that has died: its effects must not land.
    throw Object.assign(new Error(`simulator: ${String(path)} is not on the disk`), { code: "EIO" });
  }
  return mounted;
}

export const logFile = (folder: string): string => join(folder, "tinklet.db-wal");
export const markFile = (folder: string): string => join(folder, "tinklet.db-mark");

const sizeOf = (path: string): number => fs.statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Notes that everything that the database's files hold now is durable: SQLite synced it itself. */
export function databaseSynced(volume: Volume): void {
  volume.syncedLogBytes = sizeOf(logFile(volume.folder));
}

/** What a volume holds when it is mounted has survived, and is durable. */
export function bookSurvivors(volume: Volume): void {
  databaseSynced(volume);
  const mark = markFile(volume.folder);
  volume.syncedMark = fs.existsSync(mark) ? fs.readFileSync(mark) : undefined;
}

/** An operation as an event. Effects happen at its end, unless the owner has died by then. */
export function operation<T>(path: string, label: string, apply: (volume: Volume) => T): Promise<T> {
  let volume: Volume;
  try {
    volume = volumeOf(path);
  } catch (error) {
    return Promise.reject(error);
  }
  const { scheduler, owner, random } = volume;
  volume.operations++;
  return new Promise((resolve, reject) => {
    const ms = random.chance(0.05)
      ? random.fraction() * volume.operationMs * 20
      : random.fraction() * volume.operationMs;
    scheduler.after(owner, ms, `disk ${label}`, () => {
      volume.operations--;
      try {
        resolve(apply(volume));
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}

export function checkRoom({ full }: Volume): void {
  if (full) throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
}

/** What survives of a volume: everything written, where a process was killed; what was synced, and some of the rest, after a power failure. */
export function survivors(volume: Volume, how: "killed" | "power", to: string): void {
  const { folder, random } = volume;
  fs.mkdirSync(to, { recursive: true });
  const database = join(folder, "tinklet.db");
  if (fs.existsSync(database)) fs.copyFileSync(database, join(to, "tinklet.db"));
  const log = logFile(folder);
  if (fs.existsSync(log)) {
    const bytes = fs.readFileSync(log);
    fs.writeFileSync(logFile(to), how === "killed" ? bytes : tornLog(bytes, volume));
  }
  if (fs.existsSync(join(folder, "tinklet.db-journal"))) {
    fs.copyFileSync(join(folder, "tinklet.db-journal"), join(to, "tinklet.db-journal"));
  }
  const mark = markFile(folder);
  if (fs.existsSync(mark)) {
    const older = how === "power" && random.chance(0.5) ? volume.syncedMark : undefined;
    fs.writeFileSync(markFile(to), older ?? fs.readFileSync(mark));
  }
  const marks = join(folder, "running");
  if (fs.existsSync(marks) && (how === "killed" || random.chance(0.5))) fs.copyFileSync(marks, join(to, "running"));
  if (how === "power") {
    for (const [name, from] of volume.unsyncedRenames) {
      if (fs.existsSync(name) && random.chance(0.5)) fs.renameSync(name, from);
    }
    for (const path of volume.unsyncedFiles) {
      if (fs.existsSync(path)) fs.truncateSync(path, random.below(sizeOf(path) + 1));
    }
  }
  for (const name of ["adapters", "tmp", "lost"]) {
    if (fs.existsSync(join(folder, name))) fs.renameSync(join(folder, name), join(to, name));
  }
}

/** The synced bytes of a log, and a part of the rest whose last bytes may be wrong. */
function tornLog(bytes: Buffer, { syncedLogBytes, random }: Volume): Buffer {
  const rest = Math.max(0, bytes.length - syncedLogBytes);
  if (rest === 0) return bytes;
  const tail = Buffer.from(bytes.subarray(0, syncedLogBytes + random.below(rest + 1)));
  if (tail.length > syncedLogBytes && random.chance(0.5)) {
    const at = syncedLogBytes + random.below(tail.length - syncedLogBytes);
    tail[at] = tail[at]! ^ 0xff;
  }
  return tail;
}
