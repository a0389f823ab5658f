/**
 * What a GPU computes, counted and profiled inside the engine. One command per process, one line of JSON:
 *   numbers PRECISION        log-probs, losses and gradients against the float64 interpreter, beside the CPU runtime's errors
 *   repeat COUNT             equal training steps: whether all are equal to the bit
 *   bus FOLDER BATCH LENGTH  bytes that cross the bus in a training step and in a decoded token
 *   agreement FOLDER PRECISION   log-probs of the sampler against those of the trainer
 *   profile FOLDER BATCH LENGTH PRECISION [PREFIX]   time of training steps, and by operation in the last
 *   decode FOLDER BATCH LENGTH PRECISION [PREFIX]    time of prefill and of decoding steps, and by operation in the last
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { openModel } from "@tinklet/models";
import { readConfig } from "@tinklet/models/config";
import { createAdapter } from "../../packages/engine/src/adapter/adapter.ts";
import { loadOrtApi } from "../../packages/engine/src/device/koffi-api.ts";
import { findLibrary } from "../../packages/engine/src/device/library.ts";
import { OrtDevice } from "../../packages/engine/src/device/ort-device.ts";
import { type LoadedModel, loadModel } from "../../packages/engine/src/model/load.ts";
import type { Device } from "../../packages/engine/src/runtime/device.ts";
import { createDeviceRuntime } from "../../packages/engine/src/runtime/device-runtime.ts";
import { createInterpreter } from "../../packages/engine/src/runtime/interpreter.ts";
import { loadNativeRuntime } from "../../packages/engine/src/runtime/ort.ts";
import type { Runtime } from "../../packages/engine/src/runtime/runtime.ts";
import { Sampler } from "../../packages/engine/src/sample/sampler.ts";
import { noisyAdapter } from "../../packages/engine/src/testing/noisy-adapter.ts";
import { inFloat64 } from "../../packages/engine/src/testing/rounding.ts";
import { tinyModel, wideShape } from "../../packages/engine/src/testing/tiny-model.ts";
import { DeviceAdapters } from "../../packages/engine/src/train/device-adapters.ts";
import { Trainer } from "../../packages/engine/src/train/trainer.ts";
import type { LossRequest, Precision } from "../../packages/engine/src/types.ts";

const openDevice = async (precision: Precision, profilePrefix?: string): Promise<Device & { dispose(): void }> =>
  new OrtDevice({
    api: await loadOrtApi(findLibrary().path),
    kind: (process.env["BENCH_DEVICE"] as "cuda" | undefined) ?? "cuda",
    name: "bench",
    memoryBytes: process.env["BENCH_DEVICE"] === "cpu" ? 8e9 : 100e9,
    threads: 4,
    precision,
    ...(profilePrefix === undefined ? {} : { profilePrefix }),
  });

let state = 1;
const random = (): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};

const batchOf = (vocabSize: number, lengths: readonly number[]): LossRequest => ({
  lossFn: "cross_entropy",
  data: lengths.map((length) => {
    const ids = Int32Array.from({ length: length + 1 }, () => Math.floor(random() * vocabSize));
    return { tokens: ids.slice(0, -1), lossFnInputs: { target_tokens: { data: ids.slice(1) } } };
  }),
});

const lora = { rank: 16, alpha: 32, seed: 1, trainAttn: true, trainMlp: true, trainUnembed: false };

const floats = (values: ArrayLike<number>): Float64Array => Float64Array.from(values);
const concat = (parts: readonly ArrayLike<number>[]): Float64Array =>
  Float64Array.from(parts.flatMap((part) => Array.from(part)));

interface Results {
  readonly logprobs: Float64Array;
  readonly gradient: Float64Array;
}

/** Log-probs and the gradient, read from one AdamW step with learning rate 0: m = (1 − β₁) · gradient. */
const compute = async (runtime: Runtime, model: LoadedModel, request: LossRequest, wide = false): Promise<Results> => {
  const { config } = model;
  const adapters = runtime.device && new DeviceAdapters(config, runtime.device);
  const trainer = new Trainer(model, runtime, {
    activationBytes: 2e9,
    contextLength: 256,
    ...(adapters ? { adapters } : {}),
  });
  const made = noisyAdapter(config, { rank: 8 });
  const adapter = wide ? inFloat64(made) : made;
  const { lossFnOutputs } = await trainer.forwardBackward(adapter, request);
  const logprobs = concat(lossFnOutputs.map((output) => output.logprobs.data));
  if (!adapters) return { logprobs, gradient: floats(adapter.gradient!) };
  await adapters.optimStep(adapter, { learningRate: 0, beta1: 0.5 });
  const { m } = await adapters.toHost(adapter);
  return { logprobs, gradient: floats(m!.map((value) => value * 2)) };
};

