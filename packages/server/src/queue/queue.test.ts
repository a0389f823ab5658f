import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "../http/access/auth.ts";
import { baseModel, gateway, passBytes, TestServer, type TestServerOptions } from "../testing/test-server.ts";

const open = async (options?: TestServerOptions) => {
  const server = await TestServer.open(options);
  onTestFinished(() => server.close());
  return server;
};

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), "tinklet-queue-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
};

/** Records the names of the engine's training calls in execution order. */
const recorder = () => {
  const calls: string[] = [];
  return { calls, beforeCall: (name: string) => void calls.push(name) };
};

describe("order", () => {
  test("chunks that arrive last-first run by seq_id", async () => {
    const server = await open();
    const model = await server.model();
    const third = await server.optim(model, 3);
    const second = await server.pass(model, 2, { tokens: [5, 6] });
    const first = await server.pass(model, 1);
    const results = await Promise.all([server.passResult(first), server.passResult(second), server.result(third)]);
    expect(results[2].metrics["unclipped_grad_l2:mean"]).toBeGreaterThan(0);

    const other = await open();
    const same = await other.model();
    const inOrder = [other.pass(same, 1), other.pass(same, 2, { tokens: [5, 6] }), other.optim(same, 3)] as const;
    expect((await other.passResult(inOrder[0])).metrics).toEqual(results[0].metrics);
    expect(await other.result(inOrder[2])).toEqual(results[2]);
  });

  test("a missing seq_id pauses the model with a reason, is then skipped, and fails when it arrives late", async () => {
    const server = await open();
    const model = await server.model();
    const second = await server.optim(model, 2);
    const poll = server.retrieve(second.json.request_id);
    await server.clock.advance(30_000);
    const waiting = (await poll).json;
    expect(waiting).toMatchObject({ type: "try_again", queue_state: "paused_capacity" });
    expect(waiting.queue_state_reason).toContain("seq_id 1");
    await server.clock.advance(301_000);
    expect(await server.result(second)).toHaveProperty("metrics");
    expect(server.logged).toContainEqual(expect.objectContaining({ event: "seq.skipped", from: 1, before: 2 }));
    const late = await server.pass(model, 1);
    expect(await server.result(late)).toMatchObject({ category: "user" });
  });

  test("the seq_id of a rejected request is consumed immediately", async () => {
    const server = await open();
    const model = await server.model();
    const second = await server.optim(model, 2);
    const refused = await server.post("optim_step", {
      model_id: model,
      seq_id: 1,
      adam_params: { learning_rate: "much" },
    });
    expect(refused.status).toBe(422);
    expect(await server.result(second)).toHaveProperty("metrics");
  });

  test("invalid data fails the future and does not stop the model", async () => {
    const server = await open();
    const model = await server.model();
    const bytes = passBytes(model, 1);
    const broken = await server.post("forward_backward", bytes.subarray(0, bytes.length - 3));
    expect(broken.status).toBe(200);
    expect(await server.result(broken)).toMatchObject({ category: "user" });
    expect(await server.result(server.pass(model, 2, { lossFn: "stable_reinforce" }))).toMatchObject({
      category: "user",
    });
    expect(await server.result(server.optim(model, 3))).toHaveProperty("metrics");
  });
});

