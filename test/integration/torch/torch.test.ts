/**
 * The engine against PyTorch + transformers + PEFT, by recorded fixtures (record.mjs): logits, losses, gradients, training, decoding.
 * Neither float32 is the truth, and each machine has its own: the float64 interpreter is, and PyTorch's values and those of every
 * runtime must lie as near to it as float32 can promise (`Tolerance`, computed here from what errors of float32's size do).
 */
import { describe, expect, it, vi } from "vitest";
import type { Adapter } from "../../../packages/engine/src/adapter/adapter.ts";
import type { LoadedModel } from "../../../packages/engine/src/model/load.ts";
import { createInterpreter } from "../../../packages/engine/src/runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../../../packages/engine/src/runtime/ort.ts";
import type { Program, Runtime } from "../../../packages/engine/src/runtime/runtime.ts";
import { Extender, type Packing } from "../../../packages/engine/src/sample/extender.ts";
import { Sampler } from "../../../packages/engine/src/sample/sampler.ts";
import {
  type Compute,
  type Groups,
  inFloat64,
  type Tolerance,
  toleranceOf,
} from "../../../packages/engine/src/testing/rounding.ts";
import { optimStep } from "../../../packages/engine/src/train/optimizer.ts";
import { Trainer } from "../../../packages/engine/src/train/trainer.ts";
import type { AdamParams, LossFnName } from "../../../packages/engine/src/types.ts";
import {
  adapterOf,
  decode,
  decodeAll,
  type Fixture,
  fixtures,
  modelOf,
  requestOf,
  trees,
  underNames,
} from "./fixtures.ts";
import { tokens } from "./seeded.ts";

vi.setConfig({ testTimeout: 120_000 }); // float64 is computed in plain TypeScript, many times over
const native = (await loadNativeRuntime(1)).runtime;
const runtimes: readonly Runtime[] = [...(native ? [native] : []), await loadWasmRuntime(1), createInterpreter()];
const exact = createInterpreter({ float64: true });
/** For what takes long: the two slower runtimes take turns, one model each. */
const inTurn = (name: string): readonly Runtime[] => {
  const left = fixtures.findIndex(([each]) => each === name) % 2 === 0 ? "wasm" : "interpreter";
  return runtimes.filter((runtime) => runtime.name !== left);
};

const expectWithin = (tolerance: Tolerance, result: Groups, who: string): void => {
  const { share, where } = tolerance.worst(result);
  expect(share, `${who}: ${where}`).toBeLessThanOrEqual(1);
};

const options = { activationBytes: 1e9, contextLength: 512 };

const logitsOf = async (
  model: LoadedModel,
  runtime: Runtime,
  { adapter, sequence, packing }: { adapter: Adapter; sequence: Int32Array; packing: Packing },
) => {
  const { length } = sequence;
  const { logits } = await new Extender(model, runtime, { packing }).prefill({
    pieces: [{ past: [], tokens: sequence, adapter }],
    rows: Int32Array.from({ length }, (_, i) => i),
    coldness: new Float32Array(length).fill(1),
  });
  return logits;
};

const lossAndGradients =
  (model: LoadedModel, fixture: Fixture, lossFn: LossFnName): Compute =>
  async (runtime, adapter) => {
    const result = await new Trainer(model, runtime, options).forwardBackward(adapter, requestOf(fixture, lossFn));
    const outputs = result.lossFnOutputs.flatMap(({ logprobs, elementwise_loss }, index) => [
      [`logprobs ${index}`, logprobs.data] as const,
      [`values ${index}`, elementwise_loss.data] as const,
    ]);
    return { ...Object.fromEntries(outputs), ...underNames(adapter, adapter.gradient!) };
  };

const ADAM = { learningRate: 3e-3, weightDecay: 0.1, gradClipNorm: 20 };

/** Steps whose losses are judged as one group: later ones carry the errors of all before them, and must not excuse those. */
const GROUP = 10;

/**
 * 50 steps: the loss and the gradient's norm of each, and at the end the parameters. AdamW makes a step of one size from a gradient of
 * any, so that an entry whose gradient is lost in rounding may go either way; the runs with errors of float32's size show which.
 */
