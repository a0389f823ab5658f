/** Training on small random models: gradients, packing, runtimes, accumulation. Comparisons with PyTorch are in test/integration/torch. */
import * as fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { type Adapter, createAdapter } from "../adapter/adapter.ts";
import { MemoryError } from "../errors.ts";
import type { LoadedModel } from "../model/load.ts";
import { createRandom } from "../random.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { derivative, type Measured, storedLoss } from "../testing/difference.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { type Compute, type Groups, inFloat64, toleranceOf, unitRoundoff } from "../testing/rounding.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import { groupsOf, passOf as trainingPass } from "../testing/training-pass.ts";
import type { LossFnName, LossRequest, LossResult, TensorInput, TrainingDatum } from "../types.ts";
import { optimStep } from "./optimizer.ts";
import { Trainer, type TrainerOptions } from "./trainer.ts";

const plain = createInterpreter({ float64: true });
vi.setConfig({ testTimeout: 120_000 }); // float64 is computed in plain TypeScript, many times
const native = (await loadNativeRuntime(1)).runtime;
const wasm = await loadWasmRuntime(1);
const options = { activationBytes: 1e9, contextLength: 64 };

const runtimes: [string, Runtime][] = native ? [["native", native]] : [["interpreter", plain]];
const arithmetics: readonly Runtime[] = [...(native ? [native] : []), wasm, createInterpreter()];

const passOf = (model: LoadedModel, request: LossRequest, given: TrainerOptions = options): Compute =>
  trainingPass(model, request, given);

/** Every runtime's results, for each of these divisions of the data, equal the first one's exact values within float32's error. */
const expectNear = async (
  compute: Compute,
  adapter: () => Adapter,
  others: readonly Compute[] = [],
  on: readonly Runtime[] = arithmetics,
): Promise<void> => {
  const tolerance = await toleranceOf(compute, adapter, 4);
  for (const runtime of on) {
    for (const each of [compute, ...others]) {
      const { share, where } = tolerance.worst(await each(runtime, adapter()));
      expect(share, `${runtime.name}: ${where}`).toBeLessThanOrEqual(1);
    }
  }
};

const architectures: Record<string, Record<string, unknown>> = {
  "llama, grouped heads, tied": {},
  "llama, untied, llama3 rope": {
    tie_word_embeddings: false,
    rope_scaling: {
      rope_type: "llama3",
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 16,
    },
  },
  "qwen2, biases": { model_type: "qwen2" },
  "qwen3, head norms": { model_type: "qwen3", num_key_value_heads: 1 },
  "mistral, no grouping": { model_type: "mistral", num_key_value_heads: 4, sliding_window: null },
  "llama, all biases, linear rope": {
    attention_bias: true,
    mlp_bias: true,
    rope_scaling: { type: "linear", factor: 2 },
  },
};

const floats = (...data: number[]): TensorInput => ({ data: Float32Array.from(data) });

/** A datum of a given length with inputs for any loss. */
const datum = (length: number, seed: number, lossFn: LossFnName, weights?: number[]): TrainingDatum => {
  const random = createRandom(seed, "datum");
  const tokens = (): number[] => Array.from({ length }, () => Math.floor(random() * 37));
  const inputs: Record<string, TensorInput> = { target_tokens: { data: Int32Array.from(tokens()) } };
  if (weights) inputs["weights"] = floats(...weights);
  if (lossFn !== "cross_entropy") {
    inputs["logprobs"] = floats(...Array.from({ length }, () => -3.6 - random()));
    inputs["advantages"] = floats(...Array.from({ length }, () => random() * 2 - 1));
  }
  return { tokens: tokens(), lossFnInputs: inputs };
};

