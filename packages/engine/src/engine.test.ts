/** The public API, on the caller's thread and in a worker. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAdapter } from "./adapter/adapter.ts";
import { openEngine } from "./engine.ts";
import { ConfigError, HubError, InputError, MemoryError, WeightsError } from "./errors.ts";
import * as publicFace from "./index.ts";
import { createRandom } from "./random.ts";
import { type Compute, toleranceOf } from "./testing/rounding.ts";
import { tinyModel, writeTinyModel } from "./testing/tiny-model.ts";
import { Trainer } from "./train/trainer.ts";
import type { Engine, EngineOptions, LoraOptions, LossRequest, SampleRequest } from "./types.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tinklet-engine-"));
  await writeTinyModel(folder, { eos_token_id: null });
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const request: LossRequest = {
  lossFn: "cross_entropy",
  data: [{ tokens: [1, 2, 3, 4], lossFnInputs: { target_tokens: { data: Int32Array.of(2, 3, 4, 5) } } }],
};
const lora = { rank: 4, seed: 1 };
const greedy = { prompt: [1, 2], params: { maxTokens: 8, temperature: 0 } };

/** Error bound of a float32 log-prob of this request, with an adapter of the size that five steps at this learning rate produce. */
async function allowedLogprobError(): Promise<number> {
  const model = tinyModel({ eos_token_id: null });
  const adapter = createAdapter(model.config, {
    ...lora,
    alpha: 32,
    trainAttn: true,
    trainMlp: true,
    trainUnembed: true,
  });
  const random = createRandom(1, "five steps");
  for (let i = 0; i < adapter.values.length; i++) adapter.values[i]! += 5 * 0.02 * (2 * random() - 1);
  const score: Compute = async (runtime, weights) => {
    const trainer = new Trainer(model, runtime, { activationBytes: 1e9, contextLength: 64 });
    return { logprobs: (await trainer.forward(weights, request)).lossFnOutputs[0]!.logprobs.data };
  };
  return Math.max(...(await toleranceOf(score, () => adapter, 4)).allowed("logprobs"));
}

async function trainSteps(engine: Engine, adapterId: string, steps: number): Promise<number> {
  let loss = 0;
  for (let i = 0; i < steps; i++) {
    const pass = engine.forwardBackward(adapterId, request);
    const step = engine.optimStep(adapterId, { learningRate: 0.02 });
    loss = (await pass).metrics["loss:sum"]!;
    await step;
  }
  return loss;
}