const training =
  (model: LoadedModel, fixture: Fixture, adam: AdamParams = ADAM): Compute =>
  async (runtime, adapter) => {
    const trainer = new Trainer(model, runtime, options);
    const loss: number[] = [];
    const norm: number[] = [];
    for (let step = 0; step < 50; step++) {
      const { metrics } = await trainer.forwardBackward(adapter, requestOf(fixture, "cross_entropy"));
      loss.push(metrics["loss:sum"]!);
      norm.push(optimStep(adapter, adam).metrics["unclipped_grad_l2:mean"]!);
    }
    return { ...history(loss, norm), ...underNames(adapter, adapter.values) };
  };

const history = (loss: readonly number[], norm: readonly number[]): Groups => {
  const groups: Record<string, readonly number[]> = {};
  for (let from = 0; from < loss.length; from += GROUP) {
    groups[`loss from step ${from}`] = loss.slice(from, from + GROUP);
    groups[`norm from step ${from}`] = norm.slice(from, from + GROUP);
  }
  return groups;
};

/** Log-probs, losses and gradients of PyTorch and of every runtime lie as near to the truth as float32 can promise. */
const expectRecorded = async (model: LoadedModel, fixture: Fixture, lossFn: LossFnName): Promise<void> => {
  const adapter = (): Adapter => adapterOf(model, fixture);
  const compute = lossAndGradients(model, fixture, lossFn);
  const tolerance = await toleranceOf(compute, adapter, 4);
  const { logprobs, values, gradients } = fixture.losses[lossFn]!;
  const recorded = logprobs.flatMap((text, index) => [
    [`logprobs ${index}`, decode(text)] as const,
    [`values ${index}`, decode(values[index]!)] as const,
  ]);
  expectWithin(tolerance, { ...Object.fromEntries(recorded), ...decodeAll(gradients) }, "PyTorch");
  for (const runtime of runtimes) expectWithin(tolerance, await compute(runtime, adapter()), runtime.name);
};

describe.each(trees)("data of %s that share prefixes", (_, fixture) => {
  const model = modelOf(fixture);

  it.each(Object.keys(fixture.losses) as LossFnName[])("%s and its gradients", (lossFn) =>
    expectRecorded(model, fixture, lossFn),
  );

  it("are computed as a tree", async () => {
    const distinct: number[] = [];
    const [runtime] = runtimes as [Runtime];
    const counting: Runtime = {
      ...runtime,
      compile: async (...args) => {
        const program = await runtime.compile(...args);
        const run: Program["run"] = (inputs) => {
          distinct.push(inputs["tokens"]!.dims[0]!);
          return program.run(inputs);
        };
        return { run, dispose: () => program.dispose() };
      },
    };
    const request = requestOf(fixture, "cross_entropy");
    await new Trainer(model, counting, options).forwardBackward(adapterOf(model, fixture), request);
    const all = fixture.lengths.reduce((sum, length) => sum + length, 0);
    expect(distinct.reduce((sum, count) => sum + count, 0)).toBe(all - 3 * 9 - 6);
  });
});

