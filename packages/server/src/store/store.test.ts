import { readdirSync } from "node:fs";
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AdapterState } from "@tinklet/engine";
import Libsql from "libsql";
import { describe, expect, onTestFinished, test } from "vitest";
import { openDatabase, type Sql } from "./database.ts";
import { readAdapter, verifyAdapter, writeAdapter } from "./files/adapter-files.ts";
import { memoryFileStore, newFolderId, openFileStore } from "./files/file-store.ts";
import { openStore } from "./store.ts";
import { addFiles, addModel, dropUnusedFiles } from "./tables/models.ts";
import { migrations } from "./tables/schema.ts";
import { addSession, getSession } from "./tables/sessions.ts";

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), "tinklet-store-"));
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

test("reads and writes of a closed database fail with a reason", async () => {
  const db = openDatabase({ file: join(await folder(), "x.db") });
  await db.write((sql) => addSession(sql, session("a")));
  expect(getSession(db.sql, "a")?.id).toBe("a");
  await db.close();
  const refusal = { name: "StoreError", code: "io", message: expect.stringContaining("closed") };
  expect(() => getSession(db.sql, "a")).toThrow(expect.objectContaining(refusal));
  await expect(db.write((sql) => addSession(sql, session("b")))).rejects.toMatchObject(refusal);
});