describe.each([
  ["in thread", true],
  ["worker", false],
])("%s", (_, inThread) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine(folder, { inThread, threads: 1 });
  });
  afterAll(() => engine.close());

  it("trains: the loss falls, calls need not be awaited one by one", async () => {
    const { adapterId, parameters } = await engine.createAdapter(lora);
    expect(parameters).toBeGreaterThan(0);
    const first = await trainSteps(engine, adapterId, 1);
    expect(await trainSteps(engine, adapterId, 30)).toBeLessThan(first / 5);
    expect((await engine.adapterInfo(adapterId)).step).toBe(31);
  });

  it("continued training changes neither snapshots nor samples that have started", async () => {
    const { adapterId } = await engine.createAdapter(lora);
    await trainSteps(engine, adapterId, 2);
    const snapshot = await engine.snapshot(adapterId);
    const before = await engine.sample({ ...greedy, adapter: snapshot });
    const live = engine.sample({ ...greedy, adapter: adapterId });
    await trainSteps(engine, adapterId, 20);
    expect((await live).sequences).toEqual(before.sequences);
    expect((await engine.sample({ ...greedy, adapter: snapshot })).sequences).toEqual(before.sequences);
    expect((await engine.sample({ ...greedy, adapter: adapterId })).sequences).not.toEqual(before.sequences);
    await engine.deleteSnapshot(snapshot);
    await expect(engine.sample({ ...greedy, adapter: snapshot })).rejects.toThrow(InputError);
  });

  it("cached prompts are dropped with the weights that computed them", async () => {
    const kept = async (): Promise<number> => (await engine.stats()).prefixCacheBytes;
    const base = await kept();
    const { adapterId } = await engine.createAdapter(lora);
    const snapshot = await engine.snapshot(adapterId);
    for (const hit of [0, greedy.prompt.length]) {
      expect((await engine.sample({ ...greedy, adapter: snapshot })).promptCacheHitTokens).toBe(hit);
    }
    expect(await kept()).toBeGreaterThan(base);
    await trainSteps(engine, adapterId, 1);
    expect(await kept()).toBeGreaterThan(base); // the snapshot has the old weights
    await engine.sample({ ...greedy, adapter: adapterId });
    await engine.deleteSnapshot(snapshot);
    expect(await kept()).toBeGreaterThan(base);
    await trainSteps(engine, adapterId, 1);
    expect(await kept()).toBe(base);
  });

  it("resumes from an exported state to the bit", async () => {
    const { adapterId } = await engine.createAdapter(lora);
    await trainSteps(engine, adapterId, 3);
    const state = await engine.exportState(adapterId, { optimizer: true });
    await trainSteps(engine, adapterId, 3);
    const { adapterId: resumed, step } = await engine.importState(state);
    expect(step).toBe(3);
    await trainSteps(engine, resumed, 3);
    const [a, b] = [await engine.exportState(adapterId), await engine.exportState(resumed)];
    expect(b.weights).toEqual(a.weights);
    await engine.loadState(adapterId, state);
    expect((await engine.exportState(adapterId)).weights).toEqual(state.weights);
    const broken = { ...state, weights: { ...state.weights } };
    delete (broken.weights as Record<string, unknown>)[Object.keys(state.weights)[3]!];
    await expect(engine.importState(broken)).rejects.toThrow(WeightsError);
  });

  it("writes and reads PEFT folders", async () => {
    const { adapterId } = await engine.createAdapter({ ...lora, trainMlp: false });
    await trainSteps(engine, adapterId, 3);
    await engine.savePeft(adapterId, join(folder, "adapter"));
    const snapshot = await engine.importSnapshot(await engine.readPeft(join(folder, "adapter")));
    const [mine, theirs] = [await engine.forward(adapterId, request), await engine.forward(snapshot, request)];
    expect(theirs.lossFnOutputs).toEqual(mine.lossFnOutputs);
  });

  it("merges an adapter into full weights", async () => {
    const { adapterId } = await engine.createAdapter(lora);
    await trainSteps(engine, adapterId, 5);
    await engine.saveMerged(adapterId, join(folder, "merged"));
    const merged = await openEngine(join(folder, "merged"), { inThread: true, threads: 1 });
    expect(merged.info.tiedEmbeddings).toBe(false); // the unembedding was trained, the embedding was not
    const [mine, theirs] = [await engine.forward(adapterId, request), await merged.forward(null, request)];
    const allowed = await allowedLogprobError();
    theirs.lossFnOutputs[0]!.logprobs.data.forEach((value, i) => {
      expect(Math.abs(value - mine.lossFnOutputs[0]!.logprobs.data[i]!)).toBeLessThanOrEqual(2 * allowed);
    });
    await merged.close();
  });

  it("keeps error classes and fields", async () => {
    await expect(engine.createAdapter({ rank: 0 })).rejects.toThrow(InputError);
    const error = await engine.forward(null, { ...request, data: [] }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "bad_input", field: "data" });
    await expect(engine.forwardBackward("unknown", request)).rejects.toMatchObject({ code: "no_adapter" });
    const { adapterId } = await engine.createAdapter(lora);
    await expect(engine.optimStep(adapterId, { beta1: 1 })).rejects.toMatchObject({ field: "beta1" });
  });

  it("streams, and aborts with the caller's own reason", async () => {
    const seen: number[] = [];
    const result = await engine.sample(greedy, { onToken: ({ token }) => seen.push(token) });
    expect(seen).toEqual([...result.sequences[0]!.tokens]);
    const controller = new AbortController();
    const endless = engine.sample(
      { prompt: [1], numSamples: 8, params: { maxTokens: 60 } },
      { signal: controller.signal, onToken: () => controller.abort(new Error("changed my mind")) },
    );
    await expect(endless).rejects.toThrow("changed my mind");
    expect((await engine.sample(greedy)).sequences).toEqual(result.sequences);
  });

  it("delivers no token after an abort", async () => {
    const controller = new AbortController();
    let calls = 0;
    const onToken = () => {
      calls++;
      controller.abort(new Error("enough"));
    };
    const sample = engine.sample({ ...greedy, numSamples: 8 }, { signal: controller.signal, onToken });
    await expect(sample).rejects.toThrow("enough");
    await engine.sample(greedy); // tokens in transit have arrived by now
    expect(calls).toBe(1);
  });

  it("a callback that throws ends its own sample, with what it threw, and no other", async () => {
    const other = engine.sample(greedy);
    let calls = 0;
    const onToken = () => {
      calls++;
      throw new RangeError("no place for it");
    };
    await expect(engine.sample({ ...greedy, numSamples: 4 }, { onToken })).rejects.toThrow(
      new RangeError("no place for it"),
    );
    expect((await engine.sample(greedy)).sequences).toEqual((await other).sequences);
    expect(calls).toBe(1);
  });

  it.each([
    [{ adapterId: "adapter-1" }, "adapterId", /did you mean adapter\?/],
    [{ num_samples: 2 }, "num_samples", /did you mean numSamples\?/],
    [{ maxTokens: 2 }, "maxTokens", /did you mean params\.maxTokens\?/],
    [{ params: { max_tokens: 2 } }, "params.max_tokens", /did you mean params\.maxTokens\?/],
    [{ onToken: () => {} }, "onToken", /second argument/],
    [{ colour: "red" }, "colour", /known are prompt/],
  ])("refuses a sample request with a field that does not exist: %o", async (extra, field, message) => {
    const error = await engine.sample({ ...greedy, ...extra } as SampleRequest).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(InputError);
    expect(error).toMatchObject({ field, code: "unknown_field", message: expect.stringMatching(message) });
  });

  it("refuses an adapter that is too large for the budget", async () => {
    await expect(engine.createAdapter({ rank: 1e9 })).rejects.toThrow(MemoryError);
    await expect(engine.createAdapter({ rank: 1.5 })).rejects.toMatchObject({ field: "lora.rank" });
    await expect(engine.createAdapter({ rank: 4, seed: 0.5 })).rejects.toMatchObject({ field: "lora.seed" });
  });

  it("decodes together what was asked for together", async () => {
    // Occupies the engine while the requests arrive.
    const tokens = Array.from({ length: 60 }, (_, i) => i % 37);
    const data = Array.from({ length: 300 }, () => ({ tokens, lossFnInputs: { target_tokens: { data: tokens } } }));
    const before = engine.forward(null, { data, lossFn: "cross_entropy" });
    const order: number[] = [];
    const ask = (id: number): Promise<unknown> => engine.sample(greedy, { onToken: () => order.push(id) });
    await Promise.all([before, ask(0), ask(1), ask(2), ask(3)]);
    // All have started before the first is half done.
    expect(new Set(order.slice(0, 2 * 4)).size).toBe(4);
  });

  it("reports what it holds", async () => {
    const stats = await engine.stats();
    expect(stats.weightsBytes).toBe(engine.info.parameters * 4);
    expect(stats.adaptersBytes).toBeGreaterThan(0);
  });
});

