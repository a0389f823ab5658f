/**
 * The SQLite database: opening, locking, migrations, and group commit. A writer is a function; all writers that arrive while the previous
 * commit is being synced run in one transaction, and their promises settle when that transaction is durable. The sync runs outside of the
 * event loop. This file does not depend on the meaning of the tables.
 */
import { constants, copyFileSync, existsSync } from "node:fs";
import { basename } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import Libsql from "libsql";
import { type CommitMark, openCommitMark, readCommitMark } from "./commit-mark.ts";
import { type DatabaseFiles, openDatabaseFiles } from "./database-files.ts";
import { anotherFolder, StoreError, storeErrorFrom } from "./store-error.ts";
import { formatVersion, migrations } from "./tables/schema.ts";

/** A value of a column or a parameter. */
export type SqlValue = string | number | bigint | null | Uint8Array;
/** A row by column; blobs are as the driver returns them (see {@link bytesOf}). */
export type SqlRow = Record<string, unknown>;

/** Statements on the connection. Prepared statements are cached by their text. */
export interface Sql {
  run(text: string, ...params: SqlValue[]): { changes: number; lastInsertRowid: number };
  get<T = SqlRow>(text: string, ...params: SqlValue[]): T | undefined;
  all<T = SqlRow>(text: string, ...params: SqlValue[]): T[];
}

/** Options of {@link openDatabase}. */
export interface DatabaseOptions {
  /** A file, or `:memory:`. */
  readonly file: string;
  /** Called at named points; the crash drill kills the process there. */
  readonly onPoint?: (point: string) => void;
  /** A monotonic clock in milliseconds, which limits the time of a group. @defaultValue the machine's */
  readonly now?: () => number;
  /** Runs a function after the I/O callbacks of this turn of the event loop; replaced by the simulator. @defaultValue setImmediate */
  readonly nextTurn?: (run: () => void) => void;
  /** Called after each commit with its duration and the number of its writers. */
  readonly onCommit?: (durationMs: number, writers: number) => void;
}

/** The open database. */
export interface Database {
  /** Reads outside of a transaction: sees all commits. */
  readonly sql: Sql;
  /**
   * Runs `work` in the next group commit and resolves with its result when the commit is durable. If `work` throws, its changes are rolled
   * back and the others of its group are not. `work` may run more than once; only its last run has an effect.
   *
   * @throws {@link StoreError} when the commit failed: the changes of the whole group are rolled back.
   */
  write<T>(work: (sql: Sql) => T): Promise<T>;
  /**
   * Resolves when everything that can be read now is durable; `undefined` when it is durable already. A response must wait for it, so that
   * a power failure cannot undo what a client has seen.
   *
   * @throws {@link StoreError} when the sync failed.
   */
  synced(): Promise<void> | undefined;
  /** Commits the waiting writers and closes. Idempotent. */
  close(): Promise<void>;
}

/** A blob column as bytes. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value === null || value === undefined) return undefined;
  if (value instanceof Uint8Array) return value;
  return new Uint8Array(value as ArrayBuffer);
}

/** A statement that returns rows as arrays: the driver takes twice as long to make objects. */
interface Reader {
  readonly statement: Libsql.Statement;
  readonly columns: readonly string[];
}

function rowOf(columns: readonly string[], values: readonly unknown[]): SqlRow {
  const row: SqlRow = {};
  for (let i = 0; i < columns.length; i++) row[columns[i]!] = values[i];
  return row;
}

