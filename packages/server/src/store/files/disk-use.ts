/** The space that a data folder takes up, by kind, in bytes. Uses the stored sizes of folders, so it reads no files. */
import type { Sql } from "../database.ts";

export interface DiskUse {
  /** The database: sessions, unfinished requests, results. */
  readonly databaseBytes: number;
  /** Folders of checkpoints. */
  readonly checkpointsBytes: number;
  /** Folders of snapshots that are not also checkpoints. */
  readonly statesBytes: number;
  /** Folders of unnamed samplers. */
  readonly samplersBytes: number;
  readonly totalBytes: number;
}

export function diskUse(sql: Sql): DiskUse {
  const number = (text: string): number => Number(Object.values(sql.get(text) ?? {})[0] ?? 0);
  const sum = (where: string) => number(`SELECT COALESCE(SUM(bytes), 0) AS n FROM files WHERE ${where}`);
  const isCheckpoint = "EXISTS (SELECT 1 FROM checkpoints WHERE files_id = files.id)";
  const isState = "EXISTS (SELECT 1 FROM models WHERE snapshot_files = files.id)";
  const databaseBytes = number("PRAGMA page_count") * number("PRAGMA page_size");
  const checkpointsBytes = sum(isCheckpoint);
  const statesBytes = sum(`NOT ${isCheckpoint} AND ${isState}`);
  const samplersBytes = sum(`NOT ${isCheckpoint} AND NOT ${isState}`);
  const totalBytes = databaseBytes + checkpointsBytes + statesBytes + samplersBytes;
  return { databaseBytes, checkpointsBytes, statesBytes, samplersBytes, totalBytes };
}

/** A run and the size of its checkpoints. */
export interface RunUse {
  readonly run: string;
  readonly checkpoints: number;
  readonly bytes: number;
}

/** The runs of a tenant with the largest checkpoints. */
export const largestRuns = (sql: Sql, tenant: string, limit: number): RunUse[] =>
  sql.all<RunUse>(
    `SELECT run_id AS run, COUNT(*) AS checkpoints, SUM(bytes) AS bytes FROM checkpoints WHERE tenant = ?
     GROUP BY run_id ORDER BY bytes DESC, run_id LIMIT ?`,
    tenant,
    limit,
  );
