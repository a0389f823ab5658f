/**
 * The two files of a database, made durable beside the event loop: a disk that others keep busy may take a tenth of a second and more to
 * sync, and SQLite would wait for it on the caller's thread.
 */
import { closeSync, fdatasync, fstat, openSync } from "node:fs";
import { promisify } from "node:util";

const [sync, stats] = [promisify(fdatasync), promisify(fstat)];

export interface DatabaseFiles {
  /** Makes what was committed durable. */
  syncLog(): Promise<void>;
  /** Makes what was taken over from the log durable. */
  syncDatabase(): Promise<void>;
  /** Bytes of the log. */
  logBytes(): Promise<number>;
  /** To be called when the connection is closed: this gives up the locks that the process has on the files. */
  close(): void;
}

/** @param file - the database, open already, with its log beside it. */
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
