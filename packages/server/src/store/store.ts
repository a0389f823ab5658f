/**
 * The data folder: database, adapter files, and the server's secret. Opening it cleans up after a crash: unowned folders are removed. An
 * owned folder without a row means that the database is older than the folder or another one; such folders are moved to `lost/` and
 * reported, never deleted.
 */
import { chmod, mkdir, open as openFile, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { randomHex } from "@tinklet/wire/entropy";
import { readCommitMark } from "./commit-mark.ts";
import { type Database, type DatabaseOptions, openDatabase } from "./database.ts";
import { type FileStore, memoryFileStore, openFileStore } from "./files/file-store.ts";
import { removeOldScratch } from "./files/scratch.ts";
import { createRunningMarks, type RunningMarks } from "./running.ts";
import { readRecord } from "./server-record.ts";
import { anotherFolder, lockedError, StoreError, storeErrorFrom } from "./store-error.ts";
import { dropUnusedFiles, unusedFiles } from "./tables/models.ts";

export interface Store {
  readonly db: Database;
  readonly files: FileStore;
  readonly running: RunningMarks;
  /** Whether the data is on disk and outlives the process. */
  readonly durable: boolean;
  /** Signs request ids, download links and tokens. Created once per data folder. */
  readonly secret: Buffer;
  /** Paths of the folders that were moved to `lost/` when the store was opened, because the database has no row for them. */
  readonly setAside: readonly string[];
  /** Prevents {@link collect} from removing a folder. Returns the function that ends this. */
  pin(filesId: string): () => void;
  /** Removes folders that no row refers to. Safe at any time: a folder that is being written has no row yet and is skipped. */
  collect(): Promise<number>;
  close(): Promise<void>;
}

export interface StoreOptions extends Omit<DatabaseOptions, "file"> {
  /** Absent: all data is kept in memory and lost with the process. */
  readonly dataDir?: string | undefined;
}

/** Database pages returned to the file system per vacuum: 4 MB, some milliseconds. */
const freedPages = 1000;

async function shrink(db: Database): Promise<void> {
  if (Number(db.sql.get<{ freelist_count: number }>("PRAGMA freelist_count")?.freelist_count ?? 0) === 0) return;
  try {
    await db.write((sql) => sql.all(`PRAGMA incremental_vacuum(${freedPages})`));
  } catch (error) {
    unlessFull(error);
  }
}

/** Ignores a full disk: freeing space must work there. */
function unlessFull(error: unknown): void {
  if (storeErrorFrom(error)?.code !== "full") throw error;
}

/** @throws {@link StoreError} naming the folder and the fix. */
export async function openStore(options: StoreOptions = {}): Promise<Store> {
  try {
    return await open(options);
  } catch (error) {
    const known = storeErrorFrom(error);
    const owner =
      known?.code === "locked" && options.dataDir !== undefined ? await readRecord(options.dataDir) : undefined;
    if (owner !== undefined && options.dataDir !== undefined) throw lockedError(options.dataDir, owner, error);
    throw known?.of(options.dataDir ?? "the store in memory") ?? error;
  }
}

async function open(options: StoreOptions): Promise<Store> {
  const { dataDir } = options;
  if (dataDir !== undefined) {
    await mkdir(dataDir, { recursive: true, mode: 0o700 }).catch((cause: unknown) => {
      const other = new StoreError(
        "read_only",
        "The data folder cannot be created.",
        ["Choose another data folder (", { name: "dataDir" }, ")."],
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
        // Marked before their rows are deleted: after a crash in between, the next start removes the folders.
        const candidates = unusedFiles(db.sql).filter((id) => !pinned.has(id));
        // On a full disk the marker cannot be written. The folders are removed without it, because that frees space.
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
 * Creates the database file with mode 0600, because it contains the server's secret. Refuses to create an empty database beside existing
 * adapters, a log or a commit mark: it would hide that the real database is missing.
 */
async function prepareDatabaseFile(dataDir: string): Promise<void> {
  const file = join(dataDir, "tinklet.db");
  const found = await stat(file).catch(() => undefined);
  if (found === undefined || (found.isFile() && found.size === 0)) {
    const adapters = await readdir(join(dataDir, "adapters"), { withFileTypes: true }).catch(() => []);
    const count = adapters.filter((entry) => entry.isDirectory()).length;
    const restore =
      "Restore tinklet.db, with the tinklet.db-wal and tinklet.db-shm that belong to it, from where it was moved or";
    if (count > 0) {
      throw new StoreError(
        "no_database",
        `The database (tinklet.db) is missing, but adapters/ contains ${count} ${count === 1 ? "folder" : "folders"}.`,
        [`${restore} from a backup; to start without it, move adapters/ away or `, ...anotherFolder, "."],
      );
    }
    // SQLite deletes a log beside an empty database, and with it the last commits.
    const log = await stat(`${file}-wal`).catch(() => undefined);
    if (log !== undefined && log.size > 0) {
      throw new StoreError(
        "no_database",
        "The database (tinklet.db) is missing, but its log (tinklet.db-wal) exists.",
        [`${restore} from a backup; to start without it, move tinklet.db-wal away or `, ...anotherFolder, "."],
      );
    }
    const commits = readCommitMark(file);
    if (commits > 0) {
      throw new StoreError(
        "no_database",
        `The database (tinklet.db) is missing, but it had ${commits} commits (tinklet.db-mark).`,
        [`${restore} from a backup; to start without it, delete tinklet.db-mark or `, ...anotherFolder, "."],
      );
    }
  }
  if (found === undefined) await (await openFile(file, "a", 0o600)).close();
  else if (found.isFile() && (found.mode & 0o077) !== 0) await chmod(file, 0o600);
}

/** Reconciles the folders with their rows; returns the paths of the folders that were moved to `lost/`. */
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
