/** Cancelled samples, a stopped server, unloaded models, an engine without memory, and an engine that dies. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Engine, EngineError, MemoryError } from "@tinklet/engine";
import { systemClock } from "@tinklet/wire/clock";
import { describe, expect, onTestFinished, test } from "vitest";
import { createServer } from "../server.ts";
import { fakeEngine } from "../testing/fake-engine.ts";
import { baseModel, gateway, TestServer, type TestServerOptions } from "../testing/test-server.ts";

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};
const newSampler = async (server: TestServer, session: string): Promise<string> => {
  const made = await server.post("create_sampling_session", {
    session_id: session,
    sampling_session_seq_id: 0,
    base_model: baseModel,
  });
  return made.json.sampling_session_id as string;
};
const sample = (server: TestServer, sampler: string, seq: number, more: object = {}) =>
  server.post("asample", {
    sampling_session_id: sampler,
    seq_id: seq,
    prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, seq] }] },
    sampling_params: { max_tokens: 4, seed: 1 },
    ...more,
  });

describe("cancelling", () => {
  /** A server whose samples hang, with 64 sequences on the engine and two waiting samples. */
  const busy = async () => {
    const gate = gateway();
    const server = await open({ engine: { beforeCall: (name) => (name === "sample" ? gate.promise : undefined) } });
    const session = await server.session();
    const sampler = await newSampler(server, session);
    const running = await sample(server, sampler, 0, { num_samples: 64 });
    const waiting = [await sample(server, sampler, 1), await sample(server, sampler, 2)];
    return { gate, server, session, running, waiting };
  };
  const cancelled = { category: "user", error: expect.stringContaining("cancelled") };

  test("ends a waiting and a running sample, and no other", async () => {
    const { gate, server, running, waiting } = await busy();
    for (const { json } of [waiting[0]!, running]) {
      expect((await server.post("cancel_future", { request_id: json.request_id })).status).toBe(200);
    }
    expect(await server.result(waiting[0]!)).toMatchObject(cancelled);
    expect(await server.result(running)).toMatchObject(cancelled);
    gate.resolve();
    expect((await server.sampleResult(waiting[1]!)).sequences).toHaveLength(1);
  });

  test("does not change finished samples and training requests; an unknown id is answered 404", async () => {
    const server = await open();
    const session = await server.session();
    const done = await sample(server, await newSampler(server, session), 0);
    const before = await server.sampleResult(done);
    const model = await server.model(session);
    const pass = await server.pass(model, 2); // waits for seq_id 1
    for (const { json } of [done, pass]) {
      expect((await server.post("cancel_future", { request_id: json.request_id })).status).toBe(200);
    }
    expect(await server.sampleResult(done)).toEqual(before);
    const step = await server.pass(model, 1);
    expect((await server.passResult(step)).metrics).toHaveProperty("loss:sum");
    expect((await server.passResult(pass)).metrics).toHaveProperty("loss:sum");
    expect((await server.post("cancel_future", { request_id: "1-0123456789abcdef" })).status).toBe(404);
    expect((await server.post("cancel_future", {})).status).toBe(422);
  });

  test("finishing a session cancels its samples, and no others", async () => {
    const { gate, server, session, running, waiting } = await busy();
    const other = await sample(server, await newSampler(server, await server.session()), 0);
    await server.post(`sessions/${session}/finish`, { reason: { type: "interrupted" } });
    for (const accepted of [running, ...waiting]) expect(await server.result(accepted)).toMatchObject(cancelled);
    gate.resolve();
    expect((await server.sampleResult(other)).sequences).toHaveLength(1);
  });
});

test("a server that is stopped stores snapshots: the next start replays nothing", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-stop-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const opened: { server?: TestServer } = {};
  const takesTime = async (name: string) => {
    if (name === "forwardBackward" || name === "optimStep") await opened.server?.clock.advance(10);
  };
  let server = await TestServer.open({ dataDir, engine: { beforeCall: takesTime } });
  opened.server = server;
  const model = await server.model();
  await server.passResult(server.pass(model, 1));
  await server.result(server.optim(model, 2));
  const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 3, path: "a" }));
  await server.close();

  const calls: string[] = [];
  server = await open({ dataDir, engine: { beforeCall: (name) => void calls.push(name) } });
  await server.passResult(server.pass(model, 4));
  expect(calls).toEqual(["importState", "forwardBackward"]);
  await server.result(server.post("load_weights", { model_id: model, seq_id: 5, path: saved.path, optimizer: true }));
});

