/**
 * Deletes sessions with their runs, checkpoints, samplers, requests, results, usage and audit entries. Only for a store that no server uses,
 * because a server may have the models in memory.
 */
import type { Sql } from "./database.ts";
import type { Store } from "./store.ts";

/** Sessions per transaction. */
const batch = 20;

/** @returns how many were deleted. Sessions with unfinished requests are kept. */
export async function deleteSessions(store: Store, ids: readonly string[]): Promise<number> {
  let deleted = 0;
  for (let at = 0; at < ids.length; at += batch) {
    deleted += await store.db.write((sql) => ids.slice(at, at + batch).filter((id) => deleteSession(sql, id)).length);
  }
  await store.collect();
  await store.db.write((sql) => sql.all("PRAGMA incremental_vacuum"));
  return deleted;
}

function deleteSession(sql: Sql, id: string): boolean {
  if (sql.get("SELECT 1 FROM requests WHERE session_id = ? AND state = 'pending' LIMIT 1", id) !== undefined)
    return false;
  sql.run("DELETE FROM audit WHERE model_id IN (SELECT id FROM models WHERE session_id = ?)", id);
  for (const table of ["requests", "checkpoints", "samplers", "custom_losses", "usage", "steps", "models"]) {
    sql.run(`DELETE FROM ${table} WHERE session_id = ?`, id);
  }
  return sql.run("DELETE FROM sessions WHERE id = ?", id).changes > 0;
}
