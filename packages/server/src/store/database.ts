/**
 * The database: opening, locking, migrating, and group commit. Writers hand in a function; all functions that came in while the
 * previous commit was being synced run in one transaction, and each caller's promise settles when that transaction is on the
 * disk. The event loop does not wait for the disk. Knows SQLite; knows nothing of what the tables mean.
 */
import { constants, copyFileSync, existsSync } from "node:fs";
import { basename } from "node:path";
import { systemClock } from "@tinklet/wire/clock";
import Libsql from "libsql";
import { type CommitMark, openCommitMark, readCommitMark } from "./commit-mark.ts";
import { type DatabaseFiles, openDatabaseFiles } from "./database-files.ts";
import { StoreError, storeErrorFrom } from "./store-error.ts";
import { formatVersion, migrations } from "./tables/schema.ts";

/** What SQLite takes and gives. */
export type SqlValue = string | number | bigint | null | Uint8Array;
/** A row as it comes: blobs are `ArrayBuffer`s (see {@link bytesOf}). */
export type SqlRow = Record<string, unknown>;

/** Statements on the one connection; texts are prepared once. */
export interface Sql {
  run(text: string, ...params: SqlValue[]): { changes: number; lastInsertRowid: number };
  get<T = SqlRow>(text: string, ...params: SqlValue[]): T | undefined;
  all<T = SqlRow>(text: string, ...params: SqlValue[]): T[];
}

/** Options of {@link openDatabase}. */
export interface DatabaseOptions {
  /** A file, or `:memory:`. */
  readonly file: string;
  /** Called at named instants; the crash drill kills the process there. */
  readonly onPoint?: (point: string) => void;
  /** Milliseconds of a clock that never goes back, by which groups are cut. @defaultValue the machine's */
  readonly now?: () => number;
  /** Runs a function after the I/O callbacks of this turn of the event loop; replaced by the simulator. @defaultValue setImmediate */
  readonly nextTurn?: (run: () => void) => void;
  /** Told how long each commit took and how many writers shared it. */
  readonly onCommit?: (durationMs: number, writers: number) => void;
}

/** The open database. */
export interface Database {
  /** Reads outside of a transaction: sees everything committed. */
  readonly sql: Sql;
  /**
   * Runs `work` in the next group commit and resolves with its result when that is durable. A `work` that throws is undone
   * alone; the others of its group are not. It may run more than once, and only the last time counts.
   *
   * @throws {@link StoreError} when the commit itself failed: then nothing of the group happened.
   */
  write<T>(work: (sql: Sql) => T): Promise<T>;
  /**
   * Resolves when everything that can be read now is durable; undefined when it is. What was read leaves the process only then: after a
   * power cut it must not be unknown here.
   *
   * @throws {@link StoreError} when the disk refused.
   */
  synced(): Promise<void> | undefined;
  /** Commits what is waiting and closes. Idempotent. */
  close(): Promise<void>;
}

/** A blob column as bytes. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value === null || value === undefined) return undefined;
  if (value instanceof Uint8Array) return value;
  return new Uint8Array(value as ArrayBuffer);
}

interface Writer {
  readonly work: (sql: Sql) => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** Bytes of the log from which it is taken over into the database. */
const longLogBytes = 4 * 1024 * 1024;

/** Milliseconds of work after which a group is committed and the rest waits for the next: polls must not wait for a long one. */
const groupMs = 4;

// eslint-disable-next-line no-restricted-globals -- the default that tests and the simulator replace
const systemTurn = (run: () => void): void => void setImmediate(run);

