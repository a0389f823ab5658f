/**
 * The high-water mark of a database: the number of the last commit that is known to be on the disk, in a file of its own. SQLite ends the
 * recovery of a log at the first frame whose checksum is wrong and reports nothing, so that two changed bytes drop every later commit.
 * The database counts its commits in itself; at the start a count below the mark is a loss. The mark is never ahead of the disk: it is
 * written after the log was synced.
 */
import { closeSync, constants, fdatasync, openSync, readFileSync, writeSync } from "node:fs";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";

const sync = promisify(fdatasync);

/** Milliseconds after which the mark is synced again: a power cut takes it back by this much, which makes it older, never wrong. */
const syncEveryMs = 1000;

/** Bytes of one record. There are two, in sectors of their own, written in turn: a torn write leaves the other one. */
const recordBytes = 512;

/** Opens the file without emptying it. */
const markFlags = constants.O_CREAT | constants.O_WRONLY;

/** The mark's file beside the database's. */
export const commitMarkFile = (database: string): string => `${database}-mark`;

/** A mark that is being raised. */
export interface CommitMark {
  /** To be called with the number of the last commit after each sync of the log. */
  raise(commit: number): void;
  /** Syncs the mark and closes its file. */
  close(): Promise<void>;
}

const textOf = (commit: number): string => `commit ${commit}`;
const checked = (text: string): string => `${text} ${crc32(text).toString(16).padStart(8, "0")}`;

/** The commit that is known to be on the disk; 0 when there is no mark or none that can be read. */
export function readCommitMark(database: string): number {
  let content: string;
  try {
    content = readFileSync(commitMarkFile(database), "latin1");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
    throw error;
  }
  const records = [content.slice(0, recordBytes), content.slice(recordBytes)];
  return Math.max(
    ...records.map((record) => {
      const commit = Number(/^commit (\d{1,16}) /.exec(record)?.[1] ?? 0);
      return record.trimEnd() === checked(textOf(commit)) ? commit : 0;
    }),
  );
}

/** Keeps the mark of a database. A mark that cannot be written stays where it is, which is safe. */
export function openCommitMark(database: string, now: () => number): CommitMark {
  let file: number | undefined;
  let syncedAt = -Infinity;
  let syncing: Promise<void> = Promise.resolve();
  const startSync = (): void => {
    syncedAt = now();
    const open = file;
    if (open !== undefined) syncing = syncing.then(() => sync(open)).catch(() => {});
  };
  return {
    raise: (commit) => {
      try {
        file ??= openSync(commitMarkFile(database), markFlags, 0o600);
        const record = checked(textOf(commit)).padEnd(recordBytes - 1);
        writeSync(file, `${record}\n`, (commit % 2) * recordBytes, "latin1");
      } catch {
        return; // a full or failing disk: the next commit writes it
      }
      if (now() - syncedAt >= syncEveryMs) startSync();
    },
    close: async () => {
      startSync();
      await syncing;
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}
