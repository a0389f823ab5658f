/** Training over prefix trees: as exact as without trees, deterministic, and without repeated computation. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Adapter } from "../adapter/adapter.ts";
import { createRandom } from "../random.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { unitRoundoff } from "../testing/rounding.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import type { LossFnName, LossRequest, LossResult, TrainingDatum } from "../types.ts";
import { Trainer } from "./trainer.ts";

const exact = createInterpreter({ float64: true });
const wasm = await loadWasmRuntime(1);
const fast = (await loadNativeRuntime(2)).runtime ?? wasm;
const options = { activationBytes: 1e9, contextLength: 64 };

/** A datum with inputs for any loss; equal seeds give equal targets and weights for any tokens. */
const datum = (tokens: readonly number[], seed: number, lossFn: LossFnName): TrainingDatum => {
  const random = createRandom(seed, "datum");
  const each = (value: () => number) => ({ data: Float32Array.from(tokens, value) });
  const target_tokens = { data: Int32Array.from(tokens, (_, i) => tokens[i + 1] ?? Math.floor(random() * 37)) };
  const weights = each(() => (random() < 0.3 ? 0 : random()));
  if (lossFn === "cross_entropy") return { tokens, lossFnInputs: { target_tokens, weights } };
  const advantages = each(() => random() * 2 - 1);
  return { tokens, lossFnInputs: { target_tokens, weights, logprobs: each(() => -3.6 - random()), advantages } };
};

const adapterOf = (model: ReturnType<typeof tinyModel>): Adapter => noisyAdapter(model.config);

/** A runtime that records the tokens and keys of each run; only runs with a tree have a number of keys. */
const counting = (runtime: Runtime): { runtime: Runtime; runs: { tokens: number; keys: number | undefined }[] } => {
  const runs: { tokens: number; keys: number | undefined }[] = [];
  const compile: Runtime["compile"] = async (...args) => {
    const program = await runtime.compile(...args);
    return {
      run: (inputs) => {
        const keys = Object.entries(inputs).flatMap(([name, { dims }]) => (/^group.*mask$/.test(name) ? [dims] : []));
        const tree = inputs["sum0.kv"] !== undefined;
        runs.push({
          tokens: inputs["tokens"]!.dims[0]!,
          keys: tree ? keys.reduce((sum, [batch, , , time]) => sum + batch! * time!, 0) : undefined,
        });
        return program.run(inputs);
      },
      dispose: () => program.dispose(),
    };
  };
  return { runtime: { ...runtime, compile }, runs };
};

interface Outcome {
  readonly result: LossResult;
  readonly gradient: Float32Array;
}

const train = async (trainer: Trainer, model: ReturnType<typeof tinyModel>, request: LossRequest): Promise<Outcome> => {
  const adapter = adapterOf(model);
  const result = await trainer.forwardBackward(adapter, request);
  return { result, gradient: adapter.gradient! };
};

/** Every datum in a call of its own, so that nothing is shared. */
const trainAlone = async (
  trainer: Trainer,
  model: ReturnType<typeof tinyModel>,
  request: LossRequest,
): Promise<Outcome> => {
  const adapter = adapterOf(model);
  const lossFnOutputs: LossResult["lossFnOutputs"][number][] = [];
  for (const single of request.data) {
    const { lossFnOutputs: own } = await trainer.forwardBackward(adapter, { ...request, data: [single] });
    lossFnOutputs.push(...own);
  }
  return { result: { lossFnOutputs, metrics: {} }, gradient: adapter.gradient! };
};

const distance = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b[i]!) ** 2;
  return Math.sqrt(sum);
};
const sizeOf = (values: Float32Array): number => distance(values, new Float32Array(values.length));
/** A gradient accumulated in float32 over many passes, and one from a single pass, with a rounding at every addition. */
const storing = (passes: number, { gradient }: Outcome): number => 2 * (passes + 1) * unitRoundoff * sizeOf(gradient);
const logprobsOf = ({ result }: Outcome): number[] =>
  result.lossFnOutputs.flatMap(({ logprobs }) => [...logprobs.data]);

/** Sequences with prefixes of earlier ones, in any order. */
const trees = fc
  .record({
    stems: fc.array(fc.array(fc.integer({ min: 0, max: 36 }), { minLength: 1, maxLength: 20 }), {
      minLength: 1,
      maxLength: 3,
    }),
    twigs: fc.array(
      fc.record({
        from: fc.nat(),
        keep: fc.double({ min: 0.2, max: 1, noNaN: true }),
        own: fc.array(fc.integer({ min: 0, max: 36 }), { maxLength: 8 }),
      }),
      { minLength: 1, maxLength: 14 },
    ),
  })
  .map(({ stems, twigs }) => {
    const sequences = [...stems];
    for (const { from, keep, own } of twigs) {
      const base = sequences[from % sequences.length]!;
      sequences.push([...base.slice(0, Math.max(1, Math.ceil(base.length * keep))), ...own].slice(0, 60));
    }
    return sequences.toSorted((a, b) => a.join().localeCompare(b.join()) * (a.length % 2 ? 1 : -1));
  });

