/**
 * Training on devices compared with the float64 interpreter: on a simulated device, on onnxruntime's CPU provider, and on WebGPU if there
 * is a driver. Bytes across the bus are counted.
 */
import { afterAll, describe, expect, it } from "vitest";
import { type Adapter, freeze } from "../adapter/adapter.ts";
import { DeviceError, MemoryError } from "../errors.ts";
import type { Device, DeviceProgram } from "../runtime/device.ts";
import { createDeviceRuntime } from "../runtime/device-runtime.ts";
import { createInterpreterDevice } from "../runtime/interpreter-device.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { openTestDevice, runtimeOf, testKinds } from "../testing/devices.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { type Compute, inFloat64, toleranceOf } from "../testing/rounding.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import type { LossRequest, TensorInput, TrainingDatum } from "../types.ts";
import { DeviceAdapters } from "./device-adapters.ts";
import { optimStep } from "./optimizer.ts";
import { Trainer } from "./trainer.ts";

type OnDevice = Runtime & { readonly device: Device };

const options = { activationBytes: 1e9, contextLength: 64 };
const step = { learningRate: 1e-2, eps: 1e-3, weightDecay: 0.1, gradClipNorm: 1 };

const floats = (...data: number[]): TensorInput => ({ data: Float32Array.from(data) });
const datum = (tokens: number[], targets: number[], more: Record<string, TensorInput> = {}): TrainingDatum => ({
  tokens,
  lossFnInputs: { target_tokens: { data: Int32Array.from(targets) }, ...more },
});
/** Sequences without common prefixes, one of them with zero weights in part. */
const packed: LossRequest = {
  lossFn: "cross_entropy",
  data: [
    datum([1, 2, 3, 4, 5], [2, 3, 4, 5, 6]),
    datum([7, 2, 3], [2, 3, 4], { weights: floats(0, 1, 1) }),
    datum([9], [9]),
  ],
};
const answer = (...tokens: number[]): TrainingDatum =>
  datum([3, 1, 4, 1, 5, 9, ...tokens.slice(0, -1)], [1, 4, 1, 5, 9, ...tokens], {
    logprobs: floats(...tokens.map(() => -3.5), -3, -3, -3, -3, -3),
    advantages: floats(0, 0, 0, 0, 0, ...tokens.map((_, i) => (i % 2 ? 1 : -0.5))),
  });
/** Answers to one prompt: a prefix tree. */
const tree: LossRequest = { lossFn: "ppo", data: [answer(2, 6, 5), answer(2, 6, 7), answer(8), answer(2, 6, 5, 3)] };
/** A single distinct target: fewer than the classes in which gradients of the unembedding are summed. */
const single: LossRequest = { lossFn: "cross_entropy", data: [datum([1, 1, 1], [2, 2, 2])] };

/** Steps of two passes each; on a device, with all state there. */
const training =
  (model: ReturnType<typeof tinyModel>, requests: readonly LossRequest[], steps: number): Compute =>
  async (runtime, adapter) => {
    const adapters = runtime.device && new DeviceAdapters(model.config, runtime.device);
    const trainer = new Trainer(model, runtime, { ...options, ...(adapters ? { adapters } : {}) });
    const groups: Record<string, ArrayLike<number>> = {};
    for (let index = 1; index <= steps; index++) {
      for (const [pass, request] of requests.entries()) {
        const { lossFnOutputs } = await trainer.forwardBackward(adapter, request);
        groups[`logprobs ${index}.${pass}`] = lossFnOutputs.flatMap(({ logprobs }) => [
          ...(logprobs.data as Float32Array),
        ]);
      }
      const { metrics } = adapters ? await adapters.optimStep(adapter, step) : optimStep(adapter, step);
      groups[`norm ${index}`] = [metrics["unclipped_grad_l2:mean"]!];
    }
    const { values, m, v } = adapters ? await adapters.toHost(adapter) : adapter;
    await adapters?.dispose();
    await trainer.dispose();
    return { ...groups, values, m: m!, v: v! };
  };

const kinds = ["interpreter", ...testKinds] as const;

const opened: Awaited<ReturnType<typeof openTestDevice>>[] = [];
const open = async (kind: (typeof kinds)[number]): Promise<OnDevice> => {
  if (kind === "interpreter") return createInterpreterDevice();
  const device = await openTestDevice(kind);
  opened.push(device);
  return runtimeOf(device);
};
afterAll(() => {
  for (const device of opened) device.dispose();
});

