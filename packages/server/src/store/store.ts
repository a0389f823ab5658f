/**
 * The data folder as a whole: database, adapter files, and the server's own secret. Opening repairs what a crash left behind:
 * folders that nothing owned are removed; folders that were owned and that the database does not know are set aside and named, since
 * only a database that is older than they are, or another one, does not know them.
 */
import { chmod, mkdir, open as openFile, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { randomHex } from "@tinklet/wire/entropy";
import { readCommitMark } from "./commit-mark.ts";
import { type Database, type DatabaseOptions, openDatabase } from "./database.ts";
import { type FileStore, memoryFileStore, openFileStore } from "./files/file-store.ts";
import { removeOldScratch } from "./files/scratch.ts";
import { createRunningMarks, type RunningMarks } from "./running.ts";
import { StoreError, storeErrorFrom } from "./store-error.ts";
import { dropUnusedFiles, unusedFiles } from "./tables/models.ts";

export interface Store {
  readonly db: Database;
  readonly files: FileStore;
  readonly running: RunningMarks;
  /** Whether anything outlives the process. */
  readonly durable: boolean;
  /** Signs request ids, download links and tokens. Made once per data folder. */
  readonly secret: Buffer;
  /** Where folders went that the database does not know, when the store was opened. */
  readonly setAside: readonly string[];
  /** Keeps a folder though nothing refers to it, until the function that is returned is called. */
  pin(filesId: string): () => void;
  /** Removes folders that nothing refers to. Safe at any time: a folder being written has no row yet, and is skipped. */
  collect(): Promise<number>;
  close(): Promise<void>;
}

export interface StoreOptions extends Omit<DatabaseOptions, "file"> {
  /** Absent: everything is kept in memory and lost with the process. */
  readonly dataDir?: string | undefined;
}

/** Pages of the database that are given back to the disk at once: four megabytes, some milliseconds. */
const freedPages = 1000;

async function shrink(db: Database): Promise<void> {
  try {
    await db.write((sql) => sql.all(`PRAGMA incremental_vacuum(${freedPages})`));
  } catch (error) {
    unlessFull(error);
  }
}

/** A full disk is no reason to fail at making room. */
function unlessFull(error: unknown): void {
  if (storeErrorFrom(error)?.code !== "full") throw error;
}

/** @throws {@link StoreError} with the folder's name and what to do about it. */
export async function openStore(options: StoreOptions = {}): Promise<Store> {
  try {
    return await open(options);
  } catch (error) {
    throw storeErrorFrom(error)?.of(options.dataDir ?? "the store in memory") ?? error;
  }
}

async function open(options: StoreOptions): Promise<Store> {
  const { dataDir } = options;
  if (dataDir !== undefined) {
    await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
      const other = new StoreError(
        "read_only",
        "The data folder cannot be made.",
        "Choose another data folder (--data-dir, dataDir).",
        cause,
      );
      throw storeErrorFrom(cause) ?? other;
    });
    await prepareDatabaseFile(dataDir);
  }
  if (dataDir === undefined) await removeOldScratch();
  const db = openDatabase({ ...options, file: dataDir === undefined ? ":memory:" : join(dataDir, "tinklet.db") });
  try {
    const files =
      dataDir === undefined ? memoryFileStore() : await openFileStore(dataDir, { onPoint: options.onPoint });
    const secret = await readSecret(db);
    const setAside = await claimFolders(db, files);
    const running = createRunningMarks(dataDir);
    const pinned = new Map<string, number>();
    const store: Store = {
      db,
      files,
      running,
      durable: dataDir !== undefined,
      secret,
      setAside,
      pin: (filesId) => {
        pinned.set(filesId, (pinned.get(filesId) ?? 0) + 1);
        let held = true;
        return () => {
          if (!held) return;
          held = false;
          const left = (pinned.get(filesId) ?? 1) - 1;
          if (left === 0) pinned.delete(filesId);
          else pinned.set(filesId, left);
        };
      },
      collect: async () => {
        // Marked before their rows go: should the process end in between, the next start knows that nothing wants them.
        const candidates = unusedFiles(db.sql).filter((id) => !pinned.has(id));
        // On a full disk not even the mark has room; then removing them all the same is what makes some.
        for (const id of candidates) await files.markOwned(id, false).catch(unlessFull);
        const { dropped, kept } = await db.write((sql) => dropUnusedFiles(sql, candidates, (id) => pinned.has(id)));
        for (const id of kept) await files.markOwned(id, true);
        for (const id of dropped) await files.removeFolder(id);
        if (dataDir !== undefined) await shrink(db);
        return dropped.length;
      },
      close: async () => {
        await db.close();
        running.clear();
      },
    };
    await store.collect();
    return store;
  } catch (error) {
    await db.close();
    throw error;
  }
}

/**
 * Makes the database's file, for its owner alone: it holds the server's secret. Refuses when there is none and adapters are: a
 * database that starts empty would know of no checkpoint.
 */
async function prepareDatabaseFile(dataDir: string): Promise<void> {
  const file = join(dataDir, "tinklet.db");
  const found = await stat(file).catch(() => undefined);
  if (found === undefined || (found.isFile() && found.size === 0)) {
    const adapters = await readdir(join(dataDir, "adapters"), { withFileTypes: true }).catch(() => []);
    const count = adapters.filter((entry) => entry.isDirectory()).length;
    const again = "Put tinklet.db back, with the tinklet.db-wal and tinklet.db-shm that lay beside it, or restore it";
    if (count > 0) {
      throw new StoreError(
        "no_database",
        `adapters/ holds ${count} ${count === 1 ? "folder" : "folders"}, and there is no database (tinklet.db) that says what they are.`,
        `${again} from a backup; to begin anew, move adapters/ away or start with another data folder (--data-dir, dataDir).`,
      );
    }
    // SQLite deletes a log that it finds beside an empty database, and with it what was committed last.
    const log = await stat(`${file}-wal`).catch(() => undefined);
    if (log !== undefined && log.size > 0) {
      throw new StoreError(
        "no_database",
        "There is the log of a database (tinklet.db-wal), and no database (tinklet.db) that it belongs to.",
        `${again} from a backup; to begin anew, move tinklet.db-wal away or start with another data folder (--data-dir, dataDir).`,
      );
    }
    const commits = readCommitMark(file);
    if (commits > 0) {
      throw new StoreError(
        "no_database",
        `There is no database (tinklet.db), and it held ${commits} commits (tinklet.db-mark).`,
        `${again} from a backup; to begin anew, delete tinklet.db-mark or start with another data folder (--data-dir, dataDir).`,
      );
    }
  }
  if (found === undefined) await (await openFile(file, "a", 0o600)).close();
  else if (found.isFile() && (found.mode & 0o077) !== 0) await chmod(file, 0o600);
}

/** Brings folders and rows together; returns where folders went that were owned by something the database does not know. */
async function claimFolders(db: Database, files: FileStore): Promise<string[]> {
  const known = new Set(db.sql.all<{ id: string }>("SELECT id FROM files").map(({ id }) => id));
  const setAside: string[] = [];
  for (const { id, unowned } of await files.listFolders()) {
    if (known.has(id)) {
      if (unowned) await files.markOwned(id, true);
    } else if (unowned) await files.removeFolder(id);
    else setAside.push(await files.setAside(id));
  }
  return setAside;
}

async function readSecret(db: Database): Promise<Buffer> {
  const made = randomHex(32);
  const kept = await db.write((sql) => {
    sql.run("INSERT INTO meta (key, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING", made);
    return sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'secret'")!.value;
  });
  return Buffer.from(kept, "hex");
}
