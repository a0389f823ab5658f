/** Maintenance of a data folder: the reported use is complete, and pruning deletes only what was chosen. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@tinklet/wire/testing";
import { expect, onTestFinished, test } from "vitest";
import { passBytes, TestServer } from "../testing/test-server.ts";
import { chatExport } from "../testing/trace-exports.ts";
import { type DataFolder, openDataFolder } from "./data-folder.ts";
import { openStore } from "./store.ts";

const dayMs = 86_400_000;

async function newFolder(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-data-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

/** Opens a data folder until the end of the test. */
async function opened(dataDir: string): Promise<DataFolder> {
  const folder = await openDataFolder(dataDir);
  if (folder === undefined) throw new Error("there is no folder");
  onTestFinished(() => folder.close());
  return folder;
}

/** A run that was trained and saved once as `a` and once as `b`. */
async function trained(server: TestServer): Promise<string> {
  const model = await server.model(await server.session());
  await server.passResult(server.post("forward_backward", passBytes(model, 1)));
  await server.result(server.optim(model, 2));
  await server.result(server.post("save_weights", { model_id: model, seq_id: 3, path: "a" }));
  await server.result(server.post("save_weights", { model_id: model, seq_id: 4, path: "b" }));
  return model;
}

const publish = async (server: TestServer, run: string) =>
  expect((await server.post(`training_runs/${run}/checkpoints/weights/a/publish`)).status).toBe(200);

test("reports kinds, runs and unknown files, largest first; rejects a folder in use and does not create a missing one", async () => {
  const dataDir = await newFolder();
  expect(await openDataFolder(join(dataDir, "none"))).toBeUndefined();
  expect(await openDataFolder(dataDir)).toBeUndefined();
  expect(await readdir(dataDir)).toEqual([]);
  const server = await TestServer.open({ dataDir });
  const run = await trained(server);
  const small = await server.model(await server.session());
  await expect(openDataFolder(dataDir)).rejects.toMatchObject({ code: "locked" });
  await server.close();
  await mkdir(join(dataDir, "lost", "x"), { recursive: true });
  await writeFile(join(dataDir, "lost", "x", "weights"), Buffer.alloc(1000));
  await writeFile(join(dataDir, "notes.txt"), "mine");

  const use = await (await opened(dataDir)).use();
  const bytes = use.kinds.map((kind) => kind.bytes);
  expect(bytes).toEqual(bytes.toSorted((a, b) => b - a));
  expect(use.totalBytes).toBe(bytes.reduce((sum, one) => sum + one, 0));
  const found = Object.fromEntries(use.kinds.map(({ kind, ...rest }) => [kind, rest]));
  expect(found).toMatchObject({
    checkpoints: { count: 2 },
    database: { count: 1 },
    lost: { count: 1, bytes: 1000 },
    other: { count: 1, bytes: 4 },
  });
  expect(use.runs.map(({ runId }) => runId)).toEqual([run, small]);
  expect(use.runs[0]).toMatchObject({ checkpoints: 2, published: 0, pendingRequests: 0 });
  expect(use.runs[0]?.bytes).toBeGreaterThanOrEqual(found["checkpoints"]?.bytes as number);
});

test("prunes one run with the samplers of its checkpoints, as planned; other runs continue", async () => {
  const dataDir = await newFolder();
  const server = await TestServer.open({ dataDir });
  const [gone, stays] = [await trained(server), await trained(server)];
  for (const [at, run] of [gone, stays].entries()) {
    const sampler = {
      session_id: run.split(":")[0],
      sampling_session_seq_id: at,
      model_path: `tinker://${run}/weights/a`,
    };
    expect((await server.post("create_sampling_session", sampler)).status).toBe(200);
  }
  await server.close();
  await mkdir(join(dataDir, "lost", "x"), { recursive: true });

  const folder = await openDataFolder(dataDir);
  const before = await folder!.use();
  const plan = await folder!.plan({ run: gone });
  expect(plan).toMatchObject({ runs: [{ runId: gone, checkpoints: 2, published: 0 }], lost: [], busy: [] });
  expect(await folder!.use()).toEqual(before);
  expect(await folder!.prune({ run: gone })).toEqual(plan);
  const after = await folder!.use();
  expect(after.runs).toEqual(before.runs.filter(({ runId }) => runId === stays));
  const filesOf = ({ kinds }: typeof after) =>
    kinds
      .filter(({ kind }) => ["checkpoints", "states", "samplers"].includes(kind))
      .reduce((sum, k) => sum + k.bytes, 0);
  expect(filesOf(after)).toBe(filesOf(before) / 2);
  expect(plan.bytes).toBeGreaterThanOrEqual(filesOf(before) / 2);
  expect(existsSync(join(dataDir, "lost", "x"))).toBe(true);
  await folder!.close();

  const again = await TestServer.open({ dataDir });
  expect((await again.get(`training_runs/${gone}`)).status).toBe(404);
  const saved = await again.result(again.post("save_weights", { model_id: stays, seq_id: 5, path: "c" }));
  expect(saved.path).toBe(`tinker://${stays}/weights/c`);
  await again.close();
});