describe("random trees", () => {
  const lossFns = fc.constantFrom<LossFnName>("cross_entropy", "importance_sampling", "ppo", "cispo", "dro");

  it("have gradients no further from float64 than twice those without sharing", async () => {
    const model = tinyModel({ model_type: "qwen3" });
    const trainers = { exact: new Trainer(model, exact, options), fast: new Trainer(model, fast, options) };
    let [shared, unshared] = [0, 0];
    await fc.assert(
      fc.asyncProperty(trees, lossFns, async (sequences, lossFn) => {
        const request = { lossFn, data: sequences.map((tokens, i) => datum(tokens, i, lossFn)) };
        const truth = await trainAlone(trainers.exact, model, request);
        const plain = await trainAlone(trainers.fast, model, request);
        const tree = await train(trainers.fast, model, request);
        const again = await train(trainers.fast, model, request);
        expect(again).toEqual(tree);
        // A rounding error may be 0 by chance, so the error of storing a gradient is added to the bound.
        const error = distance(tree.gradient, truth.gradient);
        expect(error).toBeLessThanOrEqual(2 * distance(plain.gradient, truth.gradient) + storing(1, truth));
        shared += error;
        unshared += distance(plain.gradient, truth.gradient);
        const [mine, others, exactly] = [tree, plain, truth].map((each) => logprobsOf(each!));
        const allowed =
          2 * distance(others!, exactly!) +
          4 *
            unitRoundoff *
            distance(
              exactly!,
              exactly!.map(() => 0),
            );
        expect(distance(mine!, exactly!)).toBeLessThanOrEqual(allowed);
      }),
      { numRuns: 25 },
    );
    // Over all cases, the layout is not less exact.
    expect(shared).toBeLessThan(1.25 * unshared);
  }, 120_000); // float64 is computed in plain TypeScript
});

const ids = (length: number, seed: number): number[] => {
  const random = createRandom(seed, "ids");
  return Array.from({ length }, () => Math.floor(random() * 37));
};
const wide = { activationBytes: 1e10, contextLength: 1024 };
const long = { max_position_embeddings: 1024 };