const errorOf = (values: Float64Array, exact: Float64Array) => {
  let [difference, size, most] = [0, 0, 0];
  for (const [i, value] of exact.entries()) {
    difference += (values[i]! - value) ** 2;
    size += value ** 2;
    most = Math.max(most, Math.abs(values[i]! - value));
  }
  return { relative: Math.sqrt(difference / size), most };
};

const models = {
  "grouped heads": tinyModel({ ...wideShape, num_hidden_layers: 4, vocab_size: 500, max_position_embeddings: 256 }),
  "head norms, odd sizes": tinyModel({
    model_type: "qwen3",
    hidden_size: 60,
    num_attention_heads: 5,
    num_key_value_heads: 1,
    head_dim: 12,
    intermediate_size: 130,
    num_hidden_layers: 6,
    vocab_size: 1031,
    max_position_embeddings: 256,
  }),
};

const samplerOn = (runtime: Runtime, model: LoadedModel, maxBatch = 64): Sampler =>
  new Sampler(model, runtime, {
    contextLength: Math.min(2048, model.config.contextLength),
    maxBatch,
    cacheBytes: process.env["BENCH_DEVICE"] === "cpu" ? 1e9 : 20e9,
    eosTokenIds: [],
    packing: "none",
    activationBytes: 20e9,
  });