describe.each(fixtures)("%s", (name, fixture) => {
  const model = modelOf(fixture);
  const vocab = model.config.vocabSize;
  const adapter = (): Adapter => adapterOf(model, fixture);

  it.each(["none", "all"] as const)("logits, packed weights: %s", async (packing) => {
    const sequence = tokens("tokens0", fixture.lengths[0]!, vocab);
    const compute: Compute = async (runtime, given) => ({
      logits: await logitsOf(model, runtime, { adapter: given, sequence, packing }),
    });
    const tolerance = await toleranceOf(compute, adapter, 4);
    expectWithin(tolerance, { logits: decode(fixture.logits) }, "PyTorch");
    for (const runtime of runtimes) expectWithin(tolerance, await compute(runtime, adapter()), runtime.name);
  });

  it.each(Object.keys(fixture.losses) as LossFnName[])("%s and its gradients", (lossFn) =>
    expectRecorded(model, fixture, lossFn),
  );

  it("50 steps of AdamW with decay and clipping", async () => {
    const compute = training(model, fixture);
    const tolerance = await toleranceOf(compute, adapter, 2);
    const { loss, norm, parameters } = fixture.training;
    expectWithin(tolerance, { ...history(loss, norm), ...decodeAll(parameters) }, "PyTorch");
    for (const runtime of inTurn(name)) expectWithin(tolerance, await compute(runtime, adapter()), runtime.name);
    const wrong = training(model, fixture, { ...ADAM, learningRate: 1.01 * ADAM.learningRate });
    expect(tolerance.worst(await wrong(runtimes[0]!, adapter())).share).toBeGreaterThan(1);
  });

  it("greedy decoding of 200 tokens", async () => {
    const prompt = tokens("tokens1", fixture.lengths[1]!, vocab);
    const sequence = Int32Array.from([...prompt, ...fixture.greedy.slice(0, -1)]);
    const compute: Compute = async (runtime, given) => ({
      logits: await logitsOf(model, runtime, { adapter: given, sequence, packing: "none" }),
    });
    const tolerance = await toleranceOf(compute, adapter, 2);
    const { logits } = await compute(exact, inFloat64(adapter()));
    // A token is certain where it leads by more than the errors of two logits; where it does not, either choice is right.
    const allowed = tolerance.allowed("logits");
    let certain = 0;
    for (const [step, token] of fixture.greedy.entries()) {
      const row = (prompt.length - 1 + step) * vocab;
      for (let other = 0; other < vocab; other++) {
        if (other === token) continue;
        const lead = logits![row + token]! - logits![row + other]!;
        const margin = allowed[row + token]! + allowed[row + other]!;
        expect(lead, `PyTorch's token ${step} against ${other}`).toBeGreaterThan(-margin);
        if (lead > margin && certain === step) certain = step + 1;
        else if (lead <= margin && certain > step) certain = step;
      }
    }
    expect(certain).toBeGreaterThan(20);
    for (const runtime of inTurn(name)) {
      const sampler = new Sampler(model, runtime, {
        contextLength: 512,
        maxBatch: 4,
        cacheBytes: 1e9,
        eosTokenIds: [],
        packing: "all",
      });
      const handle = sampler.submit({ prompt, params: { maxTokens: certain, temperature: 0 } }, adapter());
      while (sampler.busy) await sampler.step();
      expect([...(await handle.result).sequences[0]!.tokens], runtime.name).toEqual(fixture.greedy.slice(0, certain));
    }
  });
});

/** The runtime with one entry of every gradient too large by 1 %. All it runs is one program, which is compiled once. */
const withError = (runtime: Runtime): Runtime & { entry: number } => {
  let compiled: Promise<Program> | undefined;
  const faulty: Runtime & { entry: number } = {
    ...runtime,
    entry: 0,
    compile: async (...args) => {
      compiled ??= runtime.compile(...args);
      const program = await compiled;
      const run: Program["run"] = async (inputs) => {
        const outputs = await program.run(inputs);
        const gradient = outputs["gradient"]!.data.slice() as Float32Array;
        gradient[faulty.entry]! *= 1.01;
        return { ...outputs, gradient: { ...outputs["gradient"]!, data: gradient } };
      };
      return { run, dispose: () => program.dispose() };
    },
  };
  return faulty;
};

describe("an error of 1 % in one entry of the gradient is found", async () => {
  const [, fixture] = fixtures.find(([name]) => name === "llama-linear-bias")!;
  const model = modelOf(fixture);
  const compute = lossAndGradients(model, fixture, "cross_entropy");
  const tolerance = await toleranceOf(compute, () => adapterOf(model, fixture), 4);

  it.each(runtimes.map((runtime) => [runtime.name, runtime] as const))("%s", async (_, runtime) => {
    const whole = adapterOf(model, fixture);
    expectWithin(tolerance, await compute(runtime, whole), runtime.name);
    const gradient = whole.gradient!;
    // In every matrix, the entry of middling size: half of the others are larger, and easier to find.
    const { modules, rank } = whole.layout;
    const matrices = modules.flatMap(({ offsetA, offsetB, outSize }) => [
      [offsetA, offsetB] as const,
      [offsetB, offsetB + outSize * rank] as const,
    ]);
    expect(matrices).toHaveLength(28);
    const faulty = withError(runtime);
    for (const [from, to] of matrices) {
      const entries = Array.from({ length: to - from }, (_unused, i) => from + i);
      entries.sort((a, b) => Math.abs(gradient[a]!) - Math.abs(gradient[b]!));
      faulty.entry = entries[entries.length >> 1]!;
      const { share, where } = tolerance.worst(await compute(faulty, adapterOf(model, fixture)));
      expect(share, `entry ${faulty.entry}: ${where}`).toBeGreaterThan(1);
    }
  });
});