describe("what is computed", () => {
  const request = (sequences: readonly number[][]): LossRequest => ({
    lossFn: "cross_entropy",
    data: sequences.map((tokens, i) => datum(tokens, i, "cross_entropy")),
  });
  type Given = { train?: boolean; activationBytes?: number };
  const runsOf = async (sequences: readonly number[][], { train: trains = true, ...given }: Given = {}) => {
    const model = tinyModel(long);
    const { runtime, runs } = counting(fast);
    const trainer = new Trainer(model, runtime, { ...wide, ...given });
    if (trains) await trainer.forwardBackward(adapterOf(model), request(sequences));
    else await trainer.forward(undefined, request(sequences));
    return runs;
  };

  it("a group: its prompt once, forth and back and when only scored", async () => {
    const prompt = ids(40, 1);
    const group = Array.from({ length: 8 }, (_, i) => [...prompt, i, ...ids(4, i)]);
    for (const trains of [true, false]) {
      expect((await runsOf(group, { train: trains })).map(({ tokens }) => tokens)).toEqual([40 + 8 * 5]);
    }
  });

  it("turns of a conversation: each prompt and each answer once", async () => {
    let prompt = ids(30, 1);
    const turns = Array.from({ length: 10 }, (_, i) => {
      const turn = [...prompt, 1, ...ids(11, i)];
      prompt = [...prompt, 2, ...ids(19, 100 + i)];
      return turn;
    });
    const runs = await runsOf(turns.toReversed());
    expect(runs.map(({ tokens }) => tokens)).toEqual([30 + 9 * 20 + 10 * 12]);
  });

  it("a sequence that ends within another costs nothing", async () => {
    const whole = ids(600, 1);
    const prefixes = [600, 10, 300, 599, 600].map((length) => whole.slice(0, length));
    expect((await runsOf(prefixes)).map(({ tokens }) => tokens)).toEqual([600]);
  });

  it("trees deeper than a call stack", async () => {
    const whole = ids(1000, 1);
    const all = Array.from({ length: 1000 }, (_, i) => whole.slice(0, i + 1));
    expect((await runsOf(all, { train: false })).map(({ tokens }) => tokens)).toEqual([1000]);
  });

  it("nothing in common, or only a first token: sequences as they are", async () => {
    const unlike = Array.from({ length: 20 }, (_, i) => [i, ...ids(30, i)]);
    expect(await runsOf(unlike)).toEqual([{ tokens: 20 * 31, keys: undefined }]);
    const alike = unlike.map((tokens) => [36, ...tokens]);
    expect(await runsOf(alike)).toEqual([{ tokens: 20 * 32, keys: undefined }]);
  });

  it("a large tree in several runs that repeat little, and no run more than the memory allows", async () => {
    const prompt = ids(100, 1);
    const group = Array.from({ length: 40 }, (_, i) => [...prompt, i % 37, ...ids(150, i)]);
    const runs = await runsOf(group);
    expect(Math.max(...runs.map(({ tokens }) => tokens))).toBeLessThanOrEqual(1024);
    const total = runs.reduce((sum, { tokens }) => sum + tokens, 0);
    expect(total).toBeLessThan(1.15 * (100 + 40 * 151));
    const model = tinyModel(long);
    const activationBytes = new Trainer(model, fast, wide).bytesPerToken(251) * 300;
    const small = await runsOf(group, { activationBytes });
    expect(Math.max(...small.map(({ tokens }) => tokens))).toBeLessThanOrEqual(300);
  });

  it("keys of a large tree repeat, their gradients do not depend on the order of data or on threads", async () => {
    const model = tinyModel({ ...long, num_key_value_heads: 1 });
    const prompt = ids(160, 1);
    const group = Array.from({ length: 24 }, (_, i) => [...prompt, i, ...ids(2 + (i % 5), i)]);
    const { runtime, runs } = counting(fast);
    const trainer = new Trainer(model, runtime, wide);
    const tree = await train(trainer, model, request(group));
    expect(runs[0]!.keys).toBeGreaterThan(1.5 * runs[0]!.tokens);
    for (let i = 0; i < 3; i++) expect(await train(trainer, model, request(group))).toEqual(tree);
    const truth = await trainAlone(new Trainer(model, exact, wide), model, request(group));
    for (const each of [fast, wasm]) {
      const shared = each === fast ? tree : await train(new Trainer(model, each, wide), model, request(group));
      const plain = await trainAlone(new Trainer(model, each, wide), model, request(group));
      const allowed = 2 * distance(plain.gradient, truth.gradient) + storing(1, truth);
      expect(distance(shared.gradient, truth.gradient)).toBeLessThanOrEqual(allowed);
    }
    const inFloat64 = await train(new Trainer(model, exact, wide), model, request(group));
    expect(distance(inFloat64.gradient, truth.gradient)).toBeLessThanOrEqual(storing(group.length, truth));
  });
});

it("a tree whose attention is computed again on the way back has the same gradient", async () => {
  const model = tinyModel({ ...long, num_hidden_layers: 1 });
  const prompt = ids(600, 1);
  const data = Array.from({ length: 3 }, (_, i) => datum([...prompt, i, ...ids(4 + i, i)], i, "cross_entropy"));
  const request: LossRequest = { lossFn: "cross_entropy", data };
  const { runtime, runs } = counting(exact);
  const trainer = new Trainer(model, runtime, wide);
  const together = await train(trainer, model, request);
  const { tokens, keys } = runs[0]!;
  expect(tokens).toBe(600 + 5 + 6 + 7);
  expect(keys).toBeGreaterThanOrEqual(512); // per query, since almost all attend to each other: the condition of `manyKeys`
  const alone = await trainAlone(trainer, model, request);
  expect(distance(together.gradient, alone.gradient)).toBeLessThanOrEqual(storing(data.length, alone));
});

it("several targets per position, and data that differ in them, keep their own results", async () => {
  const model = tinyModel();
  const tokens = ids(9, 1);
  const data = [0, 1, 2].map((i): TrainingDatum => {
    const width = i + 1;
    const values = { data: Int32Array.from(ids(9 * width, i)), shape: [9, width] };
    return { tokens, lossFnInputs: { target_tokens: values } };
  });
  const request: LossRequest = { lossFn: "cross_entropy", data };
  const trainer = new Trainer(model, exact, options);
  const [together, alone] = [await train(trainer, model, request), await trainAlone(trainer, model, request)];
  expect(together.result.lossFnOutputs).toEqual(alone.result.lossFnOutputs);
  expect(distance(together.gradient, alone.gradient)).toBeLessThanOrEqual(storing(data.length, alone));
});