const commands: Readonly<Record<string, (...args: string[]) => Promise<unknown>>> = {
  async numbers(precision) {
    const rows: unknown[] = [];
    const device = await openDevice(precision as Precision);
    const { runtime: native } = await loadNativeRuntime(4);
    for (const [name, model] of Object.entries(models)) {
      const request = batchOf(model.config.vocabSize, [100, 64, 33, 1]);
      const exact = await compute(createInterpreter({ float64: true }), model, request, true);
      const cpu = await compute(native!, model, request);
      const gpu = await compute(createDeviceRuntime(device), model, request);
      for (const what of ["logprobs", "gradient"] as const) {
        const [ofCpu, ofGpu] = [errorOf(cpu[what], exact[what]), errorOf(gpu[what], exact[what])];
        rows.push({ model: name, what, precision, cpu: ofCpu, gpu: ofGpu, ratio: ofGpu.relative / ofCpu.relative });
      }
    }
    device.dispose();
    return rows;
  },

  async repeat(count) {
    const device = await openDevice("float32");
    const model = models["grouped heads"];
    const request = batchOf(model.config.vocabSize, [200, 100, 57, 57, 1]);
    const seen = new Set<string>();
    for (let i = 0; i < Number(count); i++) {
      const { logprobs, gradient } = await compute(createDeviceRuntime(device), model, request);
      seen.add(`${Buffer.from(logprobs.buffer).toString("base64")} ${Buffer.from(gradient.buffer).toString("base64")}`);
    }
    device.dispose();
    return { count: Number(count), different: seen.size };
  },

  async bus(folder, batch, length) {
    const opened = await openModel(folder!, { offline: true });
    const config = readConfig(opened.config);
    const model = loadModel(config, opened.weights);
    const device = await openDevice("float32");
    const runtime = createDeviceRuntime(device);
    const adapters = new DeviceAdapters(config, device);
    const trainer = new Trainer(model, runtime, { activationBytes: 40e9, contextLength: 2048, adapters });
    const adapter = createAdapter(config, lora);
    const request = batchOf(config.vocabSize, Array(Number(batch)).fill(Number(length)));
    const step = async () => {
      const before = { ...device.traffic };
      await trainer.forwardBackward(adapter, request);
      await adapters.optimStep(adapter);
      return { in: device.traffic.toDevice - before.toDevice, out: device.traffic.fromDevice - before.fromDevice };
    };
    await step();
    const later = await step();
    const sampler = samplerOn(runtime, model);
    const count = 32;
    const before = { ...device.traffic };
    const sampled = Promise.all(
      Array.from({ length: count }, () => {
        const prompt = batchOf(config.vocabSize, [Number(length)]).data[0]!.tokens;
        return sampler.submit({ prompt, params: { maxTokens: 33, temperature: 1 } }, undefined).result;
      }),
    );
    while (sampler.stats.activeSequences < count) await sampler.step(); // prompts, and the first tokens
    const prefilled = { ...device.traffic };
    while (sampler.busy) await sampler.step();
    await sampled;
    const tokens = 32 * count;
    return {
      weights: model.bytes,
      later,
      prefill: { in: prefilled.toDevice - before.toDevice, out: prefilled.fromDevice - before.fromDevice },
      decode: {
        in: (device.traffic.toDevice - prefilled.toDevice) / tokens,
        out: (device.traffic.fromDevice - prefilled.fromDevice) / tokens,
      },
    };
  },

  /** Log-probs of sampled tokens, from the sampler and from the trainer. */
  async agreement(folder, precision) {
    const opened = await openModel(folder!, { offline: true });
    const config = readConfig(opened.config);
    const model = loadModel(config, opened.weights);
    const runtime = createDeviceRuntime(await openDevice(precision as Precision));
    const sampler = samplerOn(runtime, model);
    const trainer = new Trainer(model, runtime, {
      activationBytes: 4e9,
      contextLength: 512,
      adapters: new DeviceAdapters(config, runtime.device!),
    });
    const prompts = Array.from({ length: 64 }, () => batchOf(config.vocabSize, [16]).data[0]!.tokens as Int32Array);
    const results = prompts.map(
      (prompt) => sampler.submit({ prompt, params: { maxTokens: 128, temperature: 1 } }, undefined).result,
    );
    while (sampler.busy) await sampler.step();
    let [sum, most, tokens] = [0, 0, 0];
    for (const [index, result] of (await Promise.all(results)).entries()) {
      const { tokens: sampled, logprobs } = result.sequences[0]!;
      const all = Int32Array.from([...prompts[index]!, ...sampled]);
      const request: LossRequest = {
        lossFn: "cross_entropy",
        data: [{ tokens: all.slice(0, -1), lossFnInputs: { target_tokens: { data: all.slice(1) } } }],
      };
      const scored = (await trainer.forward(undefined, request)).lossFnOutputs[0]!.logprobs.data.slice(-sampled.length);
      for (const [i, logprob] of Array.from(logprobs).entries()) {
        const gap = logprob - scored[i]!;
        most = Math.max(most, Math.abs(gap));
        sum += Math.exp(-gap) - 1 + gap; // an unbiased estimate of the divergence with little variance
        tokens++;
      }
    }
    return { kl: sum / tokens, most, tokens };
  },

  async profile(folder, batch, length, precision, prefix) {
    const opened = await openModel(folder!, { offline: true });
    const config = readConfig(opened.config);
    const model = loadModel(config, opened.weights);
    const device = await openDevice(precision as Precision, prefix);
    const adapters = new DeviceAdapters(config, device);
    const trainer = new Trainer(model, createDeviceRuntime(device), {
      activationBytes: 40e9,
      contextLength: 2048,
      adapters,
    });
    const adapter = createAdapter(config, lora);
    const request = batchOf(config.vocabSize, Array(Number(batch)).fill(Number(length)));
    const times: { pass: number; step: number }[] = [];
    for (let i = 0; i < 4; i++) {
      const start = performance.now();
      await trainer.forwardBackward(adapter, request);
      const passed = performance.now();
      await adapters.optimStep(adapter);
      times.push({ pass: passed - start, step: performance.now() - passed });
    }
    device.dispose(); // the library writes a session's profile when the session is freed
    return { times, files: prefix === undefined ? [] : summarise(prefix) };
  },

  async decode(folder, batch, length, precision, prefix) {
    const opened = await openModel(folder!, { offline: true });
    const config = readConfig(opened.config);
    const model = loadModel(config, opened.weights);
    const device = await openDevice(precision as Precision, prefix);
    const runtime = createDeviceRuntime(device);
    const sampler = samplerOn(runtime, model, Number(batch));
    const rounds: number[][] = [];
    for (let round = 0; round < 3; round++) {
      const results = Array.from({ length: Number(batch) }, () => {
        const prompt = batchOf(config.vocabSize, [Number(length)]).data[0]!.tokens;
        return sampler.submit({ prompt, params: { maxTokens: 16, temperature: 1 } }, undefined).result;
      });
      const steps: number[] = [];
      while (sampler.busy) {
        const start = performance.now();
        await sampler.step();
        steps.push(Math.round((performance.now() - start) * 10) / 10);
      }
      await Promise.all(results);
      rounds.push(steps);
    }
    device.dispose();
    return { rounds, files: prefix === undefined ? [] : summarise(prefix) };
  },
};