test("a server that is stopping answers polls with 503 and Retry-After, so that clients back off", async () => {
  const server = await TestServer.open();
  const model = await server.model();
  const waiting = await server.pass(model, 2); // waits for seq_id 1
  const held = server.retrieve(waiting.json.request_id);
  const closing = server.close();
  for (const answer of [await held, await server.retrieve(waiting.json.request_id)]) {
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("1");
  }
  await closing;
  // On a connection that is still open after the store was closed.
  const late = await server.retrieve(waiting.json.request_id);
  expect([late.status, late.headers.get("retry-after")]).toEqual([503, "2"]);
});

describe("a model that is unloaded", () => {
  test("fails its later requests with a reason, also after a restart; its checkpoints and other models still work", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "tinklet-unload-"));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    let server = await TestServer.open({ dataDir });
    const session = await server.session();
    const [gone, kept] = [await server.model(session, { seq: 0 }), await server.model(session, { seq: 1 })];
    await server.passResult(server.pass(gone, 1));
    await server.result(server.optim(gone, 2));
    const saved = await server.result(server.post("save_weights", { model_id: gone, seq_id: 3, path: "a" }));
    const unloaded = { model_id: gone, type: "unload_model" };
    expect(await server.result(server.post("unload_model", { model_id: gone }))).toMatchObject(unloaded);
    const refused = { category: "user", error: expect.stringContaining("was unloaded") };
    expect(await server.result(server.pass(gone, 4))).toMatchObject(refused);
    expect((await server.passResult(server.pass(kept, 1))).metrics).toHaveProperty("loss:sum");
    expect(await server.result(server.post("unload_model", { model_id: gone }))).toMatchObject(unloaded);
    await server.close();

    server = await open({ dataDir });
    expect(await server.result(server.optim(gone, 5))).toMatchObject(refused);
    expect(await server.result(server.optim(kept, 2))).toHaveProperty("metrics");
    const again = { session_id: session, model_seq_id: 2, path: saved.path, optimizer: true };
    const { model_id: next } = await server.result(server.post("load_weights", again));
    expect((await server.passResult(server.pass(next, 1))).metrics).toHaveProperty("loss:sum");
  });
});

test("a start that fails releases the data folder, so that another attempt in this process succeeds", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-start-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const models = [{ name: baseModel, open: async () => fakeEngine() }];
  const broken = {
    ...systemClock(),
    now: () => {
      throw new Error("the clock cannot be read");
    },
  };
  await expect(createServer({ models, dataDir, log: "off", clock: broken })).rejects.toThrow(
    "the clock cannot be read",
  );
  const server = await createServer({ models, dataDir, log: "off" });
  await server.close();
});