interface Writer {
  readonly work: (sql: Sql) => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Size of the write-ahead log from which it is checkpointed into the database. */
const longLogBytes = 4 * 1024 * 1024;

/**
 * What is committed between two looks at the length of the log, which is a round trip to the thread pool: bytes of parameters, and as much
 * for each commit as its pages take where it changes few rows.
 */
const uncheckedBytes = 1024 * 1024;
const commitBytes = 32 * 1024;

/** Milliseconds after which a group is committed and its other writers wait for the next: a long transaction would delay polls. */
const groupMs = 4;

// eslint-disable-next-line no-restricted-globals -- the default that tests and the simulator replace
const systemTurn = (run: () => void): void => void setImmediate(run);

/** Opens or creates the database. @throws {@link StoreError}, never a bare SQLite error. */
export function openDatabase(options: DatabaseOptions): Database {
  try {
    return open(options);
  } catch (error) {
    throw storeErrorFrom(error) ?? error;
  }
}

function open({
  file,
  onPoint,
  onCommit,
  now = systemClock().monotonic,
  nextTurn = systemTurn,
}: DatabaseOptions): Database {
  const connection = new Libsql(file);
  let files: DatabaseFiles | undefined;
  let mark: CommitMark | undefined;
  let commits = 0;
  try {
    connection.pragma("busy_timeout = 0");
    connection.pragma("locking_mode = EXCLUSIVE");
    // The lock is held until the process ends. Nothing is written before the checks, so that a rejected folder stays unchanged.
    connection.exec("BEGIN EXCLUSIVE");
    connection.exec("COMMIT");
    check(connection);
    commits = countedCommits(connection);
    if (file !== ":memory:") checkCommits(file, commits);
    // Must be set before the first page is written; afterwards only a VACUUM can change it.
    connection.pragma("auto_vacuum = INCREMENTAL");
    connection.pragma("journal_mode = WAL");
    connection.pragma("synchronous = FULL");
    connection.pragma("wal_autocheckpoint = 0");
    connection.pragma("journal_size_limit = 0"); // truncates the log at each restart, so that its length is the length of its content
    connection.pragma("foreign_keys = ON");
    migrate(connection);
    makeShrinkable(connection);
    if (file !== ":memory:") {
      files = openDatabaseFiles(file);
      mark = openCommitMark(file, now);
    }
    // SQLite syncs at opening and closing. Commits in between are synced by `flush`, outside of the event loop.
    connection.pragma("synchronous = OFF");
  } catch (error) {
    // Leaving WAL mode releases the lock of a recovered log; checkCommits has copied the log.
    if (error instanceof StoreError && error.code === "lost_commits") release(connection);
    else unlock(connection);
    connection.close();
    throw error;
  }

  const statements = new Map<string, Libsql.Statement>();
  let released = false;
  const prepared = (text: string): Libsql.Statement => {
    if (released) throw storeClosed();
    let statement = statements.get(text);
    if (statement === undefined) {
      statement = connection.prepare(text);
      statements.set(text, statement);
    }
    return statement;
  };
  const readers = new Map<string, Reader>();
  const reader = (text: string): Reader => {
    if (released) throw storeClosed();
    let known = readers.get(text);
    if (known === undefined) {
      const statement = connection.prepare(text);
      const columns = statement.reader ? statement.raw(true).columns() : [];
      known = { statement, columns: columns.map(({ name }) => name) };
      readers.set(text, known);
    }
    return known;
  };
  /** Whether the writer that runs has written. */
  let wrote = false;
  /** Whether the last transaction has. */
  let changed = false;
  let bytesSinceCheck = 0;
  const sql: Sql = {
    run: (text, ...params) => {
      for (const value of params) {
        if (typeof value === "string") bytesSinceCheck += value.length;
        else if (value instanceof Uint8Array) bytesSinceCheck += value.byteLength;
      }
      const { changes, lastInsertRowid } = prepared(text).run(...params);
      wrote ||= changes > 0;
      return { changes, lastInsertRowid: Number(lastInsertRowid) };
    },
    get: <T>(text: string, ...params: SqlValue[]) => {
      const { statement, columns } = reader(text);
      const values = statement.get(...params) as readonly unknown[] | undefined;
      return values === undefined ? undefined : (rowOf(columns, values) as T);
    },
    all: <T>(text: string, ...params: SqlValue[]) => {
      wrote ||= text.startsWith("PRAGMA"); // a vacuum
      const { statement, columns } = reader(text);
      return (statement.all(...params) as readonly (readonly unknown[])[]).map((values) => rowOf(columns, values) as T);
    },
  };

  let waiting: Writer[] = [];
  let scheduled = false;
  let closed = false;

  const schedule = (): void => {
    if (scheduled) return;
    scheduled = true;
    // Runs after the I/O callbacks of this turn, so that requests that arrived together are committed together.
    nextTurn(() => {
      flushing = flush().finally(() => {
        scheduled = false;
        if (waiting.length > 0) schedule();
      });
    });
  };

  const undo = (): void => {
    try {
      if (connection.inTransaction) sql.run("ROLLBACK");
    } catch {
      // SQLite has rolled back already
    }
  };

  /**
   * Runs as many writers of a group as `groupMs` allows in one transaction; returns functions that settle their promises. Writers rarely
   * throw after a write, so the first attempt has no savepoints: if one throws, the transaction is rolled back, the result is `undefined`,
   * and the caller repeats it with `isolated`, which sets a savepoint per writer.
   */
  const transaction = (group: readonly Writer[], isolated: boolean): (() => void)[] | undefined => {
    const outcomes: (() => void)[] = [];
    changed = false;
    const until = now() + groupMs;
    sql.run("BEGIN IMMEDIATE");
    for (const { work, resolve, reject } of group) {
      if (outcomes.length > 0 && now() > until) break;
      if (isolated) sql.run("SAVEPOINT writer");
      try {
        wrote = false;
        const value = work(sql) as never;
        changed ||= wrote;
        outcomes.push(() => resolve(value));
      } catch (error) {
        if (storeErrorFrom(error) !== undefined) throw error; // SQLite may have rolled back the transaction
        if (wrote && !isolated) {
          undo();
          return undefined;
        }
        if (isolated) sql.run("ROLLBACK TO writer");
        outcomes.push(() => reject(error));
      }
      if (isolated) sql.run("RELEASE writer");
    }
    if (changed && mark !== undefined) sql.run(countCommit, String(commits + 1));
    onPoint?.("commit.before");
    sql.run("COMMIT");
    if (changed) {
      commits++;
      bytesSinceCheck += commitBytes;
    }
    return outcomes;
  };

  /** Set when a sync failed: the content of the disk is unknown, so all later commits fail. */
  let broken: StoreError | undefined;
  let flushing: Promise<void> = Promise.resolve();
  let syncing: Promise<void> | undefined;

  const durable = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      broken = new StoreError(
        "io",
        "The data folder could not be synced.",
        "Check the disk, then restart the server.",
        error,
      );
      throw broken;
    }
  };

  /**
   * Checkpoints a long log into the database. The log is durable at this point and must not be overwritten before the database is durable
   * too; `flush` waits for both.
   */
  const checkpoint = async (atLeastBytes: number): Promise<void> => {
    if (files === undefined || (await files.logBytes()) < atLeastBytes) return;
    connection.pragma("wal_checkpoint(PASSIVE)");
    await durable(files.syncDatabase);
  };

  const flush = async (): Promise<void> => {
    const group = waiting;
    waiting = [];
    if (group.length === 0) return;
    const started = now();
    let outcomes: readonly (() => void)[];
    try {
      if (broken !== undefined) throw broken;
      outcomes = transaction(group, false) ?? transaction(group, true)!;
    } catch (error) {
      undo();
      const failure = storeErrorFrom(error) ?? error;
      for (const { reject } of group) reject(failure);
      return;
    }
    waiting = [...group.slice(outcomes.length), ...waiting];
    try {
      // Without changes there is nothing to sync: what the writers have read was synced before this group began.
      if (files !== undefined && changed) {
        syncing = durable(files.syncLog);
        await syncing;
        mark?.raise(commits);
      }
    } catch (error) {
      for (const { reject } of group.slice(0, outcomes.length)) reject(error);
      return;
    } finally {
      syncing = undefined;
    }
    onPoint?.("commit.after");
    onCommit?.(now() - started, outcomes.length);
    for (const settle of outcomes) settle();
    if (files === undefined || bytesSinceCheck < uncheckedBytes) return;
    bytesSinceCheck = 0;
    await checkpoint(longLogBytes).catch(() => {}); // the next commit reports the error
  };

  return {
    sql,
    write: <T>(work: (sql: Sql) => T) =>
      new Promise<T>((resolve, reject) => {
        if (closed) return reject(storeClosed());
        waiting.push({ work, resolve: resolve as (value: never) => void, reject });
        schedule();
      }),
    synced: () => syncing,
    close: async () => {
      if (closed) return;
      closed = true;
      while (scheduled || waiting.length > 0) {
        await flushing;
        if (waiting.length > 0) await new Promise<void>((resume) => nextTurn(resume));
      }
      await checkpoint(1).catch(() => {}); // the next start recovers from the log
      await mark?.close();
      released = true;
      statements.clear();
      readers.clear();
      release(connection);
      connection.close();
      files?.close();
    },
  };
}

