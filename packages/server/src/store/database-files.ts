/**
 * Syncs the two files of a database outside of the event loop: a sync of a busy disk may take 100 ms and more, and SQLite would block the
 * calling thread.
 */
import { closeSync, fdatasync, fstat, openSync } from "node:fs";
import { promisify } from "node:util";

const [sync, stats] = [promisify(fdatasync), promisify(fstat)];

export interface DatabaseFiles {
  /** Makes all commits durable. */
  syncLog(): Promise<void>;
  /** Makes checkpointed pages durable. */
  syncDatabase(): Promise<void>;
  /** Size of the log in bytes. */
  logBytes(): Promise<number>;
  /** Call only after the connection is closed: closing a descriptor releases the locks of the process on the file. */
  close(): void;
}

/** @param file - the path of the open database; its log is at the same path with `-wal`. */
export function openDatabaseFiles(file: string): DatabaseFiles {
  const database = openSync(file, "r+");
  let log: number | undefined;
  const logFile = (): number => {
    log ??= openSync(`${file}-wal`, "r+");
    return log;
  };
  return {
    syncLog: () => sync(logFile()),
    syncDatabase: () => sync(database),
    logBytes: async () => (await stats(logFile())).size,
    close: () => {
      for (const each of [database, log]) if (each !== undefined) closeSync(each);
    },
  };
}
