/** Training programs against the server of a page, with Node's WebAssembly runtime and a storage in memory. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "@tinklet/engine";
import { EngineError, MemoryError } from "@tinklet/engine/errors";
import { bundledModel, bundledModelFolder } from "@tinklet/models";
import { Datum, ModelInput, type ServiceClient, type TrainingClient } from "@tinklet/sdk";
import { NotFoundError, RequestFailedError } from "@tinklet/wire/errors";
import { afterEach, describe, expect, it } from "vitest";
import type { ServedEngine } from "./engine-host.ts";
import { type BrowserServer, startBrowserServer } from "./server.ts";
import { memoryStorage } from "./storage/memory-storage.ts";
import type { BrowserStorage } from "./storage/storage.ts";
import { type NodeModel, nodeModel } from "./testing/node-model.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface Page {
  readonly server: BrowserServer;
  readonly service: ServiceClient;
  readonly model: NodeModel;
}

/** A load of the page. */
async function load(
  storage: BrowserStorage = memoryStorage(),
  wrap?: (engine: ServedEngine) => ServedEngine,
): Promise<Page> {
  const model = nodeModel(wrap);
  const server = await startBrowserServer({ models: [model], storage });
  const service = await server.connect({ logLevel: "off" });
  closers.push(async () => {
    await service.close();
    await server.close();
  });
  return { server, service, model };
}

const texts = ["Ahoy, the capital of Spain be Madrid, ye landlubber!", "Yo ho, a dog has four legs, arr."];

async function batchOf(service: ServiceClient): Promise<Datum[]> {
  const tokenizer = await service.getTokenizer(bundledModel);
  return texts.map((text) => {
    const ids = tokenizer.encode(text);
    return new Datum({
      modelInput: ModelInput.fromInts(ids.slice(0, -1)),
      lossFnInputs: { target_tokens: ids.slice(1), weights: ids.slice(1).map(() => 1) },
    });
  });
}

const createTrainer = (service: ServiceClient): Promise<TrainingClient> =>
  Promise.resolve(service.createLoraTrainingClient({ baseModel: bundledModel, rank: 4, seed: 7 }));

/** Takes steps; returns the loss before each. */
async function train(trainer: TrainingClient, batch: readonly Datum[], steps: number): Promise<number[]> {
  const losses: number[] = [];
  for (let i = 0; i < steps; i++) {
    const pass = trainer.forwardBackward(batch, "cross_entropy");
    const step = trainer.optimStep({ learningRate: 2e-3 });
    losses.push((await pass).metrics["loss:sum"] as number);
    await step;
  }
  return losses;
}

const prompt = async (service: ServiceClient): Promise<ModelInput> =>
  ModelInput.fromInts(
    (await service.getTokenizer(bundledModel)).applyChatTemplate(
      [{ role: "user", content: "What is the capital of Spain?" }],
      { addGenerationPrompt: true },
    ),
  );
const greedy = { maxTokens: 12, temperature: 0, seed: 1 };

