/** How long samplers, sessions and their files are kept. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "./http/access/auth.ts";
import { baseModel, gateway, TestServer, type TestServerOptions } from "./testing/test-server.ts";

const minute = 60_000;
const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));

/** A server on a folder; `reopen` stops it and starts it again on the same folder and clock. */
async function open(options: TestServerOptions = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-sweep-"));
  let server = await TestServer.open({ ...options, dataDir });
  onTestFinished(async () => {
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  return {
    dataDir,
    get server() {
      return server;
    },
    reopen: async () => {
      await server.close();
      server = await TestServer.open({ ...options, dataDir, clock: server.clock });
      return server;
    },
    folders: async () => (await readdir(join(dataDir, "adapters"))).length,
  };
}

const sampler = async (server: TestServer, path: string, session?: string): Promise<string> => {
  const made = await server.post("create_sampling_session", {
    session_id: session ?? (await server.session()),
    sampling_session_seq_id: 0,
    model_path: path,
  });
  return made.json.sampling_session_id as string;
};
const sample = (server: TestServer, from: object, seq = 1) =>
  server.post("asample", {
    ...from,
    ...("sampling_session_id" in from ? { seq_id: seq } : {}),
    prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, seq] }] },
    sampling_params: { max_tokens: 4, seed: 1 },
  });

describe("a sampler made from a checkpoint", () => {
  test("of another tenant ends when the checkpoint is unpublished or deleted, also after a restart; its files are deleted", async () => {
    const kept = await open({ apiKeys });
    let { server } = kept;
    server.key = "tml-alice";
    const model = await server.model();
    const { path } = await server.result(
      server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, path: "x" }),
    );
    const at = `training_runs/${model}/checkpoints/sampler_weights/x`;
    await server.send("POST", `${at}/publish`);
    server.key = "tml-bob";
    const from = { sampling_session_id: await sampler(server, path) };
    expect((await sample(server, from)).status).toBe(200);

    server.key = "tml-alice";
    await server.send("DELETE", `${at}/publish`);
    server.key = "tml-bob";
    expect((await sample(server, from, 2)).status).toBe(400);
    server.key = "tml-alice";
    expect((await server.send("DELETE", at)).status).toBe(200);
    server = await kept.reopen();
    server.key = "tml-bob";
    const refused = await sample(server, from, 3);
    expect([400, 404]).toContain(refused.status);
    const before = await kept.folders();
    await expect.poll(() => server.clock.advance(minute).then(kept.folders)).toBeLessThan(before);
  });

  test("holds nothing once its checkpoint has expired", async () => {
    const kept = await open();
    const { server } = kept;
    const model = await server.model();
    const body = { model_id: model, seq_id: 1, path: "x", ttl_seconds: 600 };
    const { path } = await server.result(server.post("save_weights_for_sampler", body));
    const from = { sampling_session_id: await sampler(server, path) };
    expect((await sample(server, from)).status).toBe(200);
    const before = await kept.folders();
    await server.clock.advance(12 * minute);
    await expect.poll(() => server.clock.advance(minute).then(kept.folders)).toBeLessThan(before);
    expect([400, 404]).toContain((await sample(server, from, 2)).status);
  });

  test("ends with its idle session, also if the server was restarted in between; with an active session it stays", async () => {
    const limits = { samplerTtlMs: 3 * 3_600_000 };
    const kept = await open({ limits });
    let { server } = kept;
    const model = await server.model();
    const { path } = await server.result(
      server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, path: "x" }),
    );
    const session = await server.session();
    const [silent, heard] = [await sampler(server, path), await sampler(server, path, session)];
    await server.clock.advance(2 * 3_600_000);
    server = await kept.reopen();
    await server.post("session_heartbeat", { session_id: session });
    await server.clock.advance(2 * 3_600_000);
    const status = (path: string) => server.clock.advance(minute).then(async () => (await server.get(path)).status);
    await expect.poll(() => status(`samplers/${silent}`)).toBe(404);
    expect((await server.get(`samplers/${heard}`)).status).toBe(200);
  }, 30_000);
});

describe("a sample without a sampling session", () => {
  test("that was accepted keeps its files until it is done, also when their checkpoint is deleted", async () => {
    const gate = gateway();
    const kept = await open({ engine: { beforeCall: (name) => (name === "sample" ? gate.promise : undefined) } });
    const { server } = kept;
    const model = await server.model();
    const { path } = await server.result(
      server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, path: "x" }),
    );
    const running = await sample(server, { base_model: baseModel }); // keeps the engine busy
    const others = await Promise.all(Array.from({ length: 70 }, (_, i) => sample(server, { model_path: path }, i)));
    expect((await server.send("DELETE", `training_runs/${model}/checkpoints/sampler_weights/x`)).status).toBe(200);
    await server.clock.advance(minute);
    gate.resolve();
    for (const accepted of [running, ...others]) {
      expect((await server.sampleResult(accepted)).sequences).toHaveLength(1);
    }
    const before = await kept.folders();
    await expect.poll(() => server.clock.advance(minute).then(kept.folders)).toBeLessThan(before);
  });

  test("that fails because of the disk has no path of the server in its error", async () => {
    const kept = await open();
    let { server } = kept;
    const model = await server.model();
    const { path } = await server.result(
      server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, path: "x" }),
    );
    server = await kept.reopen(); // so that the weights are not in memory
    await rm(join(kept.dataDir, "adapters"), { recursive: true });
    const failed = await server.result(sample(server, { model_path: path }));
    expect(failed).toMatchObject({ category: "server" });
    expect(JSON.stringify(failed)).not.toContain(tmpdir());
  });
});