describe("idempotency", () => {
  test("a retry returns the same future; another request with the same seq_id is rejected with 422", async () => {
    const { calls, beforeCall } = recorder();
    const server = await open({ engine: { beforeCall } });
    const model = await server.model();
    const [first, again] = await Promise.all([server.pass(model, 1), server.pass(model, 1)]);
    expect(again.json.request_id).toBe(first.json.request_id);
    await server.passResult(first);
    expect((await server.pass(model, 1)).json.request_id).toBe(first.json.request_id);
    expect(calls.filter((name) => name === "forwardBackward")).toHaveLength(1);
    const clash = await server.pass(model, 1, { tokens: [9, 9] });
    expect(clash.status).toBe(422);
  });

  test("a retry of a sampler save may change its sampling_session_seq_id", async () => {
    const server = await open();
    const model = await server.model();
    const save = (samplerSeq: number) =>
      server.post("save_weights_for_sampler", { model_id: model, seq_id: 1, sampling_session_seq_id: samplerSeq });
    const first = await save(0);
    expect((await save(1)).json.request_id).toBe(first.json.request_id);
    expect(await server.result(first)).toMatchObject({ sampling_session_id: expect.stringContaining(":sample:0") });
  });

  test("two models that save at once without a sampling_session_seq_id get one sampling session each", async () => {
    const server = await open();
    const session = await server.session();
    const models = [await server.model(session, { seq: 0 }), await server.model(session, { seq: 1 })];
    const saves = models.map((model) => server.post("save_weights_for_sampler", { model_id: model, seq_id: 1 }));
    const ids = await Promise.all(saves.map(async (save) => (await server.result(save)).sampling_session_id));
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect((await server.get(`samplers/${id}`)).status).toBe(200);
  });

  test("seq_ids of samples above 2^53 stay distinct", async () => {
    const server = await open();
    const session = await server.session();
    const sampler = await server.post("create_sampling_session", {
      session_id: session,
      sampling_session_seq_id: 0,
      base_model: baseModel,
    });
    const sample = (seq: string, token: number) =>
      server.post(
        "asample",
        `{"prompt":{"chunks":[{"type":"encoded_text","tokens":[${token}]}]},"sampling_params":{"max_tokens":2,"seed":1},"sampling_session_id":${JSON.stringify(sampler.json.sampling_session_id)},"seq_id":${seq}}`,
      );
    const one = await sample("54784135000000001", 1);
    const two = await sample("54784135000000002", 2);
    expect([one.status, two.status]).toEqual([200, 200]);
    expect(two.json.request_id).not.toBe(one.json.request_id);
    expect((await sample("54784135000000001", 1)).json.request_id).toBe(one.json.request_id);
    expect((await sample("54784135000000001", 2)).status).toBe(422);
    expect(one.json.sample_sequence_ids).toHaveLength(1);
  });

  test("a session is created once for one idempotency key", async () => {
    const server = await open();
    const create = (key: string) =>
      server.post("create_session", { tags: [], user_metadata: {}, sdk_version: "x" }, { "x-idempotency-key": key });
    const [first, again, other] = [await create("a"), await create("a"), await create("b")];
    expect(again.json.session_id).toBe(first.json.session_id);
    expect(other.json.session_id).not.toBe(first.json.session_id);
  });
});

