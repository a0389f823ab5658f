/** The whole engine on a device: adapters, snapshots, checkpoints and samples, with all state on the device. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EngineCore } from "./core.ts";
import type { LoadedModel } from "./model/load.ts";
import { modelFolders } from "./model-folders.ts";
import type { Device } from "./runtime/device.ts";
import { createDeviceRuntime } from "./runtime/device-runtime.ts";
import { createInterpreterDevice } from "./runtime/interpreter-device.ts";
import { openTestDevice, testKinds } from "./testing/devices.ts";
import { tinyModel } from "./testing/tiny-model.ts";
import type { AdapterState, LossRequest, ModelInfo } from "./types.ts";

const lora = { rank: 2, seed: 1 };
const step = { learningRate: 0.02 };
const request: LossRequest = {
  lossFn: "cross_entropy",
  data: [
    { tokens: Int32Array.of(1, 2, 3, 4), lossFnInputs: { target_tokens: { data: Int32Array.of(2, 3, 4, 5) } } },
    { tokens: Int32Array.of(1, 2, 9), lossFnInputs: { target_tokens: { data: Int32Array.of(2, 9, 7) } } },
  ],
};
const prompt = [1, 2, 3];
const greedy = { prompt, params: { maxTokens: 3, temperature: 0, stop: [] } };

const coreOn = (model: LoadedModel, device: Device): EngineCore =>
  new EngineCore({
    model,
    runtime: createDeviceRuntime(device),
    packing: "none",
    activationBytes: 1e8,
    cacheBytes: 1e6,
    adapterBytes: 1e8,
    contextLength: 64,
    maxBatch: 4,
    folders: modelFolders(),
    loadTokenizer: () => Promise.reject(new Error("no tokenizer")),
    info: { origin: "tiny", eosTokenIds: [], vocabSize: model.config.vocabSize } as Partial<ModelInfo> as ModelInfo,
  });

const train = async (core: EngineCore, adapterId: string, steps: number): Promise<number> => {
  let loss = 0;
  for (let i = 0; i < steps; i++) {
    loss = (await core.forwardBackward(adapterId, request)).metrics["loss:sum"]!;
    await core.optimStep(adapterId, step);
  }
  return loss;
};
const valuesOf = ({ weights }: AdapterState): number[] => Object.values(weights).flatMap(({ data }) => [...data]);

describe.each(["interpreter", ...testKinds] as const)("on %s", (kind) => {
  const model = tinyModel({ eos_token_id: null });
  let device: Device;
  let core: EngineCore;
  beforeAll(async () => {
    device = kind === "interpreter" ? createInterpreterDevice().device : await openTestDevice(kind);
    core = coreOn(model, device);
  });
  afterAll(() => core.close());

  it("trains, and a snapshot keeps the weights that it was made of", { timeout: 60_000 }, async () => {
    const { adapterId } = await core.createAdapter(lora);
    const first = await train(core, adapterId, 2);
    const snapshot = await core.snapshot(adapterId);
    const before = await core.exportState(snapshot);
    const scored = await core.forward(snapshot, request);
    expect(await train(core, adapterId, 3)).toBeLessThan(first);
    expect(valuesOf(await core.exportState(snapshot))).toEqual(valuesOf(before));
    expect((await core.forward(snapshot, request)).metrics).toEqual(scored.metrics);
    expect(valuesOf(await core.exportState(adapterId))).not.toEqual(valuesOf(before));
    await core.deleteAdapter(adapterId);
    await core.deleteSnapshot(snapshot);
  });

  it("resumes from an exported state to the bit", { timeout: 60_000 }, async () => {
    const { adapterId } = await core.createAdapter(lora);
    await train(core, adapterId, 2);
    const state = await core.exportState(adapterId, { optimizer: true });
    expect(state.step).toBe(2);
    await train(core, adapterId, 2);
    const { adapterId: resumed } = await core.importState(state);
    await train(core, resumed, 2);
    const [straight, continued] = [adapterId, resumed].map((id) => core.exportState(id, { optimizer: true }));
    expect(await continued).toEqual(await straight);
    await core.loadState(adapterId, state);
    expect(valuesOf(await core.exportState(adapterId))).toEqual(valuesOf(state));
    await core.deleteAdapter(adapterId);
    await core.deleteAdapter(resumed);
  });

  it("samples live adapters with their weights at the start of the sample", { timeout: 60_000 }, async () => {
    const { adapterId } = await core.createAdapter(lora);
    const base = await core.sample(greedy).result;
    expect((await core.sample({ ...greedy, adapter: adapterId }).result).sequences[0]!.tokens).toEqual(
      base.sequences[0]!.tokens,
    );
    const pass = core.forwardBackward(adapterId, request);
    const stepped = core.optimStep(adapterId, { learningRate: 0.5 });
    const sample = core.sample({ ...greedy, adapter: adapterId }).result;
    await Promise.all([pass, stepped]);
    const { sequences } = await sample;
    expect([...sequences[0]!.logprobs]).not.toEqual([...base.sequences[0]!.logprobs]);
    await core.deleteAdapter(adapterId);
  });

  it("frees the memory of deleted adapters, and writes adapters with their state on the device", async () => {
    const folder = await mkdtemp(join(tmpdir(), "core-device-"));
    const { adapterId } = await core.createAdapter(lora);
    await train(core, adapterId, 1);
    const used = device.valueBytes;
    await core.savePeft(adapterId, folder);
    const read = await core.exportState(adapterId);
    expect(valuesOf(read).some((value) => value !== 0)).toBe(true);
    const other = await core.createAdapter(lora);
    await train(core, other.adapterId, 1);
    expect(device.valueBytes).toBeGreaterThan(used);
    await core.deleteAdapter(other.adapterId);
    expect(device.valueBytes).toBe(used);
    await core.deleteAdapter(adapterId);
    await rm(folder, { recursive: true });
  });

  it("is freed when the engine is closed", async () => {
    await core.close();
    expect(device.valueBytes).toBe(0);
    await expect(core.createAdapter(lora)).rejects.toMatchObject({ code: "closed" });
  });
});