/** Derivative of the loss along the gradient by finite differences in float64, divided by the squared norm of the gradient. */
const checkGradient = async (trainer: Trainer, given: Adapter, request: LossRequest): Promise<void> => {
  const adapter = inFloat64(given);
  await trainer.forwardBackward(adapter, request);
  const gradient = adapter.gradient!;
  const original = adapter.values.slice();
  // One module at a time: in a single step along the whole gradient, large modules would hide an error in a small one.
  for (const module of adapter.layout.modules) {
    for (const [from, to] of [
      [module.offsetA, module.offsetB],
      [module.offsetB, module.offsetB + module.outSize * adapter.layout.rank],
    ] as const) {
      let claim = 0;
      for (let i = from; i < to; i++) claim += gradient[i]! ** 2;
      const lossAt = async (step: number): Promise<Measured> => {
        for (let i = from; i < to; i++) adapter.values[i] = original[i]! + step * gradient[i]!;
        const loss = storedLoss(await trainer.forward(adapter, request));
        adapter.values.set(original);
        return loss;
      };
      // The weights move by a few thousandths in total.
      const { value, error } = await derivative(lossAt, 2e-3 / Math.sqrt(claim));
      expect(Math.abs(value - claim), `${module.name} ${from}`).toBeLessThanOrEqual(error + 4 * unitRoundoff * claim);
    }
  }
};

/** In float64, the derivative of the loss along the gradient equals the gradient's norm. */
const expectSlope = async (trainer: Trainer, adapter: Adapter, request: LossRequest): Promise<void> => {
  await trainer.forwardBackward(adapter, request);
  const gradient = adapter.gradient!;
  const size = gradient.reduce((sum, g) => sum + g * g, 0);
  const original = adapter.values.slice();
  const lossAt = async (step: number): Promise<Measured> => {
    for (let i = 0; i < original.length; i++) adapter.values[i] = original[i]! + step * gradient[i]!;
    return storedLoss(await trainer.forward(adapter, request));
  };
  // A change of the loss of about 0.02: far above rounding, and small enough for a linear approximation.
  const step = Math.min(1e-3, 1e-2 / Math.sqrt(size)) / Math.sqrt(size);
  const { value, error } = await derivative(lossAt, step);
  expect(Math.abs(value - size)).toBeLessThanOrEqual(error + 4 * unitRoundoff * size);
};

describe.each(Object.entries(architectures))("%s", (_, overrides) => {
  it("has the gradients that finite differences show", async () => {
    const model = tinyModel(overrides);
    const trainer = new Trainer(model, plain, options);
    const data = [datum(5, 1, "cross_entropy"), datum(3, 2, "cross_entropy", [0, 1, 0.5])];
    await checkGradient(trainer, noisyAdapter(model.config), { data, lossFn: "cross_entropy" });
  });

  it("is as near to float64 as float32 can be, in every runtime", async () => {
    const model = tinyModel(overrides);
    const data = [datum(9, 1, "ppo"), datum(4, 2, "ppo"), datum(9, 3, "ppo"), datum(1, 4, "ppo")];
    await expectNear(passOf(model, { data, lossFn: "ppo" }), () => noisyAdapter(model.config));
  });
});