describe("crash and restart", () => {
  /** Tokens sampled from the model's weights, which differ when a request was lost, applied twice or reordered. */
  const digest = async (server: TestServer, model: string, seq: number) => {
    const saved = await server.result(
      server.post("save_weights_for_sampler", { model_id: model, seq_id: seq, path: `d${seq}` }),
    );
    const sampler = await server.post("create_sampling_session", {
      session_id: model.split(":")[0],
      sampling_session_seq_id: 1000 + seq,
      model_path: saved.path,
    });
    const sample = server.post("asample", {
      prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2] }] },
      sampling_params: { max_tokens: 12, seed: 5 },
      sampling_session_id: sampler.json.sampling_session_id,
      seq_id: 0,
    });
    return (await server.sampleResult(sample)).sequences[0]!.tokens;
  };

  test("a replay restores a model together with its accumulated gradients", async () => {
    const dataDir = await folder();
    const calm = await open();
    const calmModel = await calm.model();
    for (const seq of [1, 2]) await calm.passResult(calm.pass(calmModel, seq, { tokens: [seq, 3, 9] }));
    await calm.result(calm.optim(calmModel, 3));
    await calm.passResult(calm.pass(calmModel, 4));
    await calm.result(calm.optim(calmModel, 5));
    const expected = await digest(calm, calmModel, 6);

    let server = await TestServer.open({ dataDir });
    const model = await server.model();
    for (const seq of [1, 2]) await server.passResult(server.pass(model, seq, { tokens: [seq, 3, 9] }));
    await server.close();
    server = await TestServer.open({ dataDir });
    await server.result(server.optim(model, 3));
    await server.passResult(server.pass(model, 4));
    await server.close();
    server = await TestServer.open({ dataDir });
    onTestFinished(() => server.close());
    await server.result(server.optim(model, 5));
    expect(await digest(server, model, 6)).toEqual(expected);
  });

  test("an accepted request that had not run finishes after the restart", async () => {
    const dataDir = await folder();
    const server = await TestServer.open({
      dataDir,
      engine: { beforeCall: (name) => (name === "optimStep" ? new Promise(() => {}) : undefined) },
    });
    const model = await server.model();
    const pass = await server.pass(model, 1);
    await server.passResult(pass);
    const step = await server.optim(model, 2);
    const closing = server.close();
    await server.clock.advance(5000); // the step hangs: the server stops waiting for it
    await closing;

    const next = await TestServer.open({ dataDir });
    onTestFinished(() => next.close());
    expect(next.server.recovered.requests).toBe(1);
    expect(await next.result(step)).toHaveProperty("metrics");
    expect((await next.passResult(pass)).metrics["loss:sum"]).toBeGreaterThan(0);
  });

  test("requests that were queued in the engine at the stop run after the restart, in order", async () => {
    const dataDir = await folder();
    const gate = gateway();
    const held: Record<string, Promise<void>> = { forwardBackward: gate.promise, forward: new Promise(() => {}) };
    const server = await TestServer.open({ dataDir, engine: { beforeCall: (name) => held[name] } });
    const model = await server.model();
    const first = await server.pass(model, 1);
    const second = await server.pass(model, 2, { forwardOnly: true });
    const third = await server.optim(model, 3);
    gate.resolve(); // the first is stored while the engine has all three
    await server.passResult(first);
    const closing = server.close();
    await server.clock.advance(5000);
    await closing;

    const replayed = recorder();
    const next = await TestServer.open({ dataDir, engine: { beforeCall: replayed.beforeCall } });
    onTestFinished(() => next.close());
    expect((await next.passResult(second)).metrics).toHaveProperty("loss:sum");
    expect(await next.result(third)).toHaveProperty("metrics");
    expect(replayed.calls.filter((name) => name === "forward" || name === "optimStep")).toEqual([
      "forward",
      "optimStep",
    ]);
  });

  test("after a snapshot the covered payloads are deleted and the model is restored from the snapshot", async () => {
    const dataDir = await folder();
    // Each call takes a second of the fake clock, so that a snapshot is due after three steps.
    const make = () => {
      const opened: { server?: TestServer } = {};
      return {
        opened,
        beforeCall: async (name: string) => {
          if (name === "forwardBackward" || name === "optimStep") await opened.server?.clock.advance(1000);
        },
      };
    };
    const first = make();
    const server = await TestServer.open({ dataDir, engine: { beforeCall: first.beforeCall } });
    first.opened.server = server;
    const model = await server.model();
    for (let seq = 1; seq <= 8; seq += 2) {
      await server.passResult(server.pass(model, seq, { tokens: [seq, 3, 9] }));
      await server.result(server.optim(model, seq + 1));
    }
    const expected = await digest(server, model, 9);
    await server.close();

    const replayed = recorder();
    const next = await TestServer.open({ dataDir, engine: { beforeCall: replayed.beforeCall } });
    onTestFinished(() => next.close());
    expect(await digest(next, model, 10)).toEqual(expected);
    expect(replayed.calls).toContain("importState");
    expect(replayed.calls.filter((name) => name === "optimStep").length).toBeLessThan(4);
  });
});

describe("failures during storing and loading", () => {
  test("a snapshot that fails its verification is not used, and the payloads that it covers are kept", async () => {
    const dataDir = await folder();
    const clocks: { advance?: () => Promise<void> } = {};
    /** Damages every folder that was just written. */
    const onPoint = (point: string) => {
      if (point !== "files.after-rename") return;
      for (const id of readdirSync(join(dataDir, "adapters"))) {
        const file = join(dataDir, "adapters", id, "adapter_model.safetensors");
        writeFileSync(file, readFileSync(file).subarray(0, -4));
      }
    };
    const beforeCall = async (name: string) => {
      if (name === "optimStep") await clocks.advance?.();
    };
    let server = await TestServer.open({ dataDir, onPoint, engine: { beforeCall } });
    clocks.advance = () => server.clock.advance(3000);
    const model = await server.model();
    for (let seq = 1; seq <= 6; seq += 2) {
      await server.passResult(server.pass(model, seq));
      await server.result(server.optim(model, seq + 1));
    }
    await expect.poll(() => server.logged.map(({ event }) => event)).toContain("snapshot.failed");
    await server.close();
    server = await open({ dataDir });
    expect((await server.passResult(server.pass(model, 7))).metrics).toHaveProperty("loss:sum");
  });

  test("a checkpoint that is deleted while it is being loaded stays usable for the model", async () => {
    const held: { server?: TestServer; model?: string } = {};
    const beforeCall = async (name: string) => {
      if (name !== "loadState") return;
      const at = `training_runs/${held.model}/checkpoints/weights/a`;
      expect((await held.server!.send("DELETE", at)).status).toBe(200);
    };
    const server = await open({ dataDir: await folder(), engine: { beforeCall } });
    const model = await server.model();
    Object.assign(held, { server, model });
    const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "a" }));
    const body = { model_id: model, seq_id: 2, path: saved.path, optimizer: true };
    expect(await server.result(server.post("load_weights", body))).toMatchObject({ model_id: model });
    server.clock.jump(3_600_000); // after this time the model is evicted
    await server.clock.advance(60_000);
    expect((await server.passResult(server.pass(model, 3))).metrics).toHaveProperty("loss:sum");
  });

  test("a model whose restore fails leaves no adapter in the engine", async () => {
    const dataDir = await folder();
    let server = await TestServer.open({ dataDir });
    const model = await server.model();
    await server.passResult(server.pass(model, 1));
    await server.close();
    const calls: string[] = [];
    let broken = true;
    const beforeCall = (name: string) => {
      calls.push(name);
      if (name === "forwardBackward" && broken) throw new Error("not today");
    };
    server = await open({ dataDir, engine: { beforeCall } });
    expect(await server.result(server.optim(model, 2))).toMatchObject({ category: "server" });
    expect(calls.filter((name) => name === "deleteAdapter")).toHaveLength(1);
    broken = false;
    expect(await server.result(server.optim(model, 3))).toHaveProperty("metrics");
  });
});

