import { copyFile, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Libsql from "libsql";
import { expect, onTestFinished, test } from "vitest";
import { commitMarkFile, openCommitMark, readCommitMark } from "./commit-mark.ts";
import { openStore } from "./store.ts";
import { addSession, getSession } from "./tables/sessions.ts";

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), "tinklet-mark-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
};

const session = (id: string) => ({
  id,
  tenant: "t",
  idempotencyKey: undefined,
  tags: [],
  userMetadata: {},
  sdkVersion: "x",
  projectId: undefined,
  displayName: undefined,
  now: 1,
});

const sessionCount = 100;

/** A copy of the data folder of a server that was killed after 100 sessions had been acknowledged. */
async function killed(): Promise<string> {
  const [running, copy] = [await folder(), await folder()];
  const store = await openStore({ dataDir: running });
  for (let i = 0; i < sessionCount; i++) await store.db.write((sql) => addSession(sql, session(`s${i}`)));
  for (const entry of await readdir(running, { withFileTypes: true })) {
    if (entry.isFile()) await copyFile(join(running, entry.name), join(copy, entry.name));
  }
  await store.close();
  return copy;
}

/** Changes two bytes of a file at a relative position. */
async function damage(file: string, part: number): Promise<void> {
  const at = Math.floor((await stat(file)).size * part);
  const handle = await open(file, "r+");
  const bytes = Buffer.alloc(2);
  await handle.read(bytes, 0, 2, at);
  await handle.write(Buffer.from([bytes[0]! ^ 0xff, bytes[1]! ^ 0xff]), 0, 2, at);
  await handle.close();
}

async function sessionsIn(dataDir: string): Promise<number> {
  const store = await openStore({ dataDir });
  const found = Array.from({ length: sessionCount }, (_, i) => getSession(store.db.sql, `s${i}`)).filter(Boolean);
  await store.close();
  return found.length;
}

test("a folder of a killed server opens with every acknowledged commit", async () => {
  expect(await sessionsIn(await killed())).toBe(sessionCount);
});

test.each([0, 0.1, 0.45, 0.9, 0.9999])(
  "two changed bytes of the log prevent the start, also the second time (at %d)",
  async (part) => {
    const dataDir = await killed();
    const log = join(dataDir, "tinklet.db-wal");
    await damage(log, part);
    const found = await readFile(log);
    for (let i = 0; i < 2; i++) {
      await expect(openStore({ dataDir })).rejects.toMatchObject({
        name: "StoreError",
        code: "lost_commits",
        message: expect.stringMatching(
          /last commit of the database is \d+, but commit \d+ was durable \(tinklet\.db-mark\): \d+ commits are missing/,
        ),
        hint: expect.stringContaining("delete tinklet.db-mark"),
      });
    }
    // a copy of the log, which SQLite deletes, is kept
    const kept = (await readdir(dataDir)).filter((name) => name.startsWith("tinklet.db-wal.damaged-"));
    expect(kept).toHaveLength(1);
    expect((await readFile(join(dataDir, kept[0]!))).equals(found)).toBe(true);
    // after the mark is deleted, the remaining commits can be used
    await rm(join(dataDir, "tinklet.db-mark"));
    expect(await sessionsIn(dataDir)).toBeLessThan(sessionCount);
  },
);

test("a log that was removed or cut prevents the start", async () => {
  const removed = await killed();
  await rm(join(removed, "tinklet.db-wal"));
  await expect(openStore({ dataDir: removed })).rejects.toMatchObject({ code: "lost_commits" });
  const cut = await killed();
  const handle = await open(join(cut, "tinklet.db-wal"), "r+");
  await handle.truncate((await handle.stat()).size - 1);
  await handle.close();
  await expect(openStore({ dataDir: cut })).rejects.toMatchObject({ code: "lost_commits" });
});

test("a missing database prevents the start while the mark has a commit count", async () => {
  const dataDir = await folder();
  const store = await openStore({ dataDir });
  await store.db.write((sql) => addSession(sql, session("a")));
  await store.close();
  await rm(join(dataDir, "tinklet.db"));
  await expect(openStore({ dataDir })).rejects.toMatchObject({
    code: "no_database",
    message: expect.stringContaining("tinklet.db-mark"),
  });
});

test("between two starts, another tool may checkpoint the log and an older release may write", async () => {
  const dataDir = await killed();
  const other = new Libsql(join(dataDir, "tinklet.db"));
  other.pragma("wal_checkpoint(TRUNCATE)");
  other.exec("UPDATE sessions SET finished_at = 2 WHERE id = 's1'");
  other.pragma("journal_mode = DELETE");
  other.close();
  expect(await sessionsIn(dataDir)).toBe(sessionCount);
});

test("restarts of the log and a start after each kill are not reported as lost commits", async () => {
  let dataDir = await folder();
  for (let start = 0; start < 3; start++) {
    const store = await openStore({ dataDir });
    const userMetadata = { text: "x".repeat(600_000) };
    for (let i = 0; i < 20; i++) {
      await store.db.write((sql) => addSession(sql, { ...session(`${start}-${i}`), userMetadata }));
    }
    const copy = await folder();
    for (const entry of await readdir(dataDir, { withFileTypes: true })) {
      if (entry.isFile()) await copyFile(join(dataDir, entry.name), join(copy, entry.name));
    }
    await store.close();
    dataDir = copy;
  }
  const store = await openStore({ dataDir });
  expect(getSession(store.db.sql, "2-19")).toBeDefined();
  await store.close();
});

test("with one torn record the mark is the other record; without a valid record there is no mark", async () => {
  const database = join(await folder(), "x.db");
  expect(readCommitMark(database)).toBe(0);
  const mark = openCommitMark(database, () => 0);
  mark.raise(41);
  mark.raise(42);
  await mark.close();
  expect(readCommitMark(database)).toBe(42);
  const file = commitMarkFile(database);
  await damage(file, 0.0075); // in the number of the first record, which has the even commits
  expect(readCommitMark(database)).toBe(41);
  await writeFile(file, Buffer.alloc(1024));
  expect(readCommitMark(database)).toBe(0);
});