describe("an engine without free memory", () => {
  /** An engine with memory for one adapter. */
  const narrow = () => {
    let held = 0;
    return (name: string) => {
      if (name === "createAdapter" || name === "importState") {
        if (held > 0) throw new MemoryError("no room for another adapter");
        held++;
      } else if (name === "deleteAdapter") held--;
      else if (name === "importSnapshot" && held > 0) throw new MemoryError("no room for a sampler's weights");
    };
  };

  /** A model in memory that is not idle, and a sample with an adapter for which there is no memory left. */
  const crowded = async () => {
    const limits = { pollMs: 4000, residentAdapters: 0 };
    const server = await open({ engine: { beforeCall: narrow() }, limits });
    const model = await server.model();
    const save = { model_id: model, seq_id: 1, sampling_session_seq_id: 0 };
    const { sampling_session_id } = await server.result(server.post("save_weights_for_sampler", save));
    const last = await server.pass(model, 3); // waits for seq_id 2
    const sample = await server.post("asample", {
      sampling_session_id,
      seq_id: 0,
      prompt: { chunks: [{ tokens: [1, 2, 3] }] },
      sampling_params: { max_tokens: 2, seed: 3 },
    });
    const poll = server.retrieve(sample.json.request_id);
    await server.clock.advance(4000);
    return { server, model, last, sample, polled: (await poll).json };
  };

  test.each(["is idle", "still waits after 10 s"])(
    "a sample waits with a reason until the model that uses the memory %s",
    async (end) => {
      const { server, model, last, sample, polled } = await crowded();
      expect(polled).toMatchObject({ type: "try_again", queue_state: "paused_capacity" });
      expect(polled.queue_state_reason).toContain("Waits for engine memory");
      if (end === "is idle") await server.passResult(server.pass(model, 2));
      else await server.clock.advance(10_000);
      expect((await server.sampleResult(sample)).sequences).toHaveLength(1);
      if (end !== "is idle") await server.passResult(server.pass(model, 2));
      expect((await server.passResult(last)).metrics).toHaveProperty("loss:sum");
    },
  );

  test("a sample waits for the memory of a model that is being restored", async () => {
    const memory = narrow();
    const replay = gateway();
    const replays = gateway();
    let holdsPasses = false;
    const beforeCall = (name: string) => {
      memory(name);
      if (!holdsPasses || name !== "forwardBackward") return undefined;
      replays.resolve();
      return replay.promise;
    };
    const server = await open({ engine: { beforeCall }, limits: { pollMs: 4000, residentAdapters: 0 } });
    const model = await server.model();
    const save = { model_id: model, seq_id: 1, sampling_session_seq_id: 0 };
    const { sampling_session_id } = await server.result(server.post("save_weights_for_sampler", save));
    // Two passes that are replayed when the model is restored: the engine gets the sample's weights between them.
    await server.passResult(server.pass(model, 2));
    await server.passResult(server.pass(model, 3));
    await server.model(); // evicts the first
    holdsPasses = true;
    const fourth = server.pass(model, 4);
    await replays.promise;
    const sample = await server.post("asample", {
      sampling_session_id,
      seq_id: 0,
      prompt: { chunks: [{ tokens: [1, 2, 3] }] },
      sampling_params: { max_tokens: 2, seed: 3 },
    });
    await server.clock.advance(1000);
    replay.resolve();
    expect((await server.passResult(fourth)).metrics).toHaveProperty("loss:sum");
    expect((await server.sampleResult(sample)).sequences).toHaveLength(1);
  });

  test("a cancelled sample that waited for memory releases its reservation", async () => {
    const { server, model, sample } = await crowded();
    await server.post("cancel_future", { request_id: sample.json.request_id });
    await server.clock.advance(20_000);
    expect(await server.result(sample)).toMatchObject({ error: expect.stringContaining("cancelled") });
    expect((await server.passResult(server.pass(model, 2))).metrics).toHaveProperty("loss:sum");
  });

  test.each(["is idle", "still waits after 10 s"])(
    "a model waits with a reason until the model that uses the memory %s",
    async (end) => {
      const server = await open({ engine: { beforeCall: narrow() }, limits: { pollMs: 4000 } });
      const session = await server.session();
      const first = await server.model(session);
      const second = await server.pass(first, 2); // waits for seq_id 1, so that the model is not idle
      const created = await server.post("create_model", {
        session_id: session,
        model_seq_id: 1,
        base_model: baseModel,
        lora_config: { rank: 4 },
      });
      const poll = server.retrieve(created.json.request_id);
      await server.clock.advance(4000);
      const { json } = await poll;
      expect(json).toMatchObject({ type: "try_again", queue_state: "paused_capacity" });
      expect(json.queue_state_reason).toContain("Waits for engine memory");
      if (end === "is idle") await server.passResult(server.pass(first, 1));
      else await server.clock.advance(10_000);
      expect(await server.result(created)).toMatchObject({ model_id: `${session}:train:1` });
      if (end !== "is idle") await server.passResult(server.pass(first, 1));
      expect((await server.passResult(second)).metrics).toHaveProperty("loss:sum");
    },
  );

  test("a model that is never idle is paused for one that has waited 10 s", async () => {
    const opened: { server?: TestServer } = {};
    let next = 3;
    const room = narrow();
    const server = await open({
      limits: { pollMs: 3_600_000 },
      engine: {
        // Each step submits another one, so that the first model always has a waiting request.
        beforeCall: async (name) => {
          if (name === "optimStep" && next < 200) {
            await opened.server!.optim(first, next++);
            await opened.server!.clock.advance(1000);
          }
          room(name);
        },
      },
    });
    opened.server = server;
    const session = await server.session();
    const first = await server.model(session);
    await server.optim(first, 1);
    await server.optim(first, 2);
    const created = await server.post("create_model", {
      session_id: session,
      model_seq_id: 1,
      base_model: baseModel,
      lora_config: { rank: 4 },
    });
    expect(await server.result(created)).toMatchObject({ model_id: `${session}:train:1` });
    expect(next).toBeLessThan(100);
  });
});