/** Opens, or makes, the database. @throws {@link StoreError}, never a bare SQLite error. */
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
    // The first lock is held until the process ends. Nothing is written before the checks: a folder that is refused stays as it is.
    connection.exec("BEGIN EXCLUSIVE");
    connection.exec("COMMIT");
    check(connection);
    commits = countedCommits(connection);
    if (file !== ":memory:") checkCommits(file, commits);
    // before the first page is written: afterwards only a VACUUM brings it about
    connection.pragma("auto_vacuum = INCREMENTAL");
    connection.pragma("journal_mode = WAL");
    connection.pragma("synchronous = FULL");
    connection.pragma("wal_autocheckpoint = 0");
    connection.pragma("journal_size_limit = 0"); // a log that begins anew is short: its length says what it holds
    connection.pragma("foreign_keys = ON");
    migrate(connection);
    makeShrinkable(connection);
    if (file !== ":memory:") {
      files = openDatabaseFiles(file);
      mark = openCommitMark(file, now);
    }
    // SQLite syncs at the start and at the end; what is committed in between is synced below, beside the event loop.
    connection.pragma("synchronous = OFF");
  } catch (error) {
    // leaving WAL gives the lock of a recovered log back; the log itself was copied
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
  let wrote = false;
  const sql: Sql = {
    run: (text, ...params) => {
      wrote = true;
      const { changes, lastInsertRowid } = prepared(text).run(...params);
      return { changes, lastInsertRowid: Number(lastInsertRowid) };
    },
    get: <T>(text: string, ...params: SqlValue[]) => (prepared(text).get(...params) as T | undefined) ?? undefined,
    all: <T>(text: string, ...params: SqlValue[]) => prepared(text).all(...params) as T[],
  };

  let waiting: Writer[] = [];
  let scheduled = false;
  let closed = false;

  const schedule = (): void => {
    if (scheduled) return;
    scheduled = true;
    // After the I/O callbacks of this turn: requests that arrived together are committed together.
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
      // the transaction is gone already
    }
  };

  /**
   * Runs as many of a group as time allows in one transaction; the functions it returns settle these writers. Nearly no writer throws
   * after it has written, so a group is first run without a savepoint for each: should one throw, everything is undone and `undefined`
   * returned, and the group is run again with them.
   */
  const transaction = (group: readonly Writer[], isolated: boolean): (() => void)[] | undefined => {
    const outcomes: (() => void)[] = [];
    let changed = false;
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
        if (storeErrorFrom(error) !== undefined) throw error; // SQLite may have ended the transaction by itself
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
    if (changed) commits++;
    return outcomes;
  };

  /** Set when a sync failed: what the disk holds is not known any more. */
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
        "Look at the disk; then start again.",
        error,
      );
      throw broken;
    }
  };

  /**
   * Takes the log over into the database when it is long. The log is durable by now, and is not written again before the database is, too:
   * only then may it begin anew.
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
      if (files !== undefined) {
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
    if (files !== undefined) await checkpoint(longLogBytes).catch(() => {}); // then the next commit says what is wrong
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
      await checkpoint(1).catch(() => {}); // a disk that fails at the very end: the next start recovers from the log
      await mark?.close();
      released = true;
      statements.clear();
      release(connection);
      connection.close();
      files?.close();
    },
  };
}

const storeClosed = (): StoreError => new StoreError("io", "The store is closed.", "The server is shutting down.");

/**
 * Gives the lock back. Statements keep a connection alive until they are collected, so closing alone would leave the folder
 * locked for the rest of the process; leaving WAL also folds the log into the one file that then holds everything.
 */
function release(connection: Libsql.Database): void {
  try {
    connection.pragma("synchronous = FULL");
    connection.pragma("journal_mode = DELETE");
  } catch {
    // a disk that fails at the very end: the next start recovers from the log
  }
  unlock(connection);
}

/** The lock is given back by the first read after the mode was changed. */
function unlock(connection: Libsql.Database): void {
  try {
    connection.pragma("locking_mode = NORMAL");
    connection.prepare("SELECT COUNT(*) FROM sqlite_master").get();
  } catch {
    // a file that cannot be read: the lock ends with the process
  }
}

/** A quick look for damage. Its cost grows with the file, so large ones are only checked when SQLite itself stumbles. */
const quickCheckLimitBytes = 256 * 1024 * 1024;

const firstValue = (rows: unknown): unknown => Object.values((rows as SqlRow[])[0] ?? {})[0];
const sizeOf = (connection: Libsql.Database): number =>
  Number(firstValue(connection.pragma("page_count"))) * Number(firstValue(connection.pragma("page_size")));

/** Lets the file of an older version become smaller; a large one is left as it is, since that copies all of it. */
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

/** The number of the last commit that the database holds; 0 for a new one, and for one of a release that did not count. */
function countedCommits(connection: Libsql.Database): number {
  if (connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'meta'").get() === undefined) return 0;
  const row = connection.prepare("SELECT value FROM meta WHERE key = 'commits'").get() as SqlRow | undefined;
  return Number(row?.value ?? 0);
}

/** @throws {@link StoreError} when commits that were on the disk are missing. Closing deletes the log, so a copy of it is kept. */
function checkCommits(file: string, commits: number): void {
  const marked = readCommitMark(file);
  if (commits >= marked) return;
  const log = `${file}-wal`;
  const copy = `${log}.damaged-${marked}`;
  if (existsSync(log) && !existsSync(copy)) copyFileSync(log, copy, constants.COPYFILE_EXCL);
  const kept = existsSync(copy) ? ` The log as it was found is kept as ${basename(copy)}.` : "";
  throw new StoreError(
    "lost_commits",
    `The database ends with commit ${commits}, and commit ${marked} was on the disk (${basename(file)}-mark): ${marked - commits} commits are missing. The log (${basename(log)}) was damaged or removed, or the database was replaced by an older copy.${kept}`,
    `Restore the whole data folder from a backup; to continue without the missing commits, delete ${basename(file)}-mark and start again.`,
  );
}

function migrate(connection: Libsql.Database): void {
  const rows = connection.pragma("user_version") as SqlRow[];
  const found = Number(Object.values(rows[0] ?? {})[0] ?? 0);
  if (found > formatVersion) {
    throw new StoreError(
      "too_new",
      `The data folder has format ${found}, and this version reads up to ${formatVersion}.`,
      "Update @tinklet/server, or choose another data folder (--data-dir, dataDir).",
    );
  }
  for (let version = found; version < formatVersion; version++) {
    connection.exec(`BEGIN IMMEDIATE; ${migrations[version]}; PRAGMA user_version = ${version + 1}; COMMIT`);
  }
}
