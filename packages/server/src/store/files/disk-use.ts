/** What the data folder is used for, in bytes. Folders are counted as they were when they were written, so that counting reads no file. */
import type { Sql } from "../database.ts";

export interface DiskUse {
  /** The database: sessions, requests that wait, results. */
  readonly databaseBytes: number;
  /** Folders of checkpoints. */
  readonly checkpointsBytes: number;
  /** Folders that bring models back and that no checkpoint holds. */
  readonly statesBytes: number;
  /** Folders of samplers that were saved without a name. */
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

/** A run and what its checkpoints take up. */
export interface RunUse {
  readonly run: string;
  readonly checkpoints: number;
  readonly bytes: number;
}

/** The runs of a tenant whose checkpoints take up most. */
export const largestRuns = (sql: Sql, tenant: string, limit: number): RunUse[] =>
  sql.all<RunUse>(
    `SELECT run_id AS run, COUNT(*) AS checkpoints, SUM(bytes) AS bytes FROM checkpoints WHERE tenant = ?
     GROUP BY run_id ORDER BY bytes DESC, run_id LIMIT ?`,
    tenant,
    limit,
  );