/** WebGPU's shaders run in software: one case of each kind of run. */
const cases: readonly [string, Record<string, unknown>, readonly LossRequest[], readonly (typeof kinds)[number][]][] = [
  ["grouped heads, packed and a tree", {}, [packed, tree], ["interpreter", "cpu", "webgpu", "cuda"]],
  [
    "biases, a single target",
    { model_type: "qwen2", tie_word_embeddings: false },
    [single],
    ["interpreter", "cpu", "cuda"],
  ],
  ["head norms, packed", { model_type: "qwen3", num_key_value_heads: 1 }, [packed], ["interpreter", "cpu", "cuda"]],
];

describe.each(cases)("%s", (_, overrides, requests, on) => {
  const model = tinyModel(overrides);
  const adapter = (): Adapter => noisyAdapter(model.config);
  it.each(kinds.filter((kind) => on.includes(kind)))("on %s: as near to float64 as float32 can be", async (kind) => {
    const steps = kind === "webgpu" ? 2 : 3;
    const compute = training(model, requests, steps);
    const tolerance = await toleranceOf(compute, adapter, 3);
    const { share, where } = tolerance.worst(await compute(await open(kind), adapter()));
    expect(share, where).toBeLessThanOrEqual(1);
  });
});

it("in float64 the code for devices computes what the code for the host computes", async () => {
  const model = tinyModel();
  const compute = training(model, [packed, tree], 2);
  const { createInterpreter } = await import("../runtime/interpreter.ts");
  const onHost = await compute(createInterpreter({ float64: true }), inFloat64(noisyAdapter(model.config)));
  const onDevice = await compute(createInterpreterDevice({ float64: true }), noisyAdapter(model.config));
  for (const [name, values] of Object.entries(onHost)) {
    // Float64 except for values passed in float32: terms, factors, results.
    for (const [i, value] of Array.from(values).entries())
      expect(Math.abs(onDevice[name]![i]! - value), `${name}[${i}]`).toBeLessThanOrEqual(
        2 ** -18 * (1 + Math.abs(value)),
      );
  }
});

describe("what crosses the bus in a step", () => {
  const trafficOf = async (overrides: Record<string, unknown>, rank: number) => {
    const model = tinyModel(overrides);
    const runtime = await open("cpu");
    const { device } = runtime;
    const adapters = new DeviceAdapters(model.config, device);
    const trainer = new Trainer(model, runtime, { ...options, adapters });
    const adapter = noisyAdapter(model.config, { rank });
    const run = async () => {
      const before = { ...device.traffic };
      await trainer.forwardBackward(adapter, packed);
      await trainer.forwardBackward(adapter, tree);
      await adapters.optimStep(adapter, step);
      return {
        toDevice: device.traffic.toDevice - before.toDevice,
        fromDevice: device.traffic.fromDevice - before.fromDevice,
      };
    };
    const first = await run();
    expect(first.toDevice).toBeGreaterThan(model.bytes);
    const [second, third] = [await run(), await run()];
    expect(third).toEqual(second);
    return { ...second, bytes: model.bytes, rows: adapter.layout.size };
  };

  it("neither weights nor adapters nor gradients: as much for a model and a rank of any size", async () => {
    const small = await trafficOf({}, 3);
    const large = await trafficOf({ hidden_size: 64, intermediate_size: 160, num_hidden_layers: 5 }, 3);
    expect(large.bytes).toBeGreaterThan(5 * small.bytes);
    expect(large.toDevice).toBe(small.toDevice);
    const wide = await trafficOf({}, 8);
    // The zero row of each of two passes has rank values.
    expect(wide.toDevice - small.toDevice).toBe(2 * 4 * (8 - 3));
    const scored = [...packed.data, ...tree.data].reduce((sum, { tokens }) => sum + tokens.length, 0);
    // Log-probs (including padding of slots), a sum of squares per gradient row, and one number that tells whether all values are finite.
    const padding = 16;
    expect(small.fromDevice).toBeLessThanOrEqual(4 * (scored + padding + small.rows / 3 + 1));
  });
});