const storeClosed = (): StoreError => new StoreError("io", "The store is closed.", "The server is shutting down.");

/**
 * Releases the lock. Prepared statements keep a connection alive until they are garbage-collected, so closing alone would leave the folder
 * locked until the process ends. Leaving WAL mode also merges the log into the database file.
 */
function release(connection: Libsql.Database): void {
  try {
    connection.pragma("synchronous = FULL");
    connection.pragma("journal_mode = DELETE");
  } catch {
    // the next start recovers from the log
  }
  unlock(connection);
}

/** SQLite releases the lock at the first read after the mode was changed. */
function unlock(connection: Libsql.Database): void {
  try {
    connection.pragma("locking_mode = NORMAL");
    connection.prepare("SELECT COUNT(*) FROM sqlite_master").get();
  } catch {
    // the file cannot be read: the lock ends with the process
  }
}

/** Larger databases are not checked at the start, because the time of quick_check grows with the file; SQLite reports damage later. */
const quickCheckLimitBytes = 256 * 1024 * 1024;

const firstValue = (rows: unknown): unknown => Object.values((rows as SqlRow[])[0] ?? {})[0];
const sizeOf = (connection: Libsql.Database): number =>
  Number(firstValue(connection.pragma("page_count"))) * Number(firstValue(connection.pragma("page_size")));

