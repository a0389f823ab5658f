/** The times of the last starts of the server, for the events of runs; stored in the data folder. */
import type { Database, Sql } from "../database.ts";

const keptStarts = 50;

/** The times of the last starts, oldest first. */
export function startTimes(sql: Sql): readonly number[] {
  const row = sql.get<{ value: string }>("SELECT value FROM meta WHERE key = 'starts'");
  return row === undefined ? [] : (JSON.parse(row.value) as number[]);
}

export async function noteStart(db: Database, now: number): Promise<void> {
  await db.write((sql) => {
    const starts = [...startTimes(sql), now].slice(-keptStarts);
    sql.run(
      "INSERT INTO meta (key, value) VALUES ('starts', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
      JSON.stringify(starts),
    );
  });
}