test("prunes old runs; their published checkpoints stay readable, and younger runs stay unchanged", async () => {
  const dataDir = await newFolder();
  const clock = new FakeClock();
  const server = await TestServer.open({ dataDir, clock });
  const [old, shared] = [await trained(server), await trained(server)];
  await publish(server, shared);
  await server.close();
  const later = new FakeClock(clock.now() + 8 * dayMs);
  const second = await TestServer.open({ dataDir, clock: later });
  const young = await trained(second);
  await second.close();

  const folder = await openDataFolder(dataDir);
  const choice = { unusedSince: later.now() - 7 * dayMs };
  const { runs } = await folder!.prune(choice);
  expect(runs.map(({ runId, checkpoints, published }) => [runId, checkpoints, published]).toSorted()).toEqual(
    [
      [old, 2, 0],
      [shared, 1, 1],
    ].toSorted(),
  );
  // A second pruning has nothing to delete.
  expect(await folder!.plan(choice)).toMatchObject({ runs: [], bytes: 0 });
  const left = (await folder!.use()).runs;
  expect(left.map(({ runId, checkpoints }) => [runId, checkpoints]).toSorted()).toEqual(
    [
      [shared, 1],
      [young, 2],
    ].toSorted(),
  );
  await folder!.close();

  const again = await TestServer.open({ dataDir, clock: later });
  expect((await again.get(`training_runs/${shared}/checkpoints/weights/a/archive`)).status).toBe(200);
  expect((await again.get(`training_runs/${young}/checkpoints/weights/b/archive`)).status).toBe(200);
  await again.close();
});

test("a run with unfinished requests is kept with their payloads", async () => {
  const dataDir = await newFolder();
  const server = await TestServer.open({ dataDir, engine: { beforeCall: () => new Promise(() => {}) } });
  const session = await server.session();
  const lora = { rank: 4, seed: 1 };
  await server.post("create_model", {
    session_id: session,
    model_seq_id: 0,
    base_model: "test/model",
    lora_config: lora,
  });
  const closing = server.close();
  await server.clock.advance(10_000);
  await closing;

  const folder = await opened(dataDir);
  const before = await folder.use();
  expect(before.kinds.find(({ kind }) => kind === "pending_requests")).toMatchObject({ count: 1 });
  const run = `${session}:train:0`;
  expect(await folder.prune({ run })).toMatchObject({ runs: [], busy: [run], bytes: 0 });
  expect(await folder.prune({ unusedSince: Number.MAX_SAFE_INTEGER })).toMatchObject({ runs: [], busy: [run] });
  expect((await folder.use()).runs).toEqual(before.runs);
});

test("weights from which another run was created are kept", async () => {
  const dataDir = await newFolder();
  const server = await TestServer.open({ dataDir });
  const first = await trained(server);
  await server.close();
  const store = await openStore({ dataDir });
  // A second model whose snapshot is the first one's checkpoint.
  const { files_id: filesId } = store.db.sql.get<{ files_id: string }>(
    "SELECT files_id FROM checkpoints WHERE run_id = ? AND name = 'a'",
    first,
  )!;
  await store.db.write((sql) =>
    sql.run(
      `INSERT INTO models SELECT 'other', session_id, tenant, 9, base_model, lora, user_metadata, created_at, last_request_at, state,
         error, next_seq, executed, ?, snapshot_executed, snapshot_optimizer, NULL FROM models WHERE id = ?`,
      filesId,
      first,
    ),
  );
  await store.close();
  await (await opened(dataDir)).prune({ run: first });
  expect(await readdir(join(dataDir, "adapters"))).toEqual([filesId]);
});