/** Enables incremental vacuum for a database of an older version. Not for a large one, because this copies the whole file. */
function makeShrinkable(connection: Libsql.Database): void {
  const incremental = 2;
  if (Number(firstValue(connection.pragma("auto_vacuum"))) === incremental) return;
  if (sizeOf(connection) <= quickCheckLimitBytes) connection.exec("VACUUM");
}

function check(connection: Libsql.Database): void {
  if (sizeOf(connection) > quickCheckLimitBytes) return;
  const found = firstValue(connection.pragma("quick_check(1)"));
  if (found !== "ok") throw Object.assign(new Error(String(found)), { code: "SQLITE_CORRUPT" });
}

const countCommit =
  "INSERT INTO meta (key, value) VALUES ('commits', ?) ON CONFLICT DO UPDATE SET value = excluded.value";

/** The number of commits in the database; 0 for a new one, and for one of a release that did not count them. */
function countedCommits(connection: Libsql.Database): number {
  if (connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'meta'").get() === undefined) return 0;
  const row = connection.prepare("SELECT value FROM meta WHERE key = 'commits'").get() as SqlRow | undefined;
  return Number(row?.value ?? 0);
}

/** @throws {@link StoreError} when durable commits are missing. Copies the log first, because closing the database deletes it. */
function checkCommits(file: string, commits: number): void {
  const marked = readCommitMark(file);
  if (commits >= marked) return;
  const log = `${file}-wal`;
  const copy = `${log}.damaged-${marked}`;
  if (existsSync(log) && !existsSync(copy)) copyFileSync(log, copy, constants.COPYFILE_EXCL);
  const kept = existsSync(copy) ? ` A copy of the log is in ${basename(copy)}.` : "";
  throw new StoreError(
    "lost_commits",
    `The last commit of the database is ${commits}, but commit ${marked} was durable (${basename(file)}-mark): ${marked - commits} commits are missing. The log (${basename(log)}) was damaged or removed, or the database was replaced by an older copy.${kept}`,
    `Restore the whole data folder from a backup; to continue without the missing commits, delete ${basename(file)}-mark and restart the server.`,
  );
}

function migrate(connection: Libsql.Database): void {
  const rows = connection.pragma("user_version") as SqlRow[];
  const found = Number(Object.values(rows[0] ?? {})[0] ?? 0);
  if (found > formatVersion) {
    throw new StoreError(
      "too_new",
      `The data folder has format ${found}, but this version supports formats up to ${formatVersion}.`,
      ["Update @tinklet/server, or ", ...anotherFolder, "."],
    );
  }
  if (found === formatVersion) return;
  const missing = migrations.slice(found, formatVersion).join(";");
  connection.exec(`BEGIN IMMEDIATE; ${missing}; PRAGMA user_version = ${formatVersion}; COMMIT`);
}