describe("group commit", () => {
  test("a group is synced only if a writer changed something", async () => {
    const synced: boolean[] = [];
    // The sync begins right after the commit.
    const onPoint = (point: string) => {
      if (point === "commit.before") queueMicrotask(() => synced.push(db.synced() !== undefined));
    };
    const db = openDatabase({ file: join(await folder(), "x.db"), onPoint });
    onTestFinished(() => db.close());
    const changing = (sql: Sql) => addSession(sql, session("a"));
    await db.write(changing);
    await db.write((sql) => sql.run("DELETE FROM sessions WHERE id = 'none'"));
    await db.write((sql) => sql.run("UPDATE sessions SET tenant = 'u' WHERE id = 'a'"));
    await db.write((sql) => getSession(sql, "a"));
    await db.write((sql) => sql.all("PRAGMA incremental_vacuum"));
    expect(synced).toEqual([true, false, true, false, true]);
  });

  test("concurrent writers share one commit, and only the changes of one that throws are rolled back", async () => {
    const groups: number[] = [];
    const db = openDatabase({ file: ":memory:", now: () => 0, onCommit: (_ms, writers) => groups.push(writers) });
    const results = await Promise.allSettled([
      db.write((sql) => addSession(sql, session("a"))),
      db.write((sql) => {
        addSession(sql, session("b"));
        throw new Error("changed my mind");
      }),
      db.write((sql) => addSession(sql, session("c"))),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(groups).toEqual([3]);
    expect(["a", "b", "c"].map((id) => getSession(db.sql, id)?.id)).toEqual(["a", undefined, "c"]);
    await db.close();
  });

  test("on a full disk the whole group fails, earlier commits stay, and writing resumes after space was freed", async () => {
    const file = join(await folder(), "x.db");
    const db = openDatabase({ file });
    await db.write((sql) => addSession(sql, session("before")));
    const pages = Object.values(db.sql.get("PRAGMA page_count") ?? {})[0] as number;
    db.sql.get(`PRAGMA max_page_count = ${pages + 2}`);
    const big = { ...session("big"), userMetadata: { text: "x".repeat(100_000) } };
    const results = await Promise.allSettled([
      db.write((sql) => addSession(sql, session("small"))),
      db.write((sql) => addSession(sql, big)),
    ]);
    for (const result of results) expect(result).toMatchObject({ status: "rejected", reason: { code: "full" } });
    expect(getSession(db.sql, "small")).toBeUndefined();
    db.sql.get("PRAGMA max_page_count = 1000000");
    await db.write((sql) => addSession(sql, big));
    await db.close();
    const again = openDatabase({ file });
    expect(getSession(again.sql, "before")?.id).toBe("before");
    expect(getSession(again.sql, "big")?.id).toBe("big");
    await again.close();
  });
});

describe("the folder", () => {
  test("a second server is rejected until the first has ended", async () => {
    const dataDir = await folder();
    const first = await openStore({ dataDir });
    await expect(openStore({ dataDir })).rejects.toMatchObject({
      code: "locked",
      message: expect.stringContaining("--data-dir"),
    });
    await first.close();
    await (await openStore({ dataDir })).close();
  });

  test("the error for an unusable folder names the folder", async () => {
    const dataDir = await folder();
    await mkdir(join(dataDir, "tinklet.db")); // a folder in place of the database
    await expect(openStore({ dataDir })).rejects.toMatchObject({
      name: "StoreError",
      code: "read_only",
      message: expect.stringContaining(dataDir),
    });
    const file = join(dataDir, "a file");
    await writeFile(file, "where the folder should be");
    await expect(openStore({ dataDir: file })).rejects.toMatchObject({ name: "StoreError", code: "read_only" });
    expect(await readFile(file, "utf8")).toBe("where the folder should be");
  });

  test("a damaged page prevents the start, and the file is not changed", async () => {
    const dataDir = await folder();
    const store = await openStore({ dataDir });
    for (let i = 0; i < 200; i++) await store.db.write((sql) => addSession(sql, session(`s${i}`)));
    await store.close();
    const file = join(dataDir, "tinklet.db");
    const size = (await stat(file)).size;
    const handle = await open(file, "r+");
    // damages all pages after the first, because a single one might be unused
    for (let at = 4096; at < size; at += 4096) await handle.write(Buffer.alloc(200, 0xab), 0, 200, at);
    await handle.close();
    const before = await readFile(file);
    await expect(openStore({ dataDir })).rejects.toMatchObject({ code: "corrupt" });
    expect((await readFile(file)).equals(before)).toBe(true);
    await writeFile(file, "this is not a database, despite its name ".repeat(100));
    await expect(openStore({ dataDir })).rejects.toMatchObject({ code: "corrupt" });
  });

  test("a folder of a newer format is rejected", async () => {
    const dataDir = await folder();
    await (await openStore({ dataDir })).close();
    const db = new Libsql(join(dataDir, "tinklet.db"));
    db.pragma("user_version = 999");
    db.close();
    await expect(openStore({ dataDir })).rejects.toMatchObject({ code: "too_new" });
  });

  test("folders without a row are removed at the start, and unreferenced ones by collect", async () => {
    const dataDir = await folder();
    let store = await openStore({ dataDir });
    const orphan = newFolderId();
    await store.files.writeFolder(orphan, [{ name: "x", parts: [new Uint8Array(3)] }]);
    await store.close();
    store = await openStore({ dataDir });
    expect(await store.files.listFolders()).toEqual([]);
    expect(store.setAside).toEqual([]);
    const unused = newFolderId();
    await store.files.writeFolder(unused, [{ name: "x", parts: [] }]);
    await store.db.write((sql) => addFiles(sql, unused, 0, 1));
    expect(await store.collect()).toBe(1);
    expect(await store.files.listFolders()).toEqual([]);
    await store.close();
  });
});

describe("the database's file", () => {
  const fill = async (store: Awaited<ReturnType<typeof openStore>>) => {
    const notes = { text: "x".repeat(100_000) };
    for (let i = 0; i < 100; i++) {
      await store.db.write((sql) => addSession(sql, { ...session(`s${i}`), userMetadata: notes }));
    }
    await store.db.write((sql) => sql.run("DELETE FROM sessions"));
  };
  const size = async (dataDir: string) => (await stat(join(dataDir, "tinklet.db"))).size;

  test("shrinks after rows were deleted", async () => {
    const dataDir = await folder();
    const store = await openStore({ dataDir });
    await fill(store);
    for (let i = 0; i < 4; i++) await store.collect();
    await store.close();
    expect(await size(dataDir)).toBeLessThan(2_000_000);
  });

  test("of an older version shrinks too", async () => {
    const dataDir = await folder();
    const old = new Libsql(join(dataDir, "tinklet.db"));
    old.exec(`BEGIN; ${migrations[0]}; PRAGMA user_version = 1; COMMIT`);
    old.close();
    const store = await openStore({ dataDir });
    await fill(store);
    for (let i = 0; i < 4; i++) await store.collect();
    await store.close();
    expect(await size(dataDir)).toBeLessThan(2_000_000);
  });
});

describe("folders without a row", () => {
  /** A data folder with one stored folder that a row refers to, and its name. */
  const used = async () => {
    const dataDir = await folder();
    const store = await openStore({ dataDir });
    const id = newFolderId();
    await store.close();
    await copyFile(join(dataDir, "tinklet.db"), join(dataDir, "backup.db"));
    const again = await openStore({ dataDir });
    await again.files.writeFolder(id, [{ name: "weights", parts: [new Uint8Array([1, 2, 3])] }]);
    await again.db.write((sql) => {
      addFiles(sql, id, 3, 1);
      addSession(sql, session("s"));
      addModel(sql, { ...model, from: { filesId: id, optimizer: true } });
    });
    await again.files.markOwned(id, true);
    await again.close();
    return { dataDir, id };
  };
  const model = {
    id: "m",
    sessionId: "s",
    tenant: "t",
    modelSeq: 0,
    baseModel: "b",
    lora: { rank: 1, alpha: 1, seed: 1, trainAttn: true, trainMlp: true, trainUnembed: true },
    userMetadata: undefined,
    now: 1,
  };

  test("are moved to lost/ and reported if the database is an older copy", async () => {
    const { dataDir, id } = await used();
    await copyFile(join(dataDir, "backup.db"), join(dataDir, "tinklet.db"));
    await expect(openStore({ dataDir })).rejects.toMatchObject({ code: "lost_commits" });
    await rm(join(dataDir, "tinklet.db-mark"));
    const store = await openStore({ dataDir });
    expect(store.setAside).toEqual([join(dataDir, "lost", id)]);
    expect([...(await readFile(join(dataDir, "lost", id, "weights")))]).toEqual([1, 2, 3]);
    await store.close();
  });

  test("prevent the start if the database is missing, also at the second attempt", async () => {
    const { dataDir, id } = await used();
    await rename(join(dataDir, "tinklet.db"), join(dataDir, "moved.db"));
    for (let i = 0; i < 2; i++) {
      await expect(openStore({ dataDir })).rejects.toMatchObject({
        code: "no_database",
        hint: expect.stringMatching(/Restore tinklet\.db, with the tinklet\.db-wal and tinklet\.db-shm/),
      });
    }
    await rename(join(dataDir, "moved.db"), join(dataDir, "tinklet.db"));
    const store = await openStore({ dataDir });
    expect(await store.files.listFolders()).toEqual([{ id, unowned: false }]);
    await store.close();
  });

  test("a log without its database prevents the start, because SQLite would delete it with the last commits", async () => {
    const dataDir = await folder();
    await writeFile(join(dataDir, "tinklet.db-wal"), "committed");
    await expect(openStore({ dataDir })).rejects.toMatchObject({
      code: "no_database",
      message: expect.stringContaining("tinklet.db-wal"),
    });
    expect(await readFile(join(dataDir, "tinklet.db-wal"), "utf8")).toBe("committed");
  });

  test("after a crash before or after the deletion of a row, the next start removes its folder", async () => {
    const { dataDir, id } = await used();
    let store = await openStore({ dataDir });
    await store.files.markOwned(id, false); // crash before the row was deleted
    await store.close();
    store = await openStore({ dataDir });
    expect(await store.files.listFolders()).toEqual([{ id, unowned: false }]);
    await store.files.markOwned(id, false); // crash right after
    await store.db.write((sql) => {
      sql.run("DELETE FROM models");
      sql.run("DELETE FROM files");
    });
    await store.close();
    store = await openStore({ dataDir });
    expect(await store.files.listFolders()).toEqual([]);
    expect(store.setAside).toEqual([]);
    await store.close();
  });

  test("a crash during the removal of a folder leaves no partial folder in adapters/", async () => {
    const { dataDir, id } = await used();
    let seen: { adapters: string[]; tmp: string[][] } | undefined;
    const onPoint = (point: string) => {
      if (point !== "files.removing") return;
      const tmp = readdirSync(join(dataDir, "tmp")).map((name) => readdirSync(join(dataDir, "tmp", name)));
      seen = { adapters: readdirSync(join(dataDir, "adapters")), tmp };
      throw new Error("the process ends here");
    };
    const store = await openStore({ dataDir, onPoint });
    await store.db.write((sql) => sql.run("DELETE FROM models"));
    await expect(store.collect()).rejects.toThrow("ends here");
    expect(seen).toEqual({ adapters: [], tmp: [["unowned", "weights"]] });
    await store.close();
    const next = await openStore({ dataDir });
    expect([next.setAside, await next.files.listFolders()]).toEqual([[], []]);
    expect(readdirSync(join(dataDir, "tmp"))).toEqual([]);
    await next.files.removeFolder(id); // idempotent
    await next.close();
  });

  test("other files in the same place, such as .DS_Store, are ignored", async () => {
    const { dataDir, id } = await used();
    await writeFile(join(dataDir, "adapters", ".DS_Store"), "x");
    await mkdir(join(dataDir, "adapters", ".Trashes"));
    const store = await openStore({ dataDir });
    expect(await store.files.listFolders()).toEqual([{ id, unowned: false }]);
    await store.close();
    expect(await readFile(join(dataDir, "adapters", ".DS_Store"), "utf8")).toBe("x");
  });

  test("a start deletes what a crash left in tmp/, and nothing that belongs to others", async () => {
    const dataDir = await folder();
    const left = ["0123456789abcdef01234567", "0123456789abcdef01234567.0123456789abcdef01234567", "scratch-aB3dE6"];
    const others = ["notes", "scratch", "scratch-notes.txt", "0123456789abcdef"];
    for (const name of [...left, ...others]) await mkdir(join(dataDir, "tmp", name), { recursive: true });
    await (await openStore({ dataDir })).close();
    expect((await readdir(join(dataDir, "tmp"))).toSorted()).toEqual(others.toSorted());
  });

  test.skipIf(process.platform === "win32")("the database can be read by its owner alone", async () => {
    const { dataDir } = await used();
    const mode = async () => (await stat(join(dataDir, "tinklet.db"))).mode & 0o777;
    expect(await mode()).toBe(0o600);
    await chmod(join(dataDir, "tinklet.db"), 0o644);
    const store = await openStore({ dataDir });
    expect(await mode()).toBe(0o600);
    await store.close();
    const made = join(dataDir, "new");
    await (await openStore({ dataDir: made })).close();
    expect((await stat(made)).mode & 0o777).toBe(0o700);
  });
});

describe("adapter files", () => {
  const values = Float32Array.from({ length: 12 }, (_, i) => Math.fround(Math.sin(i) * 1e-3));
  const name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
  const state: AdapterState = {
    lora: { rank: 3, alpha: 32, seed: 1, trainAttn: true, trainMlp: true, trainUnembed: false },
    step: 7,
    weights: { [name]: { data: values, shape: [3, 4] } },
    optimizer: { m: { [name]: values.map((v) => v * 2) }, v: { [name]: values.map((v) => v * v) } },
  };

  test("are read back bit for bit, with and without the optimizer", async () => {
    for (const files of [memoryFileStore(), await openFileStore(await folder())]) {
      await writeAdapter(files, "a1", state, "some/model");
      expect(await readAdapter(files, "a1", { optimizer: true })).toEqual(state);
      const { optimizer: _, ...plain } = state;
      expect(await readAdapter(files, "a1", { optimizer: false })).toEqual({ ...plain, step: 0 });
    }
  });

  test("are written and read in chunks", async () => {
    const files = await openFileStore(await folder(), { chunkBytes: 7 });
    await writeAdapter(files, "a1", state, "some/model");
    expect(await readAdapter(files, "a1", { optimizer: true })).toEqual(state);
    await verifyAdapter(files, "a1");
  });

  test("a flipped bit is detected by the checksum", async () => {
    const root = await folder();
    const files = await openFileStore(root);
    await writeAdapter(files, "a1", state, "some/model");
    const path = join(root, "adapters", "a1", "adapter_model.safetensors");
    const bytes = await readFile(path);
    bytes[bytes.length - 5]! ^= 1;
    await writeFile(path, bytes);
    await expect(readAdapter(files, "a1", { optimizer: true })).rejects.toMatchObject({ code: "corrupt" });
    await expect(verifyAdapter(files, "a1")).rejects.toMatchObject({ code: "corrupt" });
  });

  test("invalid names are rejected, and a failed write leaves no files", async () => {
    const root = await folder();
    const files = await openFileStore(root);
    for (const id of ["../x", "a/b", "", ".", ".."])
      await expect(async () => files.readFile(id, "x")).rejects.toThrow("invalid name");
    await expect(
      files.writeFolder("a2", [
        { name: "ok", parts: [] },
        { name: "../bad", parts: [] },
      ]),
    ).rejects.toThrow();
    expect(await readdir(join(root, "tmp"))).toEqual([]);
    await copyFile(new URL(import.meta.url), join(root, "unrelated"));
    expect(await files.listFolders()).toEqual([]);
  });
});

test("of two collections at once, only one removes a folder, and the other does not claim it", async () => {
  const db = openDatabase({ file: ":memory:" });
  onTestFinished(() => db.close());
  const collect = (isPinned: boolean) => db.write((sql) => dropUnusedFiles(sql, ["f"], () => isPinned));
  await db.write((sql) => addFiles(sql, "f", 1, 1));
  expect(await collect(true)).toEqual({ dropped: [], kept: ["f"] });
  expect(await collect(false)).toEqual({ dropped: ["f"], kept: [] });
  // Keeping it would remove the marker by which the next start knows that the folder may be removed.
  expect(await collect(false)).toEqual({ dropped: [], kept: [] });
});
