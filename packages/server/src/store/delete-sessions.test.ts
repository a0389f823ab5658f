/** Deleting sessions removes all of their data from the database and the disk, and nothing else. */
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { passBytes, TestServer } from "../testing/test-server.ts";
import { deleteSessions } from "./delete-sessions.ts";
import { openStore } from "./store.ts";

test("deletes all data of a session and no data of others", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-delete-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const size = async () => (await stat(join(dataDir, "tinklet.db"))).size;
  await (await TestServer.open({ dataDir })).close();
  const emptyBytes = await size();

  const server = await TestServer.open({ dataDir });
  const use = async (): Promise<{ session: string; model: string }> => {
    const session = await server.session();
    const model = await server.model(session);
    for (let seq = 1; seq <= 40; seq += 2) {
      await server.passResult(server.post("forward_backward", passBytes(model, seq)));
      await server.result(server.optim(model, seq + 1));
    }
    await server.result(server.post("save_weights", { model_id: model, seq_id: 41, path: "a" }));
    await server.post("create_sampling_session", {
      session_id: session,
      sampling_session_seq_id: 0,
      model_path: `tinker://${model}/weights/a`,
    });
    return { session, model };
  };
  const [gone, stays] = [await use(), await use()];
  await server.close();

  const store = await openStore({ dataDir });
  expect(await deleteSessions(store, [gone.session, "s-unknown"])).toBe(1);
  const tables = ["requests", "checkpoints", "samplers", "usage", "models"];
  for (const table of tables) {
    const rows = store.db.sql.all<{ session_id: string }>(`SELECT DISTINCT session_id FROM ${table}`);
    expect(rows, table).toEqual([{ session_id: stays.session }]);
  }
  await store.close();

  const again = await TestServer.open({ dataDir });
  expect((await again.get(`training_runs/${gone.model}`)).status).toBe(404);
  const archive = await again.get(`training_runs/${stays.model}/checkpoints/weights/a/archive`);
  expect(archive.status).toBe(200);
  // The other model continues.
  const saved = await again.result(again.post("save_weights", { model_id: stays.model, seq_id: 42, path: "b" }));
  expect(saved.path).toBe(`tinker://${stays.model}/weights/b`);
  await again.close();

  const last = await openStore({ dataDir });
  expect(await deleteSessions(last, [stays.session])).toBe(1);
  await last.close();
  expect(await readdir(join(dataDir, "adapters"))).toEqual([]);
  expect(await size()).toBeLessThanOrEqual(1.1 * emptyBytes);
});

test("a session with unfinished requests is kept", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-delete-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const server = await TestServer.open({ dataDir, engine: { beforeCall: () => new Promise(() => {}) } });
  const session = await server.session();
  await server.post("create_model", {
    session_id: session,
    model_seq_id: 0,
    base_model: "test/model",
    lora_config: { rank: 4, seed: 1 },
  });
  const closing = server.close();
  await server.clock.advance(10_000);
  await closing;
  const store = await openStore({ dataDir });
  expect(await deleteSessions(store, [session])).toBe(0);
  await store.close();
});
