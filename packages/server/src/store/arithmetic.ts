/** The version of the engine's arithmetic, stored in the data folder, so that the server can warn when a release computes other values. */
import type { Database } from "./database.ts";

/** The version of folders that were written before it was stored. */
const firstArithmetic = 1;

/**
 * Writes the version of this release into the folder.
 *
 * @returns both versions if the folder had another one, else `undefined`.
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

/** Devices of folders that were written before devices were stored. */
const firstDevice = "cpu";

/**
 * Stores the kinds of device that the folder is used on: bits of passes are promised on one kind only.
 *
 * @returns the kinds before if they were others, otherwise undefined.
 */
export async function keepDevice(db: Database, device: string): Promise<string | undefined> {
  const before = await db.write((sql) => {
    const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'device'");
    const used = sql.get("SELECT 1 FROM models LIMIT 1") !== undefined;
    sql.run(
      "INSERT INTO meta (key, value) VALUES ('device', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
      device,
    );
    return row?.value ?? (used ? firstDevice : device);
  });
  return before === device ? undefined : before;
}