describe("results", () => {
  test("are kept for a day after they were retrieved, then the status is 410", async () => {
    const server = await open();
    const model = await server.model();
    const step = await server.optim(model, 1);
    await server.result(step);
    server.clock.jump(3_600_000);
    await server.clock.advance(60_000);
    expect(await server.result(step)).toHaveProperty("metrics");
    server.clock.jump(30 * 3_600_000);
    await server.clock.advance(60_000);
    const id = step.json.request_id as string;
    expect((await server.retrieve(id)).status).toBe(410);
  });

  test("an invalid request id is answered 404", async () => {
    const server = await open();
    expect((await server.retrieve("zz-0123456789abcdef")).status).toBe(404);
    expect((await server.retrieve("nonsense")).status).toBe(404);
  });
});

describe("back-pressure", () => {
  test("a model that pauses because of uncommitted results resumes", async () => {
    const server = await open();
    const model = await server.model();
    const last = await server.optim(model, 40);
    for (let seq = 39; seq >= 1; seq--) await server.optim(model, seq); // all become runnable when seq_id 1 arrives
    expect(await server.result(last)).toHaveProperty("metrics");
  });

  test("a full queue answers 429 and does not consume the seq_id", async () => {
    const gate = gateway();
    const server = await open({
      limits: { pendingPerTenant: 2 },
      engine: { beforeCall: (name) => (name === "optimStep" ? gate.promise : undefined) },
    });
    const model = await server.model();
    const accepted = [await server.optim(model, 1), await server.optim(model, 2)];
    const refused = await server.optim(model, 3);
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("1");
    gate.resolve();
    for (const answer of accepted) await server.result(answer);
    expect(await server.result(server.optim(model, 3))).toHaveProperty("metrics");
  });

  test("the pending bytes of one tenant do not count against another", async () => {
    const gate = gateway();
    const server = await open({
      apiKeys: ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
      limits: { pendingBytesPerTenant: 500 },
      engine: { beforeCall: (name) => (name === "forwardBackward" ? gate.promise : undefined) },
    });
    server.key = "tml-bob";
    const other = await server.model();
    server.key = "tml-alice";
    const model = await server.model();
    const waiting = [await server.pass(model, 1), await server.pass(model, 2)];
    for (let seq = 3; waiting.at(-1)!.status === 200 && seq < 20; seq++) waiting.push(await server.pass(model, seq));
    expect(waiting.at(-1)!.status).toBe(429);
    server.key = "tml-bob";
    expect((await server.pass(other, 1)).status).toBe(200);
    gate.resolve();
    server.key = "tml-alice";
    for (const accepted of waiting.slice(0, -1)) await server.passResult(accepted);
    expect((await server.pass(model, waiting.length)).status).toBe(200);
  });

  test("models are scheduled fairly: many requests of one do not delay another", async () => {
    const order: string[] = [];
    const gate = gateway();
    const server = await open({
      engine: {
        beforeCall: async (name, adapter) => {
          if (name !== "optimStep") return;
          await gate.promise;
          order.push(String(adapter));
        },
      },
    });
    const session = await server.session();
    const [busy, quiet] = [await server.model(session, { seq: 0 }), await server.model(session, { seq: 1 })];
    const jobs = [];
    for (let seq = 1; seq <= 8; seq++) jobs.push(await server.optim(busy, seq));
    jobs.push(await server.optim(quiet, 1));
    gate.resolve();
    for (const job of jobs) await server.result(job);
    expect(order.indexOf("adapter-2")).toBeLessThan(4);
  });
});
