/** The server with the real engine: training, saving and sampling give the engine's own results, also after a restart. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "@tinklet/engine";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeTinyModel } from "../../engine/src/testing/tiny-model.ts";
import { hashApiKey } from "./http/access/auth.ts";
import { baseModel, TestServer } from "./testing/test-server.ts";

let root: string;
let modelFolder: string;
const source = () => ({
  name: baseModel,
  open: () => openEngine(modelFolder, { inThread: true, runtime: "interpreter" }),
});

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "tinklet-server-"));
  modelFolder = join(root, "model");
  await mkdir(modelFolder);
  await writeTinyModel(modelFolder);
});
afterAll(() => rm(root, { recursive: true, force: true }));

const steps = async (server: TestServer, model: string, from: number, to: number) => {
  const losses: number[] = [];
  for (let step = from; step < to; step++) {
    const pass = server.pass(model, 2 * step + 1, { tokens: [step + 1, 5, 9, 2] });
    losses.push((await server.passResult(pass)).loss!);
    await server.result(server.optim(model, 2 * step + 2));
  }
  return losses;
};
const weights = async (server: TestServer, model: string, seq: number) => {
  await server.result(server.post("save_weights", { model_id: model, seq_id: seq, path: `w${seq}` }));
  const { url } = (await server.get(`training_runs/${model}/checkpoints/weights/w${seq}/archive`)).json;
  const answer = await server.server.fetch(new Request(url));
  return Buffer.from(await answer.arrayBuffer())
    .subarray(10)
    .toString("base64"); // without the gzip header's time
};

test("training through the API is the engine's own training, bit for bit", async () => {
  const server = await TestServer.open({ models: [source()] });
  const model = await server.model(undefined, { rank: 3, seed: 5 });
  const losses = await steps(server, model, 0, 3);
  await server.close();

  await using engine = await openEngine(modelFolder, { inThread: true, runtime: "interpreter" });
  const { adapterId } = await engine.createAdapter({ rank: 3, seed: 5 });
  for (let step = 0; step < 3; step++) {
    const tokens = [step + 1, 5, 9, 2];
    const { metrics } = await engine.forwardBackward(adapterId, {
      data: [
        {
          tokens,
          lossFnInputs: { target_tokens: { data: tokens.map((t) => t + 1) }, weights: { data: tokens.map(() => 1) } },
        },
      ],
      lossFn: "cross_entropy",
    });
    expect(metrics["loss:sum"]).toBe(losses[step]);
    await engine.optimStep(adapterId, { learningRate: 0.01 });
  }
});

test("no field or counter shows a tenant that another tenant sampled the same prompt", async () => {
  const server = await TestServer.open({
    models: [source()],
    apiKeys: ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
  });
  const cachedInAll = async () => {
    const headers = { authorization: "Bearer tml-alice" };
    const text = await (await server.server.fetch(new Request("http://localhost/metrics", { headers }))).text();
    return Number(/^tinklet_tokens_total\{kind="sampling_prefill_cached"\} (\d+)$/m.exec(text)?.[1]);
  };
  const ask = async (name: string) => {
    server.key = `tml-${name}`;
    const before = await cachedInAll();
    const { json } = await server.post("asample", {
      base_model: baseModel,
      prompt: { chunks: [{ tokens: Array.from({ length: 40 }, (_, i) => 1 + (i % 30)) }] },
      sampling_params: { max_tokens: 3, seed: 1 },
    });
    const { bytes, headers } = await server.retrieve(json.request_id);
    const timing = /cache;desc="(\d+) prompt tokens"/.exec(headers.get("server-timing") ?? "")?.[1];
    return { body: Buffer.from(bytes).toString("hex"), timing, cached: (await cachedInAll()) - (before || 0) };
  };
  const alone = await ask("alice");
  expect(await ask("bob")).toEqual(alone);
  expect(alone).toMatchObject({ timing: "0", cached: 0 });
  // A tenant's own repetition is reported, so the comparison above can fail.
  expect(await ask("alice")).toMatchObject({ timing: "40", cached: 40 });
  await server.close();
});

test("a run after a restart, and one resumed from a checkpoint, equal the uninterrupted run bit for bit", async () => {
  const calm = await TestServer.open({ models: [source()] });
  const calmModel = await calm.model(undefined, { rank: 3, seed: 5 });
  const expectedLosses = await steps(calm, calmModel, 0, 4);
  const expected = await weights(calm, calmModel, 9);
  await calm.close();

  const dataDir = join(root, "data");
  let server = await TestServer.open({ models: [source()], dataDir });
  const model = await server.model(undefined, { rank: 3, seed: 5 });
  const first = await steps(server, model, 0, 2);
  const saved = await server.result(server.post("save_weights", { model_id: model, seq_id: 5, path: "half" }));
  await server.close();

  server = await TestServer.open({ models: [source()], dataDir });
  const session = await server.session();
  const resumed = await server.result(
    server.post("load_weights", { session_id: session, model_seq_id: 0, path: saved.path, optimizer: true }),
  );
  const second: number[] = [];
  for (let step = 2; step < 4; step++) {
    const seq = 2 * (step - 2) + 1;
    second.push((await server.passResult(server.pass(resumed.model_id, seq, { tokens: [step + 1, 5, 9, 2] }))).loss!);
    await server.result(server.optim(resumed.model_id, seq + 1));
  }
  expect([...first, ...second]).toEqual(expectedLosses);
  expect(await weights(server, resumed.model_id, 5)).toBe(expected);

  // the model itself, which the restart removed from memory, continues as well
  for (let step = 2; step < 4; step++) {
    await server.passResult(server.pass(model, 2 * step + 2, { tokens: [step + 1, 5, 9, 2] }));
    await server.result(server.optim(model, 2 * step + 3));
  }
  expect(await weights(server, model, 10)).toBe(expected);
  await server.close();
});

test("a sampler's weights never change, and sampling continues while its model trains", async () => {
  const server = await TestServer.open({ models: [source()] });
  const model = await server.model(undefined, { rank: 3, seed: 5 });
  await steps(server, model, 0, 1);
  const saved = await server.result(
    server.post("save_weights_for_sampler", { model_id: model, seq_id: 3, sampling_session_seq_id: 0 }),
  );
  const sample = (seq: number) =>
    server.sampleResult(
      server.post("asample", {
        sampling_session_id: saved.sampling_session_id,
        seq_id: seq,
        num_samples: 2,
        prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2, 3] }] },
        sampling_params: { max_tokens: 4, seed: 3, temperature: 1 },
        prompt_logprobs: true,
        topk_prompt_logprobs: 2,
      }),
    );
  const before = await sample(0);
  expect(before.sequences).toHaveLength(2);
  expect(before.promptLogprobs?.[0]).toBeNull();
  for (let step = 0; step < 2; step++) {
    await server.passResult(server.pass(model, 2 * step + 4, { tokens: [7, 8, 9] }));
    await server.result(server.optim(model, 2 * step + 5, 0.1));
  }
  const after = await sample(1);
  expect(after.sequences.map(({ tokens }) => tokens)).toEqual(before.sequences.map(({ tokens }) => tokens));
  expect(after.promptLogprobs).toEqual(before.promptLogprobs);
  await server.close();
});