it("random small architectures have true gradients and agree between runtimes", async () => {
  const shapes = fc.record({
    model_type: fc.constantFrom("llama", "mistral", "qwen2", "qwen3"),
    tie_word_embeddings: fc.boolean(),
    num_hidden_layers: fc.integer({ min: 1, max: 3 }),
    num_key_value_heads: fc.integer({ min: 1, max: 3 }),
    share: fc.integer({ min: 1, max: 3 }),
    head_dim: fc.constantFrom(2, 4, 6),
    hidden_size: fc.integer({ min: 3, max: 12 }),
    intermediate_size: fc.integer({ min: 1, max: 12 }),
    lengths: fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 }),
    rank: fc.integer({ min: 1, max: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(shapes, async ({ share, lengths, rank, ...config }) => {
      const model = tinyModel({ ...config, num_attention_heads: share * config.num_key_value_heads });
      const data = lengths.map((length, i) => datum(length, i, "cross_entropy"));
      const request: LossRequest = { data, lossFn: "cross_entropy" };
      await expectNear(passOf(model, request), () => noisyAdapter(model.config, { rank }), [], [native ?? wasm]);
      await expectSlope(new Trainer(model, plain, options), inFloat64(noisyAdapter(model.config, { rank })), request);
    }),
    { numRuns: 10, seed: 4 },
  );
});

describe.each(runtimes)("training (%s)", (_, runtime) => {
  it.each(["cross_entropy", "importance_sampling", "ppo", "cispo", "dro"] as const)(
    "%s: gradients match finite differences",
    async (lossFn) => {
      const model = tinyModel();
      const trainer = new Trainer(model, plain, options);
      const adapter = noisyAdapter(model.config);
      const data = [datum(6, 1, lossFn), datum(4, 2, lossFn)];
      if (lossFn !== "cispo") return checkGradient(trainer, adapter, { data, lossFn });
      // cispo's ratio is detached: its gradient is that of cross-entropy with weight clip(ρ)·A.
      await trainer.forwardBackward(adapter, { data, lossFn });
      const logprobs = (await trainer.forward(adapter, { data, lossFn })).lossFnOutputs.map((o) => o.logprobs.data);
      const weighted = data.map(({ tokens, lossFnInputs }, d): TrainingDatum => {
        const weights = Array.from(logprobs[d]!, (l, i) => {
          const ratio = Math.exp(l - (lossFnInputs["logprobs"]!.data[i] as number));
          return Math.min(Math.max(ratio, 0), 4) * (lossFnInputs["advantages"]!.data[i] as number);
        });
        return { tokens, lossFnInputs: { target_tokens: lossFnInputs["target_tokens"]!, weights: floats(...weights) } };
      });
      const crossEntropy: LossRequest = { data: weighted, lossFn: "cross_entropy" };
      await expectNear(passOf(model, { data, lossFn }), () => noisyAdapter(model.config), [
        passOf(model, crossEntropy),
      ]);
    },
  );

  it("gives each sequence the same result in any packing", async () => {
    const model = tinyModel({ model_type: "qwen3" });
    const lengths = [12, 1, 7, 3, 12, 30, 2, 19];
    const data = lengths.map((length, i) => datum(length, i, "cross_entropy"));
    // Gradients accumulate over calls: eight calls equal one batch.
    const alone: Compute = async (each, adapter) => {
      const trainer = new Trainer(model, each, options);
      const results: LossResult[] = [];
      for (const one of data) {
        results.push(await trainer.forwardBackward(adapter, { data: [one], lossFn: "cross_entropy" }));
      }
      return groupsOf(adapter, results);
    };
    await expectNear(passOf(model, { data, lossFn: "cross_entropy" }), () => noisyAdapter(model.config), [alone]);
  });

  it("splits a batch that does not fit, with the same sum", async () => {
    const model = tinyModel();
    const data = Array.from({ length: 6 }, (_, i) => datum(8 + i, i, "cross_entropy"));
    const request: LossRequest = { data, lossFn: "cross_entropy" };
    const tight = { ...options, activationBytes: new Trainer(model, runtime, options).bytesPerToken(13) * 14 };
    await expectNear(passOf(model, request), () => noisyAdapter(model.config), [passOf(model, request, tight)]);
    const none = new Trainer(model, runtime, { ...options, activationBytes: 1000 });
    await expect(none.forward(undefined, request)).rejects.toThrow(/memory budget/);
  });

  it("estimates a pass by what it does: targets per position count, and scoring keeps no layers", async () => {
    const model = tinyModel();
    const estimate = new Trainer(model, runtime, options);
    const withBudget = (bytes: number): Trainer => new Trainer(model, runtime, { ...options, activationBytes: bytes });
    const one: LossRequest = { data: [datum(20, 1, "cross_entropy")], lossFn: "cross_entropy" };
    const targets = { data: new Int32Array(20 * 30), shape: [20, 30] };
    const many: LossRequest = {
      data: [{ tokens: one.data[0]!.tokens, lossFnInputs: { target_tokens: targets } }],
      lossFn: "cross_entropy",
    };
    const trains = withBudget(estimate.bytesPerToken(20) * 20);
    await trains.forwardBackward(noisyAdapter(model.config), one);
    await expect(trains.forwardBackward(noisyAdapter(model.config), many)).rejects.toThrow(/fewer targets/);
    const scores = withBudget(estimate.bytesPerToken(20, { train: false, width: 30 }) * 20);
    await scores.forward(undefined, many);
    await expect(scores.forwardBackward(noisyAdapter(model.config), one)).rejects.toThrow(MemoryError);
  });

  it("keeps runs of shorter sequences within the budget when a long one is in the batch", async () => {
    const model = tinyModel({ max_position_embeddings: 1024 });
    const tokensOfRuns: number[] = [];
    const watched: Runtime = {
      ...runtime,
      compile: async (...args) => {
        const program = await runtime.compile(...args);
        return {
          run: (inputs) => {
            tokensOfRuns.push(inputs["tokens"]!.dims[0]!);
            return program.run(inputs);
          },
          dispose: () => program.dispose(),
        };
      },
    };
    const wide = { activationBytes: 1e10, contextLength: 1024 };
    const bytes = (length: number): number => new Trainer(model, runtime, wide).bytesPerToken(length);
    // From 512 tokens on, probabilities are recomputed: a token of the two shorter sequences takes more memory than one of the longest.
    const activationBytes = bytes(520) * 1024;
    expect(bytes(510) * 1020).toBeGreaterThan(activationBytes);
    await new Trainer(model, watched, { ...wide, activationBytes }).forwardBackward(noisyAdapter(model.config), {
      data: [520, 510, 510].map((length, seed) => datum(length, seed, "cross_entropy")),
      lossFn: "cross_entropy",
    });
    expect(tokensOfRuns.sort()).toEqual([510, 510, 520]);
  });

  it("recomputed attention has the same gradients", async () => {
    const model = tinyModel({ max_position_embeddings: 1024 });
    const wide = { activationBytes: 1e10, contextLength: 1024 };
    const long = datum(520, 3, "cross_entropy");
    const cut = (to: number): TrainingDatum => ({
      tokens: (long.tokens as number[]).slice(0, to),
      lossFnInputs: { target_tokens: { data: (long.lossFnInputs["target_tokens"]!.data as Int32Array).slice(0, to) } },
    });
    const request: LossRequest = { data: [long], lossFn: "cross_entropy" };
    const adapter = () => noisyAdapter(model.config);
    await expectNear(passOf(model, request, wide), adapter, [], [runtime]);
    // The first 500 positions do not attend to the others, and at 500 keys probabilities are kept. In float64, rounded when stored.
    const exactly = async (datum: TrainingDatum): Promise<ArrayLike<number>> => {
      const trainer = new Trainer(model, plain, wide);
      const { lossFnOutputs } = await trainer.forward(inFloat64(adapter()), { ...request, data: [datum] });
      return lossFnOutputs[0]!.logprobs.data;
    };
    const [whole, first] = [await exactly(long), await exactly(cut(500))];
    for (let i = 0; i < first.length; i++) {
      expect(Math.abs(first[i]! - whole[i]!)).toBeLessThanOrEqual(2 * unitRoundoff * Math.abs(whole[i]!));
    }
    await expectSlope(new Trainer(model, plain, wide), inFloat64(adapter()), request);
  });

  it("learns a sequence, and is deterministic to the bit", async () => {
    const model = tinyModel();
    const train = async (): Promise<{ first: number; last: number; values: Float32Array }> => {
      const trainer = new Trainer(model, runtime, options);
      const adapter = createAdapter(model.config, {
        rank: 4,
        alpha: 32,
        seed: 3,
        trainAttn: true,
        trainMlp: true,
        trainUnembed: true,
      });
      const request: LossRequest = {
        data: [datum(12, 1, "cross_entropy"), datum(7, 2, "cross_entropy")],
        lossFn: "cross_entropy",
      };
      const history: number[] = [];
      for (let step = 0; step < 40; step++) {
        history.push((await trainer.forwardBackward(adapter, request)).metrics["loss:sum"]!);
        optimStep(adapter, { learningRate: 0.02, gradClipNorm: 1e3 });
      }
      return { first: history[0]!, last: history.at(-1)!, values: adapter.values };
    };
    const [one, two] = [await train(), await train()];
    expect(one.last).toBeLessThan(one.first / 20);
    expect(two.values).toEqual(one.values);
  });

  it("takes no step with a gradient that is not finite, and continues with unchanged state", async () => {
    const model = tinyModel();
    const trainer = new Trainer(model, runtime, options);
    const [adapter, untouched] = [noisyAdapter(model.config), noisyAdapter(model.config)];
    const good: LossRequest = { data: [datum(7, 2, "cross_entropy")], lossFn: "cross_entropy" };
    // exp of a difference of about 100: infinite in float32.
    const far: LossRequest = {
      data: [
        {
          tokens: [1],
          lossFnInputs: { target_tokens: floats(2), logprobs: floats(-100), advantages: floats(1) },
        },
      ],
      lossFn: "importance_sampling",
    };
    for (const each of [adapter, untouched]) {
      await trainer.forwardBackward(each, good);
      optimStep(each);
    }
    await trainer.forwardBackward(adapter, far);
    expect(() => optimStep(adapter)).toThrow(/gradient: is not finite/);
    for (const each of [adapter, untouched]) {
      await trainer.forwardBackward(each, good);
      optimStep(each, { learningRate: undefined as unknown as number });
    }
    expect(adapter).toEqual(untouched);
  });

  it("takes several targets per position, dense or sparse", async () => {
    const model = tinyModel();
    const trainer = new Trainer(model, runtime, options);
    const tokens = [3, 1, 4];
    const target_tokens = { data: [5, 9, 2, 6, 5, 3], shape: [3, 2] };
    const weights = { data: [0.5, 0.5, 0, 1, 0, 0], shape: [3, 2] };
    const sparse = { data: [0.5, 0.5, 1], shape: [3, 2], sparseCrowIndices: [0, 2, 3, 3], sparseColIndices: [0, 1, 1] };
    const adapters = [noisyAdapter(model.config), noisyAdapter(model.config)] as const;
    const request = (lossFnInputs: Record<string, TensorInput>): LossRequest => ({
      data: [{ tokens, lossFnInputs }],
      lossFn: "cross_entropy",
    });
    const dense = await trainer.forwardBackward(adapters[0], request({ target_tokens, weights }));
    const csr = await trainer.forwardBackward(adapters[1], request({ target_tokens, weights: sparse }));
    expect(dense.lossFnOutputs[0]!.logprobs.shape).toEqual([3, 2]);
    expect(csr).toEqual(dense);
    expect(adapters[1].gradient).toEqual(adapters[0].gradient);
    // The same as two batches of one target each.
    const gradientOf = (adapter: Adapter): Groups => groupsOf(adapter, []);
    const both: Compute = async (each, adapter) => {
      await new Trainer(model, each, options).forwardBackward(adapter, request({ target_tokens, weights }));
      return gradientOf(adapter);
    };
    const oneByOne: Compute = async (each, adapter) => {
      const other = new Trainer(model, each, options);
      for (const k of [0, 1]) {
        const pick = (values: number[]): TensorInput => floats(...[0, 1, 2].map((i) => values[2 * i + k]!));
        const one = { target_tokens: pick(target_tokens.data), weights: pick(weights.data) };
        await other.forwardBackward(adapter, request(one));
      }
      return gradientOf(adapter);
    };
    await expectNear(both, () => noisyAdapter(model.config), [oneByOne]);
  });
});
