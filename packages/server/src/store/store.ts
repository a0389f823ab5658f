/**
 * The data folder as a whole: database, adapter files, and the server's own secret. Opening repairs what a crash left behind
 * (folders that no row knows, rows whose folder was already being removed).
 */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Database, type DatabaseOptions, openDatabase } from "./database.ts";
import { type FileStore, memoryFileStore, openFileStore } from "./file-store.ts";
import { dropUnusedFiles } from "./models.ts";
import { StoreError, storeErrorFrom } from "./store-error.ts";

export interface Store {
  readonly db: Database;
  readonly files: FileStore;
  /** Whether anything outlives the process. */
  readonly durable: boolean;
  /** Signs request ids, download links and tokens. Made once per data folder. */
  readonly secret: Buffer;
  /** Removes folders that nothing refers to. Safe at any time: a folder being written has no row yet, and is skipped. */
  collect(): Promise<number>;
  close(): Promise<void>;
}

export interface StoreOptions extends Omit<DatabaseOptions, "file"> {
  /** Absent: everything is kept in memory and lost with the process. */
  readonly dataDir?: string | undefined;
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
      const other = new StoreError("read_only", "The data folder cannot be made.", "Choose another --data-dir.", cause);
      throw storeErrorFrom(cause) ?? other;
    });
  }
  const db = openDatabase({ ...options, file: dataDir === undefined ? ":memory:" : join(dataDir, "tinklet.db") });
  try {
    const files = dataDir === undefined ? memoryFileStore() : await openFileStore(dataDir, options.onPoint);
    const secret = await readSecret(db);
    const known = new Set(db.sql.all<{ id: string }>("SELECT id FROM files").map(({ id }) => id));
    for (const folder of await files.listFolders()) if (!known.has(folder)) await files.removeFolder(folder);
    const store: Store = {
      db,
      files,
      durable: dataDir !== undefined,
      secret,
      collect: async () => {
        const unused = await db.write(dropUnusedFiles);
        for (const id of unused) await files.removeFolder(id);
        return unused.length;
      },
      close: () => db.close(),
    };
    await store.collect();
    return store;
  } catch (error) {
    await db.close();
    throw error;
  }
}

async function readSecret(db: Database): Promise<Buffer> {
  const made = randomBytes(32).toString("hex");
  const kept = await db.write((sql) => {
    sql.run("INSERT INTO meta (key, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING", made);
    return sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'secret'")!.value;
  });
  return Buffer.from(kept, "hex");
}
