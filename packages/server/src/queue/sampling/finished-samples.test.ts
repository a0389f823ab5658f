import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it } from "vitest";
import { type Completion, Completions, clientOf } from "./finished-samples.ts";

const tenant = "t";
const target = { samplerId: "s:sample:0", client: 0 };
const done = (id: number): Completion => ({ id, state: "done", bytes: 10 });

const setUp = (known: Completion[] = []) => {
  const clock = new FakeClock();
  return { clock, known, completions: new Completions({ clock, known: () => known }) };
};
const ids = ({ completions }: { completions: readonly Completion[] }): number[] => completions.map(({ id }) => id);

describe("Completions", () => {
  it("returns samples that finished before the first poll, then each further one once", async () => {
    const { completions } = setUp([done(1), done(2)]);
    const first = await completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    expect(ids(first)).toEqual([1, 2]);
    const next = completions.next({ tenant, target, after: first.cursor, timeoutMs: 1000 });
    completions.note(target, done(3));
    expect(ids(await next)).toEqual([3]);
  });

  it("repeats completions after the cursor, because a response may be lost", async () => {
    const { completions } = setUp([done(1)]);
    const { cursor } = await completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    completions.note(target, done(2));
    expect(ids(await completions.next({ tenant, target, after: cursor, timeoutMs: 1000 }))).toEqual([2]);
    const again = await completions.next({ tenant, target, after: cursor, timeoutMs: 1000 });
    expect(ids(again)).toEqual([2]);
  });

  it("creates the log again for a client that starts at cursor 0", async () => {
    const { completions, known } = setUp();
    const { cursor } = await completions.next({ tenant, target, after: 0, timeoutMs: 0 });
    known.push(done(1));
    completions.note(target, done(1));
    const { cursor: seen } = await completions.next({ tenant, target, after: cursor, timeoutMs: 1000 });
    await completions.next({ tenant, target, after: seen, timeoutMs: 0 }); // drops the completions that were seen
    expect(ids(await completions.next({ tenant, target, after: 0, timeoutMs: 0 }))).toEqual([1]);
  });

  it("creates the log again for a cursor of an earlier process", async () => {
    const { completions, known, clock } = setUp([done(1)]);
    const { cursor } = await completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    clock.jump(5000);
    const later = new Completions({ clock, known: () => known });
    expect(ids(await later.next({ tenant, target, after: cursor, timeoutMs: 1000 }))).toEqual([1]);
  });

  it("begins again for a cursor of an earlier process whose clock was ahead", async () => {
    const { completions, known, clock } = setUp([done(1)]);
    const { cursor } = await completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    clock.jump(-600_000);
    const later = new Completions({ clock, known: () => known });
    const first = await later.next({ tenant, target, after: cursor, timeoutMs: 1000 });
    expect(ids(first)).toEqual([1]);
    later.note(target, done(2));
    expect(ids(await later.next({ tenant, target, after: first.cursor, timeoutMs: 1000 }))).toEqual([2]);
  });

  it("returns an empty page after the timeout, when the signal is aborted, and when the server closes", async () => {
    const { completions, clock } = setUp();
    const late = completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    await clock.advance(1000);
    const { cursor } = await late;
    expect(ids(await late)).toEqual([]);
    const gone = new AbortController();
    const left = completions.next({ tenant, target, after: cursor, timeoutMs: 1000, signal: gone.signal });
    gone.abort();
    expect(ids(await left)).toEqual([]);
    const last = completions.next({ tenant, target, after: cursor, timeoutMs: 1000 });
    completions.close();
    expect(ids(await last)).toEqual([]);
  });

  it("answers immediately while few samples are unfinished, and collects completions while many are", async () => {
    const { completions, clock } = setUp();
    for (let id = 0; id < 320; id++) completions.begin(target);
    const gathering = completions.next({ tenant, target, after: 0, timeoutMs: 30_000 });
    for (let id = 0; id < 10; id++) completions.end(target, done(id));
    await clock.advance(99);
    for (let id = 10; id < 15; id++) completions.end(target, done(id));
    await clock.advance(1);
    const first = await gathering;
    expect(ids(first)).toHaveLength(15);
    // A sixteenth of the unfinished samples is returned without waiting.
    const enough = completions.next({ tenant, target, after: first.cursor, timeoutMs: 30_000 });
    for (let id = 15; id < 35; id++) completions.end(target, done(id));
    const second = await enough;
    expect(ids(second)).toHaveLength(20);
    for (let id = 35; id < 310; id++) completions.end(target, done(id));
    const rest = await completions.next({ tenant, target, after: second.cursor, timeoutMs: 30_000 });
    expect(ids(rest)).toHaveLength(275);
    const one = completions.next({ tenant, target, after: rest.cursor, timeoutMs: 30_000 });
    completions.end(target, done(310));
    expect(ids(await one)).toEqual([310]);
  });

  it("separates the clients of a session by the seq_ids of their samples", async () => {
    expect([clientOf(undefined), clientOf(999_999_999), clientOf(2_000_000_001n)]).toEqual([0, 0, 2]);
    const { completions, clock } = setUp();
    const other = completions.next({ tenant, target: { ...target, client: 2 }, after: 0, timeoutMs: 1000 });
    const own = completions.next({ tenant, target, after: 0, timeoutMs: 1000 });
    completions.note(target, done(7));
    expect(ids(await own)).toEqual([7]);
    await clock.advance(1000);
    expect(ids(await other)).toEqual([]);
  });

  it("drops the least recently polled log above the limit, and creates it again", async () => {
    const { completions, known } = setUp();
    const at = (n: number) => ({ tenant, target: { samplerId: `s${n}`, client: 0 }, after: 0, timeoutMs: 0 });
    const { cursor } = await completions.next(at(0));
    for (let n = 1; n <= 1000; n++) await completions.next(at(n));
    known.push(done(1));
    completions.note(at(0).target, done(1)); // there is no log to add it to
    expect(ids(await completions.next({ ...at(0), after: cursor }))).toEqual([1]);
  });

  it("does not end the poll of a tenant because of the many clients of another", async () => {
    const { completions, clock } = setUp();
    const poll = completions.next({ tenant, target, after: 0, timeoutMs: 30_000 });
    let isOver = false;
    void poll.finally(() => {
      isOver = true;
    });
    for (let client = 0; client < 3000; client++) {
      await completions.next({ tenant: "hostile", target: { samplerId: "x", client }, after: 0, timeoutMs: 0 });
    }
    await clock.advance(29_999);
    expect(isOver).toBe(false);
    completions.note(target, done(1));
    expect(ids(await poll)).toEqual([1]);
  });
});