describe("weights on a device", () => {
  const setUp = async () => {
    const model = tinyModel();
    const runtime = await open("cpu");
    const adapters = new DeviceAdapters(model.config, runtime.device);
    const trainer = new Trainer(model, runtime, { ...options, adapters });
    return { model, runtime, adapters, trainer, adapter: noisyAdapter(model.config) };
  };

  it("a snapshot keeps what the adapter was, and a continued run is that of one that was not interrupted", async () => {
    const { model, runtime, adapters, trainer, adapter } = await setUp();
    await trainer.forwardBackward(adapter, packed);
    await adapters.optimStep(adapter, step);
    const snapshot = freeze(adapter);
    const saved = await adapters.toHost(adapter);
    await trainer.forwardBackward(adapter, packed);
    await adapters.optimStep(adapter, step);
    expect((await adapters.toHost(snapshot)).values).toEqual(saved.values);
    const after = await adapters.toHost(adapter);
    expect(after.values).not.toEqual(saved.values);

    const others = new DeviceAdapters(model.config, runtime.device);
    const resumed: Adapter = { ...adapter, ...saved, step: 1 };
    delete resumed.frozen;
    await new Trainer(model, runtime, { ...options, adapters: others }).forwardBackward(resumed, packed);
    await others.optimStep(resumed, step);
    expect(await others.toHost(resumed)).toMatchObject({ values: after.values, m: after.m!, v: after.v! });
  });

  it("what is not held is freed", async () => {
    const { model, runtime, adapters, trainer, adapter } = await setUp();
    await trainer.forwardBackward(adapter, packed);
    await adapters.optimStep(adapter, step);
    // Values and two moments; the matrices of modules are made when it is sampled.
    expect(adapters.bytes).toBe(3 * 4 * adapter.layout.size);
    adapters.keepOnly({ values: new Set(), adapters: new Set() });
    expect(adapters.bytes).toBe(0);
    await trainer.dispose();
    expect(runtime.device.valueBytes).toBe(model.bytes);
  });

  it("a gradient that is not finite is dropped, and nothing else changes", async () => {
    const { adapters, trainer, adapter } = await setUp();
    await trainer.forwardBackward(adapter, packed);
    await adapters.optimStep(adapter, step);
    const before = await adapters.toHost(adapter);
    const broken = datum([1, 2], [2, 3], { weights: floats(3e38, 3e38) });
    await trainer.forwardBackward(adapter, { lossFn: "cross_entropy", data: [broken, broken] });
    await expect(adapters.optimStep(adapter, step)).rejects.toMatchObject({ code: "not_finite" });
    expect(await adapters.toHost(adapter)).toEqual(before);
    expect(adapters.hasGradient(adapter)).toBe(false);
    await expect(adapters.optimStep(adapter, { beta1: 2 })).rejects.toThrow("beta1");
  });

  it("a step without a gradient decays weights and moments", async () => {
    const { adapters, adapter } = await setUp();
    const host = noisyAdapter(tinyModel().config);
    optimStep(host, step);
    await adapters.optimStep(adapter, step);
    const { values } = await adapters.toHost(adapter);
    // One product, with a factor rounded to float32.
    for (const [i, value] of host.values.entries())
      expect(Math.abs(values[i]! - value)).toBeLessThan(2 ** -23 * Math.abs(value) + 1e-30);
  });
});

describe("a device without enough memory", () => {
  /** Fails the first `left` runs of more than `most` tokens. */
  const limited = (most: number, times: number): OnDevice => {
    const { device } = createInterpreterDevice();
    let left = times;
    const limitedDevice: Device = {
      ...device,
      get traffic() {
        return device.traffic;
      },
      get valueBytes() {
        return device.valueBytes;
      },
      compile: async (...args): Promise<DeviceProgram> => {
        const program = await device.compile(...args);
        return {
          ...program,
          runOnDevice: (inputs, given) => {
            const tokens = inputs["tokens"]?.dims[0] ?? 0;
            if (tokens > most && left-- > 0) throw new DeviceError("device_memory", "no memory left for this run");
            return program.runOnDevice(inputs, given);
          },
        };
      },
    };
    return { ...createDeviceRuntime(limitedDevice), device: limitedDevice };
  };
  const model = tinyModel();
  const long = (seed: number): TrainingDatum => {
    const tokens = Array.from({ length: 30 }, (_, i) => (seed * 7 + i * 11) % 37);
    return datum(tokens, tokens);
  };
  const request: LossRequest = { lossFn: "cross_entropy", data: [long(1), long(2), long(3)] };
  const run = async (runtime: OnDevice) => {
    const adapters = new DeviceAdapters(model.config, runtime.device);
    const trainer = new Trainer(model, runtime, { ...options, adapters });
    const adapter = noisyAdapter(model.config);
    const { metrics } = await trainer.forwardBackward(adapter, request);
    return { metrics, bytes: runtime.device.valueBytes };
  };

  it("is given smaller runs, once", async () => {
    const whole = await run(createInterpreterDevice());
    const halves = await run(limited(32, 1));
    expect(halves.metrics["loss:sum"]).toBeCloseTo(whole.metrics["loss:sum"]!, 4);
    expect(halves.bytes).toBe(whole.bytes);
  });

  it("then fails with the numbers", async () => {
    const failed = run(limited(8, 100));
    await expect(failed).rejects.toThrow(MemoryError);
    await expect(failed).rejects.toThrow(/run of 32 tokens.*500 MB.*no memory left/);
  });
});
