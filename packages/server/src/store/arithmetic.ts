/** Which arithmetic the passes in a data folder were computed with: a number in the folder, so that a change of it can be told. */
import type { Database } from "./database.ts";

/** What folders hold that were written before the number was. */
const firstArithmetic = 1;

/**
 * Writes this release's number into the folder.
 *
 * @returns both numbers where the folder had another one, else undefined.
 */
export async function keepArithmetic(
  db: Database,
  release: number,
): Promise<{ readonly folder: number; readonly release: number } | undefined> {
  const folder = await db.write((sql) => {
    const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'arithmetic'");
    const used = sql.get("SELECT 1 FROM models LIMIT 1") !== undefined;
    sql.run(
      "INSERT INTO meta (key, value) VALUES ('arithmetic', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
      String(release),
    );
    if (row !== undefined) return Number(row.value);
    return used ? firstArithmetic : release;
  });
  return folder === release ? undefined : { folder, release };
}