/** Time by operation over the last run of each profile, in milliseconds; kernels only where the library lists them. */
function summarise(prefix: string): unknown[] {
  const folder = dirname(prefix);
  return readdirSync(folder)
    .map((name) => `${folder}/${name}`)
    .filter((path) => path.startsWith(prefix))
    .flatMap((path) => {
      let events: { cat: string; name: string; ts: number; dur: number; args: Record<string, string> }[];
      try {
        events = JSON.parse(readFileSync(path, "utf8"));
      } catch {
        return [];
      }
      const runs = events.filter(({ name }) => name === "model_run");
      const last = runs.at(-1);
      if (!last || last.dur < 1000) return [];
      const inRun = events.filter(({ ts }) => ts >= last.ts && ts <= last.ts + last.dur);
      const byOp: Record<string, Record<string, [number, number]>> = {};
      for (const { cat, name, dur, args } of inRun) {
        if (cat !== "Node" && cat !== "Kernel") continue;
        const op = cat === "Node" ? (args["op_name"] ?? name) : `${args["op_name"] ?? ""} ${name.slice(0, 60)}`;
        const kind = cat === "Node" ? `Node ${name.endsWith("_kernel_time") ? "kernel" : "other"}` : "Kernel";
        byOp[kind] ??= {};
        byOp[kind][op] ??= [0, 0];
        const entry = byOp[kind][op];
        entry[0] += dur / 1000;
        entry[1] += 1;
      }
      const top = Object.fromEntries(
        Object.entries(byOp).map(([kind, ops]) => [
          kind,
          Object.entries(ops)
            .sort(([, a], [, b]) => b[0] - a[0])
            .slice(0, 25)
            .map(([op, [ms, count]]) => `${op}: ${ms.toFixed(1)} ms in ${count}`),
        ]),
      );
      return [{ path, runs: runs.map(({ dur }) => dur / 1000), top }];
    });
}

const [name, ...args] = process.argv.slice(2);
const command = commands[name!];
if (!command) throw new Error(`commands are ${Object.keys(commands).join(", ")}`);
console.log(JSON.stringify(await command(...args), null, 1));
