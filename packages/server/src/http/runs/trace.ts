/**
 * A session's requests in the Trace Event Format, which Perfetto opens: one process for the session, one track per model and sampler, and
 * per request one span for its waiting time and one for its run time.
 */
import type { Sql } from "../../store/database.ts";
import { type TraceRow, tracePage } from "../../store/tables/requests.ts";

const pageRows = 1000;

export async function* traceStream(sql: Sql, sessionId: string): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder();
  const tracks = new Map<string, number>();
  yield encoder.encode(
    `{"displayTimeUnit":"ms","traceEvents":[\n${JSON.stringify({ ph: "M", pid: 1, name: "process_name", args: { name: sessionId } })}`,
  );
  for (let after = 0; ; ) {
    const rows = tracePage(sql, sessionId, after, pageRows);
    let text = "";
    for (const row of rows) {
      const owner = row.owner ?? "samples";
      let tid = tracks.get(owner);
      if (tid === undefined) {
        tid = tracks.size + 1;
        tracks.set(owner, tid);
        text += `,\n${JSON.stringify({ ph: "M", pid: 1, tid, name: "thread_name", args: { name: owner } })}`;
      }
      for (const event of spans(row, tid)) text += `,\n${JSON.stringify(event)}`;
    }
    if (text !== "") yield encoder.encode(text);
    if (rows.length < pageRows) break;
    after = rows.at(-1)!.id;
  }
  yield encoder.encode("\n]}\n");
}

/** Waiting is an asynchronous span, because the spans of several requests overlap; running is a complete one. Times in microseconds. */
function spans(row: TraceRow, tid: number): unknown[] {
  const base = { pid: 1, tid, cat: row.kind };
  const args = { request: row.id, state: row.state, tokens: row.tokens };
  const started = row.started_at ?? row.finished_at;
  const events: unknown[] = [
    { ...base, ph: "b", id: row.id, name: `${row.kind} waits`, ts: row.accepted_at * 1000, args },
    ...(started === null ? [] : [{ ...base, ph: "e", id: row.id, name: `${row.kind} waits`, ts: started * 1000 }]),
  ];
  if (row.started_at !== null && row.finished_at !== null) {
    const dur = (row.finished_at - row.started_at) * 1000;
    events.push({ ...base, ph: "X", name: row.kind, ts: row.started_at * 1000, dur, args });
  }
  return events;
}