test("prunes checkpoints of steps: only those of complete runs, and never best, final, other names or what is in use", async () => {
  const dataDir = await newFolder();
  const clock = new FakeClock();
  const server = await TestServer.open({ dataDir, clock });
  const save = async (model: string, seq: number, path: string, kind = "save_weights") =>
    (await server.result(server.post(kind, { model_id: model, seq_id: seq, path }))).path as string;
  const complete = await server.model(await server.session());
  await save(complete, 1, "000005");
  await save(complete, 2, "000005", "save_weights_for_sampler");
  await save(complete, 3, "000010");
  const read = await save(complete, 4, "000010", "save_weights_for_sampler");
  await save(complete, 5, "000015");
  for (const [i, name] of ["best", "final", "mine", "0005"].entries()) await save(complete, 6 + i, name);
  await save(complete, 10, "final", "save_weights_for_sampler");
  await clock.advance(1000);
  await save(complete, 11, "000020"); // continued after the final one, and interrupted
  await server.post(`training_runs/${complete}/checkpoints/weights/000015/publish`);
  const unfinished = await server.model(await server.session());
  await save(unfinished, 1, "000005");
  const reader = { session_id: await server.session(), sampling_session_seq_id: 0, model_path: read };
  expect((await server.post("create_sampling_session", reader)).status).toBe(200);
  await server.close();

  const namesIn = (folder: DataFolder) =>
    folder.use().then(({ runs }) => Object.fromEntries(runs.map(({ runId, checkpoints }) => [runId, checkpoints])));
  const early = await openDataFolder(dataDir, { now: () => clock.now() + 60_000 });
  expect((await early!.plan({ steps: true })).steps).toEqual([]); // the session may still train
  await early!.close();
  const folder = await openDataFolder(dataDir, { now: () => clock.now() + 2 * dayMs });
  const plan = await folder!.plan({ steps: true });
  expect(plan.steps).toEqual([
    { runId: complete, runName: "run", checkpoint: "000005", files: 2 },
    { runId: complete, runName: "run", checkpoint: "000010", files: 1 },
  ]);
  expect(await namesIn(folder!)).toEqual({ [complete]: 11, [unfinished]: 1 });
  expect(await folder!.prune({ steps: true })).toEqual(plan);
  expect(await namesIn(folder!)).toEqual({ [complete]: 8, [unfinished]: 1 });
  expect((await folder!.plan({ steps: true })).steps).toEqual([]);
  expect([folder!.hasRun("run"), folder!.hasRun("run-2"), folder!.hasRun("run-3")]).toEqual([true, true, false]);
  expect((await folder!.prune({ run: "run-2" })).runs).toMatchObject([{ runId: unfinished, name: "run-2" }]);
  await folder!.close();
  const { json } = await TestServer.open({ dataDir, clock }).then(async (again) => {
    onTestFinished(() => again.close());
    return again.get(`training_runs/${complete}/checkpoints`);
  });
  expect(json.checkpoints.map((one: { checkpoint_id: string }) => one.checkpoint_id).toSorted()).toEqual([
    ...["sampler_weights/000010", "sampler_weights/final", "weights/000015", "weights/000020", "weights/0005"],
    ...["weights/best", "weights/final", "weights/mine"],
  ]);
});

test.skipIf(process.platform === "win32")(
  "what a link in the place of lost/ points to is not deleted, nor what links in lost/ point to",
  async () => {
    const dataDir = await newFolder();
    await (await TestServer.open({ dataDir })).close();
    const mine = await newFolder();
    await writeFile(join(mine, "thesis"), "x");
    const folder = await opened(dataDir);
    await symlink(mine, join(dataDir, "lost"));
    expect(await folder.prune({ lost: true })).toMatchObject({ lost: [] });
    expect(await readdir(mine)).toEqual(["thesis"]);
    await rm(join(dataDir, "lost"));
    await mkdir(join(dataDir, "lost"));
    await symlink(mine, join(dataDir, "lost", "x"));
    expect(await folder.prune({ lost: true })).toMatchObject({ lost: ["x"] });
    expect([await readdir(join(dataDir, "lost")), await readdir(mine)]).toEqual([[], ["thesis"]]);
  },
);

test("lost/ is pruned only if it is chosen, and by age if one is given", async () => {
  const dataDir = await newFolder();
  await (await TestServer.open({ dataDir })).close();
  await mkdir(join(dataDir, "lost", "x"), { recursive: true });
  await writeFile(join(dataDir, "lost", "x", "weights"), Buffer.alloc(1000));
  const folder = await opened(dataDir);
  expect(await folder.prune({ unusedSince: Number.MAX_SAFE_INTEGER })).toMatchObject({ lost: [], bytes: 0 });
  expect(await folder.prune({ unusedSince: 0, lost: true })).toMatchObject({ lost: [], bytes: 0 });
  expect(await folder.plan({ lost: true })).toMatchObject({ lost: ["x"], bytes: 1000 });
  expect(existsSync(join(dataDir, "lost", "x", "weights"))).toBe(true);
  expect(await folder.prune({ lost: true })).toMatchObject({ lost: ["x"], bytes: 1000 });
  expect(await readdir(join(dataDir, "lost"))).toEqual([]);
});

test("traces are pruned only if they are chosen, and by age if one is given; their size is a kind of its own", async () => {
  const dataDir = await newFolder();
  const clock = new FakeClock();
  const server = await TestServer.open({ dataDir, clock });
  await server.post("/v1/traces", chatExport([{ prompt: "old" }]));
  clock.jump(10_000);
  const between = clock.now();
  await server.post("/v1/traces", chatExport([{ prompt: "new" }, { prompt: "newer" }]));
  await server.close();
  const folder = await opened(dataDir);
  expect((await folder.use()).kinds).toContainEqual({ kind: "traces", count: 3, bytes: expect.any(Number) });
  expect(await folder.prune({ unusedSince: Number.MAX_SAFE_INTEGER })).toMatchObject({ traces: 0 });
  expect(await folder.plan({ traces: true })).toMatchObject({ traces: 3, bytes: expect.any(Number) });
  expect(await folder.prune({ traces: true, unusedSince: between })).toMatchObject({ traces: 1 });
  expect(await folder.prune({ traces: true })).toMatchObject({ traces: 2 });
  expect((await folder.use()).kinds.map(({ kind }) => kind)).not.toContain("traces");
});