describe.each([
  ["in thread", true],
  ["worker", false],
])("closing, %s", (_, inThread) => {
  it("twice at once, in the middle of the work", async () => {
    const engine = await openEngine(folder, { inThread, threads: 1 });
    const sample = engine.sample({ prompt: [1], params: { maxTokens: 60 } });
    sample.catch(() => {});
    await Promise.all([engine.close(), engine.close()]);
    await expect(sample).rejects.toMatchObject({ code: "closed" });
  });

  it("ends a training call between two of its runs", async () => {
    const engine = await openEngine(folder, { inThread, threads: 1, runtime: "interpreter" });
    const { adapterId } = await engine.createAdapter(lora);
    const tokens = Array.from({ length: 60 }, (_, i) => i % 37);
    const datum = { tokens, lossFnInputs: { target_tokens: { data: tokens } } };
    const data = Array.from({ length: 1000 }, () => datum); // 1,024 tokens are one run
    const pass = engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
    pass.catch(() => {});
    await engine.close();
    await expect(pass).rejects.toMatchObject({ code: "closed" });
  });
});

it("says what to do with what cannot be sent to the thread, and does not wait for an answer to it", async () => {
  const engine = await openEngine(folder, { threads: 1 });
  const odd = { ...lora, onDone: () => {} } as LoraOptions;
  const error = await engine.createAdapter(odd).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(InputError);
  expect(error).toMatchObject({ field: "createAdapter", hint: /plain data/ });
  await engine.close();
});