describe("what an ended session leaves behind", () => {
  const finish = (server: TestServer, session: string) =>
    server.post(`sessions/${session}/finish`, { reason: { type: "success" }, detail: null });
  /** A run with a step, a named checkpoint and two samplers without a name. */
  const trained = async (server: TestServer, session: string) => {
    const model = await server.model(session);
    await server.passResult(server.pass(model, 1));
    await server.result(server.optim(model, 2));
    await server.result(server.post("save_weights", { model_id: model, seq_id: 3, path: "final" }));
    for (const seq of [4, 5]) {
      const save = { model_id: model, seq_id: seq, sampling_session_seq_id: seq };
      await server.result(server.post("save_weights_for_sampler", save));
    }
    return model;
  };

  test("is deleted when it has finished: samplers without a name and the state; checkpoints stay", async () => {
    const kept = await open();
    let { server } = kept;
    const session = await server.session();
    const model = await trained(server, session);
    expect(await kept.folders()).toBe(3);
    server = await kept.reopen();
    expect(await kept.folders()).toBeGreaterThanOrEqual(3); // the session has not finished: a client may continue
    expect((await sample(server, { sampling_session_id: `${session}:sample:5` })).status).toBe(200);
    await finish(server, session);
    await expect.poll(() => server.clock.advance(minute).then(kept.folders)).toBe(1);
    const { json } = await server.get(`training_runs/${model}/checkpoints`);
    expect(json.checkpoints.map((one: { checkpoint_id: string }) => one.checkpoint_id)).toEqual(["weights/final"]);
    const made = await server.post("load_weights", {
      session_id: await server.session(),
      model_seq_id: 0,
      path: `tinker://${model}/weights/final`,
      optimizer: true,
    });
    expect((await server.result(made)).model_id).toMatch(/:train:0$/);
  });

  test("is deleted when the server stops, because commands end within a minute", async () => {
    const kept = await open();
    const { server } = kept;
    const session = await server.session();
    await trained(server, session);
    await finish(server, session);
    await kept.reopen();
    expect(await kept.folders()).toBe(1);
  });

  test("is deleted at a start after weeks of silence, also if no server ran", async () => {
    const kept = await open();
    let { server } = kept;
    await trained(server, await server.session());
    server = await kept.reopen();
    const before = await kept.folders();
    const days = 86_400_000;
    server.clock.jump(8 * days);
    await kept.reopen();
    expect(await kept.folders()).toBe(before - 2); // the samplers
    server.clock.jump(30 * days);
    await kept.reopen();
    expect(await kept.folders()).toBe(1);
  });

  test("is kept while a request of it is pending", async () => {
    const gate = gateway();
    let isHeld = false;
    const beforeCall = (name: string) => (isHeld && name === "sample" ? gate.promise : undefined);
    const kept = await open({ engine: { beforeCall } });
    const { server } = kept;
    const session = await server.session();
    await trained(server, session);
    isHeld = true;
    const own = await sample(server, { sampling_session_id: `${session}:sample:5` });
    server.clock.jump(8 * 86_400_000); // the session has ended for its samplers
    await expect.poll(() => server.clock.advance(minute).then(kept.folders)).toBe(2); // that sampler and the checkpoint
    gate.resolve();
    expect((await server.sampleResult(own)).sequences).toHaveLength(1);
  });
});

describe("sessions", () => {
  test("without a run are deleted when idle; those with a run or a heartbeat are kept", async () => {
    const kept = await open({ limits: { sessionTtlMs: 2 * 3_600_000 } });
    const { server } = kept;
    const [empty, heard, trained] = [await server.session(), await server.session(), await server.session()];
    await server.model(trained);
    await server.clock.advance(3_600_000);
    await server.post("session_heartbeat", { session_id: heard });
    await server.clock.advance(3_600_000 + 2 * minute);
    const status = (path: string) => server.clock.advance(minute).then(async () => (await server.get(path)).status);
    await expect.poll(() => status(`sessions/${empty}`)).toBe(404);
    expect((await server.get(`sessions/${heard}`)).status).toBe(200);
    expect((await server.get(`sessions/${trained}`)).status).toBe(200);
  }, 30_000);
});