describe("an engine that dies", () => {
  /** Opens fake engines that die when `dies` says so: the call fails, and so does every later one. */
  const mortal = (dies: (name: string, engine: number) => boolean) => {
    const opened: Engine[] = [];
    const source = {
      name: baseModel,
      open: async () => {
        const number = opened.length;
        let dead = false;
        const engine = fakeEngine({
          beforeCall: (name) => {
            dead ||= dies(name, number);
            if (dead) throw new EngineError("worker_died", "the engine's thread failed");
          },
        });
        opened.push(engine);
        return engine;
      },
    };
    return { opened, models: [source] };
  };
  const train = async (server: TestServer) => {
    const model = await server.model(await server.session());
    const losses: (number | undefined)[] = [];
    for (let seq = 1; seq <= 6; seq += 2) {
      const pass = server.pass(model, seq, { tokens: [seq, 3, 9] });
      const step = server.optim(model, seq + 1);
      losses.push((await server.passResult(pass)).metrics["loss:sum"]);
      await server.result(step);
    }
    return losses;
  };

  test.each(["forwardBackward", "optimStep"])(
    "in %s is restarted, and accepted requests finish with the same results",
    async (call) => {
      const expected = await train(await open());
      let count = 0;
      const { opened, models } = mortal((name, engine) => name === call && engine === 0 && ++count === 2);
      const server = await open({ models });
      expect(await train(server)).toEqual(expected);
      expect(opened).toHaveLength(2);
      expect(server.logged).toContainEqual(expect.objectContaining({ event: "engine.died" }));
    },
  );

  test("does not make requests wait for seq_ids that were rejected before it died", async () => {
    const { opened, models } = mortal((name, engine) => name === "optimStep" && engine === 0);
    const server = await open({ models });
    const model = await server.model();
    await server.passResult(server.pass(model, 1));
    const refused = { model_id: model, seq_id: 3, adam_params: { learning_rate: "much" } };
    expect((await server.post("optim_step", refused)).status).toBe(422);
    const last = await server.pass(model, 4);
    expect(await server.result(server.optim(model, 2))).toHaveProperty("metrics");
    expect((await server.passResult(last)).metrics).toHaveProperty("loss:sum");
    expect(opened).toHaveLength(2);
    expect(server.logged.map(({ event }) => event)).not.toContain("seq.skipped");
  }, 20_000);

  test("while it runs a sample is restarted and runs the sample again", async () => {
    const { models } = mortal((name, engine) => name === "sample" && engine === 0);
    const server = await open({ models });
    const accepted = await sample(server, await newSampler(server, await server.session()), 0);
    expect((await server.sampleResult(accepted)).sequences).toHaveLength(1);
  });

  test("repeatedly during the same request fails that request and serves the others", async () => {
    const { opened, models } = mortal((name) => name === "optimStep");
    const server = await open({ models });
    const model = await server.model();
    await server.passResult(server.pass(model, 1));
    expect(await server.result(server.optim(model, 2))).toMatchObject({ category: "server" });
    expect((await server.passResult(server.pass(model, 3))).metrics).toHaveProperty("loss:sum");
    expect(opened.length).toBeLessThanOrEqual(5);
  });
});

