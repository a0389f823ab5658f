/** When the server was started, for the events of runs: the last so many times, in the data folder. */
import type { Database, Sql } from "../database.ts";

const keptStarts = 50;

/** Times at which the server was started, the first one first. */
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
