/** What takes up space in a data folder, by kind and by run, largest first. */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Sql } from "../database.ts";
import { marksFile } from "../running.ts";
import { importedBy } from "../tables/models.ts";
import { diskUse } from "./disk-use.ts";
import { unlessMissing } from "./file-store.ts";

/**
 * `caches`: imported adapters; `states`: snapshots of models in training; `samplers`: weights saved without a name; `pending_requests`:
 * payloads of unfinished requests; `replay`: payloads of requests after the last snapshot of their model; `results`: results that clients
 * may still retrieve; `traces`: spans that programs exported; `database`: the rest of the database; `lost`: folders without a row in the database; `other`: files that do not
 * belong to the server.
 */
export type DataKind =
  | "checkpoints"
  | "caches"
  | "states"
  | "samplers"
  | "pending_requests"
  | "replay"
  | "results"
  | "traces"
  | "database"
  | "lost"
  | "other";

/** The space that one kind of data takes up. */
export interface KindUse {
  readonly kind: DataKind;
  /** Number of items; 1 for the database. */
  readonly count: number;
  readonly bytes: number;
}

/** A training run and its data. Folders that two runs share count for both. */
export interface RunData {
  readonly runId: string;
  /** `null` for a run that no server has named yet. */
  readonly name: string | null;
  readonly baseModel: string;
  /** When its last request finished, in milliseconds since the epoch. */
  readonly lastUsedAt: number;
  readonly checkpoints: number;
  /** Number of published checkpoints. */
  readonly published: number;
  readonly pendingRequests: number;
  /** Checkpoints, snapshot, and payloads and results of requests. */
  readonly bytes: number;
}

/** The space that a data folder takes up. */
export interface DataUse {
  readonly totalBytes: number;
  /** Largest first; kinds without items are omitted. */
  readonly kinds: readonly KindUse[];
  /** Largest first. */
  readonly runs: readonly RunData[];
}

/** A file or folder. */
export interface FolderItem {
  readonly name: string;
  readonly bytes: number;
  readonly changedAt: number;
}

/** Names that the store uses in the data folder. */
const storeNames = new Set(["adapters", "tmp", "lost", marksFile]);
const isOfStore = (name: string): boolean =>
  storeNames.has(name) || /^tinklet\.db(-wal(\.damaged-\d+)?|-shm|-journal|-mark)?$/.test(name);

export async function dataUse(sql: Sql, dataDir: string): Promise<DataUse> {
  const disk = diskUse(sql);
  const one = (text: string, ...params: string[]): { count: number; bytes: number } => {
    // The driver adds a property to a single row.
    const { count: rows, bytes } = sql.get<{ count: number; bytes: number }>(text, ...params)!;
    return { count: rows, bytes };
  };
  const count = (text: string) => one(`SELECT COUNT(*) AS count ${text}`).count;
  const files = "SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM files";
  const imports = one(
    `${files} WHERE id IN (SELECT files_id FROM checkpoints JOIN sessions ON sessions.id = session_id WHERE sdk_version = ?)`,
    importedBy,
  );
  const blobs = (column: string, where: string) =>
    one(`SELECT COUNT(*) AS count, COALESCE(SUM(LENGTH(${column})), 0) AS bytes FROM requests WHERE ${where}`);
  const pending = blobs("payload", "state = 'pending'");
  const replay = blobs("payload", "payload IS NOT NULL AND state <> 'pending'");
  const results = blobs("result", "result IS NOT NULL");
  const traces = one("SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM traces");
  const inRows = pending.bytes + replay.bytes + results.bytes + traces.bytes;
  const lost = await lostItems(dataDir);
  const other = await itemsOf(dataDir, (name) => !isOfStore(name));
  const ofCheckpoint = "EXISTS (SELECT 1 FROM checkpoints WHERE files_id = files.id)";
  const ofState = "EXISTS (SELECT 1 FROM models WHERE snapshot_files = files.id)";
  const kinds: KindUse[] = [
    {
      kind: "checkpoints",
      count: count(`FROM files WHERE ${ofCheckpoint}`) - imports.count,
      bytes: disk.checkpointsBytes - imports.bytes,
    },
    { kind: "caches", ...imports },
    { kind: "states", count: count(`FROM files WHERE NOT ${ofCheckpoint} AND ${ofState}`), bytes: disk.statesBytes },
    {
      kind: "samplers",
      count: count(`FROM files WHERE NOT ${ofCheckpoint} AND NOT ${ofState}`),
      bytes: disk.samplersBytes,
    },
    { kind: "pending_requests", ...pending },
    { kind: "replay", ...replay },
    { kind: "results", ...results },
    { kind: "traces", ...traces },
    { kind: "database", count: 1, bytes: Math.max(0, disk.databaseBytes - inRows) },
    { kind: "lost", count: lost.length, bytes: bytesOfItems(lost) },
    { kind: "other", count: other.length, bytes: bytesOfItems(other) },
  ];
  return {
    totalBytes: kinds.reduce((sum, { bytes }) => sum + bytes, 0),
    kinds: kinds.filter((kind) => kind.count > 0).toSorted((a, b) => b.bytes - a.bytes),
    runs: runData(sql),
  };
}

/** All training runs; imported adapters are not training runs. */
const runData = (sql: Sql): RunData[] =>
  sql.all<RunData>(
    `SELECT models.id AS runId, models.name AS name, base_model AS baseModel, last_request_at AS lastUsedAt,
       (SELECT COUNT(*) FROM checkpoints WHERE run_id = models.id) AS checkpoints,
       (SELECT COUNT(*) FROM checkpoints WHERE run_id = models.id AND public = 1) AS published,
       COALESCE(pending, 0) AS pendingRequests,
       COALESCE(kept, 0) + (SELECT COALESCE(SUM(bytes), 0) FROM files WHERE id = snapshot_files
         OR id IN (SELECT files_id FROM checkpoints WHERE run_id = models.id)) AS bytes
     FROM models JOIN sessions ON sessions.id = models.session_id
       LEFT JOIN (SELECT model_id, SUM(state = 'pending') AS pending,
           SUM(COALESCE(LENGTH(payload), 0) + COALESCE(LENGTH(result), 0)) AS kept
         FROM requests WHERE model_id IS NOT NULL GROUP BY model_id) ON model_id = models.id
     WHERE sdk_version <> ? ORDER BY bytes DESC, models.id`,
    importedBy,
  );

/** The folders in `lost/`; none if it is a link, because what it points to is not of the store and must not be deleted. */
export async function lostItems(dataDir: string): Promise<FolderItem[]> {
  const folder = join(dataDir, "lost");
  const found = await lstat(folder).catch(unlessMissing);
  return found?.isDirectory() === true ? itemsOf(folder, () => true) : [];
}

export const bytesOfItems = (items: readonly FolderItem[]): number => items.reduce((sum, { bytes }) => sum + bytes, 0);

/** The items of a folder with their total sizes; none if the folder does not exist. Links are not followed. */
async function itemsOf(folder: string, isIncluded: (name: string) => boolean): Promise<FolderItem[]> {
  const names = await readdir(folder).catch(unlessMissing);
  const items: FolderItem[] = [];
  for (const name of (names ?? []).filter(isIncluded)) {
    const path = join(folder, name);
    const found = await lstat(path).catch(unlessMissing);
    if (found === undefined) continue;
    const bytes = found.isDirectory() ? bytesOfItems(await itemsOf(path, () => true)) : found.size;
    items.push({ name, bytes, changedAt: found.mtimeMs });
  }
  return items;
}
