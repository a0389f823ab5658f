/**
 * The commit mark of a database: the number of the last durable commit, in a separate file. SQLite stops the recovery of a log at the first
 * frame with a wrong checksum and reports no error, so that two changed bytes lose all later commits. The database contains a count of its
 * commits; if the count is below the mark at the start, commits were lost. The mark is written after the log was synced, so it is never
 * ahead of the disk.
 */
import { closeSync, constants, fdatasync, openSync, readFileSync, writeSync } from "node:fs";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";

const sync = promisify(fdatasync);

/** The mark is synced at most once per interval. A power failure may revert it by that much, which is safe: an older mark is still true. */
const syncEveryMs = 1000;

/** Bytes of a record. There are two records in separate sectors, written alternately, so that a torn write leaves one valid. */
const recordBytes = 512;

/** Opens the file without truncating it. */
const markFlags = constants.O_CREAT | constants.O_WRONLY;

/** Path of the mark for a database file. */
export const commitMarkFile = (database: string): string => `${database}-mark`;

/** The mark of an open database. */
export interface CommitMark {
  /** Must be called with the number of the last commit after each sync of the log. */
  raise(commit: number): void;
  /** Syncs the mark and closes its file. */
  close(): Promise<void>;
}

const textOf = (commit: number): string => `commit ${commit}`;
const checked = (text: string): string => `${text} ${crc32(text).toString(16).padStart(8, "0")}`;

/** The number of the last durable commit; 0 without a readable mark. */
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

/** Opens the mark of a database. A mark that cannot be written keeps its old value, which is safe. */
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
        return; // full or failing disk: the next commit writes the mark
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