it.each([
  { contextLength: Number.NaN },
  { contextLength: 0 },
  { memoryBudgetBytes: Number.NaN },
  { memoryBudgetBytes: -1 },
  { threads: -2 },
  { maxBatch: 1.5 },
  { runtime: "cuda" },
])("refuses options that make no sense: %o", async (options) => {
  const error = await openEngine(folder, options as EngineOptions).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(InputError);
  expect(error).toMatchObject({ field: Object.keys(options)[0] });
});

it.each([true, false])("opening ends with the signal's reason (in thread: %s)", async (inThread) => {
  const controller = new AbortController();
  const opening = openEngine(folder, { inThread, signal: controller.signal });
  controller.abort(new Error("not now"));
  await expect(opening).rejects.toThrow("not now");
  await expect(openEngine(folder, { inThread, signal: controller.signal })).rejects.toThrow("not now");
});

it("has every error class in its public face", () => {
  expect(publicFace.HubError).toBe(HubError);
});

describe("a context that the budget has no cache for", () => {
  let long: string;
  beforeAll(async () => {
    long = await mkdtemp(join(tmpdir(), "tinklet-engine-"));
    await writeTinyModel(long, { eos_token_id: null, max_position_embeddings: 100_000 });
  });
  afterAll(() => rm(long, { recursive: true, force: true }));
  const options: EngineOptions = { inThread: true, threads: 1, memoryBudgetBytes: 40e6 };
  const rest: SampleRequest = { prompt: [1] }; // the rest of the context

  it("is cut with a notice, so that a sample may have the rest of it", async () => {
    const notices: string[] = [];
    await using engine = await openEngine(long, { ...options, onNotice: (message) => notices.push(message) });
    expect(engine.info.contextLength).toBeLessThan(100_000);
    expect(notices).toEqual([expect.stringMatching(`${engine.info.contextLength} tokens.*memoryBudgetBytes`)]);
    const controller = new AbortController();
    const started = engine.sample(rest, { signal: controller.signal, onToken: () => controller.abort("started") });
    await expect(started).rejects.toBe("started");
  });

  it("is left alone when it was asked for", async () => {
    await using engine = await openEngine(long, { ...options, contextLength: 90_000 });
    expect(engine.info.contextLength).toBe(90_000);
    await expect(engine.sample(rest)).rejects.toThrow(MemoryError);
    expect((await engine.sample({ ...rest, params: { maxTokens: 2 } })).sequences[0]!.tokens).toHaveLength(2);
  });

  it("that is empty is an error", async () => {
    await expect(openEngine(long, { ...options, memoryBudgetBytes: 40_000 })).rejects.toThrow(MemoryError);
  });
});

it("refuses to open what it cannot run", async () => {
  await expect(openEngine(folder, { memoryBudgetBytes: 1000 })).rejects.toThrow(MemoryError);
  const other = await mkdtemp(join(tmpdir(), "tinklet-engine-"));
  await writeTinyModel(other);
  const { writeFile } = await import("node:fs/promises");
  await writeFile(join(other, "config.json"), JSON.stringify({ model_type: "mamba" }));
  const error = await openEngine(other).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ConfigError);
  expect(error).toMatchObject({ field: "model_type" });
  await rm(other, { recursive: true });
});

it("what the Hub refuses keeps its class on the way out of the worker", async () => {
  const error = await openEngine("no-owner/no-such-model", { offline: true, cacheDir: folder }).catch(
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(HubError);
  expect(error).toMatchObject({ code: "offline" });
});

it("closes: pending and later calls reject, closing twice is fine", async () => {
  const engine = await openEngine(folder, { threads: 1 });
  const sample = engine.sample({ prompt: [1], params: { maxTokens: 60 } });
  sample.catch(() => {});
  await engine.close();
  await expect(sample).rejects.toMatchObject({ code: "closed" });
  await expect(engine.createAdapter(lora)).rejects.toMatchObject({ code: "closed" });
  await engine.close();
});