describe("a result that cannot be stored", () => {
  /** A server whose commit fails with an error of no known kind, once after `arm` was called. */
  const failing = async (options: TestServerOptions = {}) => {
    let isArmed = false;
    const arm = () => {
      isArmed = true;
    };
    const onPoint = (point: string) => {
      if (point !== "commit.before" || !isArmed) return;
      isArmed = false;
      throw new Error("constraint failed");
    };
    const hooks: { beforeCall?: (name: string) => Promise<void> | void } = {};
    const beforeCall = (name: string) => hooks.beforeCall?.(name);
    const server = await open({ onPoint, engine: { beforeCall }, ...options });
    return { server, hooks, arm };
  };
  const failed = { category: "server", error: expect.stringContaining("failed in the server") };
  const lossOf = async (server: TestServer, model: string, seq: number) =>
    (await server.passResult(server.pass(model, seq, { forwardOnly: true }))).metrics["loss:sum"];

  test("fails its sample, so that no client waits for it forever", async () => {
    const { server, hooks, arm } = await failing();
    const sampler = await newSampler(server, await server.session());
    hooks.beforeCall = arm;
    expect(await server.result(sample(server, sampler, 0))).toMatchObject(failed);
    hooks.beforeCall = () => {};
    expect((await server.sampleResult(sample(server, sampler, 1))).sequences).toHaveLength(1);
  });

  test("does not load the weights that its request asked for", async () => {
    const { server, hooks, arm } = await failing();
    const model = await server.model();
    const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "a" }));
    await server.passResult(server.pass(model, 2));
    await server.result(server.optim(model, 3));
    const expected = await lossOf(server, model, 4);
    hooks.beforeCall = (name) => (name === "loadState" ? arm() : undefined);
    const load = { model_id: model, seq_id: 5, path: saved.path, optimizer: true };
    expect(await server.result(server.post("load_weights", load))).toMatchObject(failed);
    expect(await lossOf(server, model, 6)).toBe(expected);
  });

  test("of an optimizer step is not in the snapshot taken after the step", async () => {
    const { server, hooks, arm } = await failing({ limits: { snapshotWorthMs: 1500 } });
    const model = await server.model();
    hooks.beforeCall = async (name) => {
      if (name === "forwardBackward" || name === "optimStep") await server.clock.advance(1000);
      if (name === "exportState") arm();
    };
    await server.passResult(server.pass(model, 1));
    const expected = await lossOf(server, model, 2);
    await server.passResult(server.pass(model, 3));
    expect(await server.result(server.optim(model, 4))).toMatchObject(failed);
    expect(await lossOf(server, model, 5)).toBe(expected);
  });
});

test("a request that ran when a later seq_id was skipped runs again after a restart, without waiting", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-skip-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const hangs = (name: string) => (name === "forwardBackward" ? new Promise<void>(() => {}) : undefined);
  const server = await TestServer.open({ dataDir, engine: { beforeCall: hangs } });
  const model = await server.model();
  const first = await server.pass(model, 1);
  const third = await server.optim(model, 3);
  await server.clock.advance(331_000);
  expect(server.logged).toContainEqual(expect.objectContaining({ event: "seq.skipped", from: 2, before: 3 }));
  const closing = server.close();
  await server.clock.advance(5000);
  await closing;

  const next = await open({ dataDir });
  expect((await next.passResult(first)).metrics).toHaveProperty("loss:sum");
  expect(await next.result(third)).toHaveProperty("metrics");
});

test("samples run in the scope of their tenant, so that no prefix cache is shared between tenants", async () => {
  const scopes: (string | undefined)[] = [];
  const engine = fakeEngine();
  const watched: Engine = {
    ...engine,
    sample: (request, options) => {
      scopes.push(request.scope);
      return engine.sample(request, options);
    },
  };
  const server = await open({ models: [{ name: baseModel, open: async () => watched }] });
  await server.sampleResult(sample(server, await newSampler(server, await server.session()), 0));
  expect(scopes).toEqual(["local"]);
});