it("trains, samples and streams with the SDK's clients, equal to the engine without a page", async () => {
  const { service } = await load();
  const batch = await batchOf(service);
  const trainer = await createTrainer(service);
  const losses = await train(trainer, batch, 3);
  const sampler = await trainer.saveWeightsAndGetSamplingClient();
  const asked = await prompt(service);
  const { sequences } = await sampler.sample(asked, { samplingParams: greedy });
  const streamed: number[] = [];
  const stream = sampler.stream(asked, { samplingParams: greedy });
  for await (const { token } of stream) streamed.push(token);
  expect(streamed).toEqual([...sequences[0]!.tokens]);

  const engine = await openEngine(bundledModelFolder(), { runtime: "wasm", inThread: true, threads: 1 });
  closers.push(() => engine.close());
  const { adapterId } = await engine.createAdapter({ rank: 4, alpha: 32, seed: 7 });
  const data = batch.map(({ modelInput, lossFnInputs }) => ({
    tokens: Int32Array.from(modelInput.toInts()),
    lossFnInputs: Object.fromEntries(
      Object.entries(lossFnInputs).map(([name, { values, shape }]) => [
        name,
        { data: values, ...(shape && { shape }) },
      ]),
    ),
  }));
  const expected: number[] = [];
  for (let i = 0; i < 3; i++) {
    expected.push((await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" })).metrics["loss:sum"]!);
    await engine.optimStep(adapterId, { learningRate: 2e-3 });
  }
  expect(losses).toEqual(expected);
  const result = await engine.sample({ prompt: asked.toInts(), adapter: adapterId, params: greedy });
  expect([...result.sequences[0]!.tokens]).toEqual(streamed);
  expect([...result.sequences[0]!.logprobs]).toEqual([...sequences[0]!.logprobs!]);
});

describe("after the page is loaded again", () => {
  it("a run continues from its last step, equal to an undisturbed one", async () => {
    const undisturbed = await load();
    const whole = await train(await createTrainer(undisturbed.service), await batchOf(undisturbed.service), 4);

    const storage = memoryStorage();
    const first = await load(storage);
    const trainer = await createTrainer(first.service);
    const batch = await batchOf(first.service);
    const before = await train(trainer, batch, 2);
    await trainer.forwardBackward(batch, "cross_entropy"); // the step in flight, which the page does not finish
    await first.server.close();

    const second = await load(storage);
    const [run, ...others] = second.server.runs();
    expect(others).toEqual([]);
    expect(run).toMatchObject({ runId: trainer.modelId, baseModel: bundledModel, step: 2 });
    const resumed = await second.service.createTrainingClientFromStateWithOptimizer(run!.path);
    const after = await train(resumed, batch, 2);
    expect([...before, ...after]).toEqual(whole);
  });

  it("checkpoints can be listed, sampled from and deleted; samplers of the old page are unknown", async () => {
    const storage = memoryStorage();
    const first = await load(storage);
    const trainer = await createTrainer(first.service);
    await train(trainer, await batchOf(first.service), 1);
    const { path: state } = await trainer.saveState("one");
    const { path: weights } = await trainer.saveWeightsForSampler("one");
    await trainer.saveWeightsAndGetSamplingClient();
    expect(await storage.samplerStateKeys()).toHaveLength(1);
    await first.server.close(); // as a closed tab: the session is not ended

    const { service } = await load(storage);
    expect(await storage.samplerStateKeys()).toEqual([]);
    const rest = service.createRestClient();
    const { checkpoints } = await rest.listCheckpoints(trainer.modelId);
    expect(checkpoints.map(({ tinkerPath }) => tinkerPath).sort()).toEqual([state, weights].sort());
    const sampler = await service.createSamplingClient({ modelPath: weights! });
    const { sequences } = await sampler.sample(await prompt(service), { samplingParams: greedy });
    expect(sequences[0]!.tokens.length).toBeGreaterThan(0);
    await rest.deleteCheckpointFromTinkerPath(weights!);
    await expect(service.createSamplingClient({ modelPath: weights! })).rejects.toThrow(NotFoundError);
  });
});

it("exports an adapter as PEFT that the engine in Node loads with equal log-probs, and imports it again", async () => {
  const { server, service } = await load();
  const batch = await batchOf(service);
  const trainer = await createTrainer(service);
  await train(trainer, batch, 2);
  const path = `tinker://${trainer.modelId}/weights/last-step`;
  const files = await server.exportAdapter(path);
  const here = (await trainer.forward(batch, "cross_entropy")).lossFnOutputs.map(({ logprobs }) => [
    ...(logprobs!.values as Float32Array),
  ]);

  const folder = mkdtempSync(join(tmpdir(), "tinklet-browser-"));
  closers.push(async () => rmSync(folder, { recursive: true }));
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  const engine = await openEngine(bundledModelFolder(), { runtime: "wasm", inThread: true, threads: 1 });
  closers.push(() => engine.close());
  const { adapterId } = await engine.importState(await engine.readPeft(folder));
  const data = batch.map(({ modelInput, lossFnInputs }) => ({
    tokens: modelInput.toInts(),
    lossFnInputs: { target_tokens: { data: lossFnInputs["target_tokens"]!.values } },
  }));
  const { lossFnOutputs } = await engine.forward(adapterId, { data, lossFn: "cross_entropy" });
  expect(lossFnOutputs.map(({ logprobs }) => [...logprobs.data])).toEqual(here);

  const imported = await server.importAdapter(files, { baseModel: bundledModel });
  const resumed = await service.createTrainingClientFromState(imported);
  const again = (await resumed.forward(batch, "cross_entropy")).lossFnOutputs.map(({ logprobs }) => [
    ...(logprobs!.values as Float32Array),
  ]);
  expect(again).toEqual(here);
  await expect(server.importAdapter({}, { baseModel: bundledModel })).rejects.toThrow("has no adapter_config.json");
});

describe("failures lose nothing", () => {
  it.each(["the engine is set back", "not even the engine can be set back"])(
    "a full storage fails the step, with the weights as before it: %s",
    async (restores) => {
      const reference = await load();
      const batch = await batchOf(reference.service);
      const whole = await train(await createTrainer(reference.service), batch, 3);

      const storage = memoryStorage();
      let isFull = false;
      const full: BrowserStorage = {
        ...storage,
        commit: (change) => (isFull ? memoryStorage({ quotaBytes: 0 }).commit(change) : storage.commit(change)),
      };
      let failsLoading = false;
      const { server, service } = await load(full, (engine) => ({
        ...engine,
        loadState: (...args) =>
          failsLoading ? Promise.reject(new MemoryError("injected")) : engine.loadState(...args),
      }));
      const trainer = await createTrainer(service);
      const before = await train(trainer, batch, 1);
      failsLoading = restores === "not even the engine can be set back";
      isFull = true;
      await trainer.forwardBackward(batch, "cross_entropy");
      const failed = await Promise.resolve(trainer.optimStep({ learningRate: 2e-3 })).catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(RequestFailedError);
      expect((failed as Error).message).toContain("is full; the change was not stored. Delete checkpoints or runs");
      expect(server.runs()).toMatchObject([{ step: 1 }]);
      isFull = false;
      expect([...before, ...(await train(trainer, batch, 2))]).toEqual(whole);
    },
  );

  it("a worker that ends: the next request starts another one, and a step without its gradient fails", async () => {
    const reference = await load();
    const batch = await batchOf(reference.service);
    const whole = await train(await createTrainer(reference.service), batch, 3);

    const { service, model } = await load();
    const trainer = await createTrainer(service);
    const before = await train(trainer, batch, 1);
    await trainer.forwardBackward(batch, "cross_entropy");
    await model.opened[0]!.close(); // what a caller sees of a worker that was stopped
    const first = await Promise.resolve(trainer.optimStep({ learningRate: 2e-3 })).catch((error: Error) => error);
    expect((first as Error).message).toMatch(/worker has ended .* Send the request again/);
    expect([...before, ...(await train(trainer, batch, 2))]).toEqual(whole);

    await trainer.forwardBackward(batch, "cross_entropy");
    await model.opened.at(-1)!.close();
    const sampler = await service.createSamplingClient({ baseModel: bundledModel });
    const sample = async () => sampler.sample(await prompt(service), { samplingParams: greedy });
    await sample().catch(() => {}); // meets the closed engine
    expect((await sample()).sequences).toHaveLength(1);
    const second = await Promise.resolve(trainer.optimStep({ learningRate: 2e-3 })).catch((error: Error) => error);
    expect((second as Error).message).toContain("ended with the gradients of 1 passes since step 3");
    expect(model.opened).toHaveLength(3);
  });

  it("an allocation that fails is reported with its reason, and the run continues", async () => {
    let isShort = false;
    const { service } = await load(memoryStorage(), (engine) => ({
      ...engine,
      forwardBackward: (...args) =>
        isShort
          ? Promise.reject(new MemoryError("WebAssembly has no memory left, of 4 GiB at most: bad_alloc"))
          : engine.forwardBackward(...args),
    }));
    const batch = await batchOf(service);
    const trainer = await createTrainer(service);
    const losses = await train(trainer, batch, 1);
    isShort = true;
    await expect(Promise.resolve(trainer.forwardBackward(batch, "cross_entropy"))).rejects.toThrow("no memory left");
    isShort = false;
    expect((await train(trainer, batch, 1))[0]).toBeLessThan(losses[0]!);
  });

  it("an engine that cannot be opened fails the start and releases the storage", async () => {
    let isClosed = false;
    const storage: BrowserStorage = {
      ...memoryStorage(),
      close: async () => {
        isClosed = true;
      },
    };
    const open = () => Promise.reject(new EngineError("no_runtime", "there is no runtime"));
    await expect(startBrowserServer({ models: [{ name: "it", open }], storage })).rejects.toThrow("no runtime");
    expect(isClosed).toBe(true);
  });
});

it("names what it does not offer", async () => {
  const { server, service } = await load();
  const trainer = await createTrainer(service);
  await expect(Promise.resolve(trainer.saveState("it", { ttlSeconds: 60 }))).rejects.toThrow("ttl_seconds");
  await expect(Promise.resolve(trainer.saveState("last-step"))).rejects.toThrow("use another name");
  const answer = await server.fetch(`${server.url}/services/tinker-prod/api/v1/audit?event_type=all`, {
    method: "GET",
  });
  expect(answer.status).toBe(404);
});
