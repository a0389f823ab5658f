/** The prefix cache: common prefixes are computed once within a scope, and results do not depend on the cache. */
import { describe, expect, it } from "vitest";
import type { Adapter } from "../adapter/adapter.ts";
import { createRandom } from "../random.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { tinyModel, wideShape } from "../testing/tiny-model.ts";
import type { SampleRequest, SampleResult } from "../types.ts";
import { blockTokens } from "./prefix-cache.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";

const wasm = await loadWasmRuntime(1);
const native = (await loadNativeRuntime(2)).runtime ?? wasm;
const model = tinyModel({
  model_type: "qwen3",
  max_position_embeddings: 1024,
  ...wideShape,
});
const defaults: SamplerOptions = {
  contextLength: 1024,
  maxBatch: 8,
  cacheBytes: 1e9,
  eosTokenIds: [],
  packing: "all",
};

const ids = (length: number, seed: number): number[] => {
  const random = createRandom(seed, "ids");
  return Array.from({ length }, () => Math.floor(random() * 37));
};
const adapterOf = (seed: number): Adapter => noisyAdapter(model.config, { seed, noise: 0.1 });

type Asked = SampleRequest & { weights?: Adapter };
const runAll = async (sampler: Sampler, requests: readonly Asked[]): Promise<SampleResult[]> => {
  const handles = requests.map(({ weights, ...request }) => sampler.submit(request, weights));
  while (sampler.busy) await sampler.step();
  return Promise.all(handles.map((handle) => handle.result));
};
const run = async (sampler: Sampler, request: Asked): Promise<SampleResult> => (await runAll(sampler, [request]))[0]!;
/** The parts of a result that must not depend on the cache. */
const told = ({ promptCacheHitTokens: _, ...rest }: SampleResult): Omit<SampleResult, "promptCacheHitTokens"> => rest;

/** Prompts of a conversation in which every turn repeats the previous ones. */
const conversation = (seed: number, turns: number): Asked[] =>
  Array.from({ length: turns }, (_, turn) => ({
    prompt: ids(50, 1).concat(ids(10 + 45 * turn, seed)),
    numSamples: 2,
    params: { maxTokens: 6, seed: turn, temperature: 0.8 },
  }));

/** A runtime that counts the tokens of its prefill runs. */
const counting = (runtime: Runtime): { runtime: Runtime; prefilled: () => number } => {
  let prefilled = 0;
  const compile: Runtime["compile"] = async (...args) => {
    const program = await runtime.compile(...args);
    return {
      run: (inputs) => {
        if (inputs["own.kv"]) prefilled += inputs["tokens"]!.dims[0]!;
        return program.run(inputs);
      },
      dispose: () => program.dispose(),
    };
  };
  return { runtime: { ...runtime, compile }, prefilled: () => prefilled };
};

/** As in engines: prompts of small models use packed weights, others and WebAssembly do not. */
const setups = [
  ["native", "all", native],
  ["native", "decoding", native],
  ["wasm", "decoding", wasm],
] as const;

describe.each(setups)("on %s, packed: %s", (_, packing, runtime) => {
  const options = { ...defaults, packing };

  it("a warm, a cold and a partly evicted cache give the same bits, in any company", async () => {
    const adapter = adapterOf(1);
    const turns = [...conversation(5, 5), ...conversation(6, 3).map((each) => ({ ...each, weights: adapter }))];
    const warm = new Sampler(model, runtime, options);
    const cold: unknown[] = [];
    for (const [i, turn] of turns.entries()) cold.push(told(await run(warm, { ...turn, scope: `alone ${i}` })));
    // One after the other: every turn finds the blocks of the previous ones.
    const results: SampleResult[] = [];
    for (const turn of turns) results.push(await run(warm, turn));
    expect(results.map(told)).toEqual(cold);
    const hits = results.map(({ promptCacheHitTokens }) => promptCacheHitTokens);
    expect(hits).toEqual([0, 48, 96, 144, 192, 0, 48, 96]);
    // The same prompts again: nothing is left to compute.
    for (const [i, turn] of turns.entries()) {
      const again = await run(warm, turn);
      expect(told(again)).toEqual(cold[i]);
      expect(again.promptCacheHitTokens).toBe(turn.prompt.length);
    }
    // All at once, with prompts that have no common prefix with them.
    const others = [7, 8, 9].map((seed) => ({ prompt: ids(120, seed), params: { maxTokens: 9, seed } }));
    const mixed = [...turns, ...others].map((each) => ({ ...each, scope: "crowd" }));
    const crowd = await runAll(warm, mixed.toReversed());
    expect(crowd.toReversed().slice(0, turns.length).map(told)).toEqual(cold);
    // With room for a few blocks, so that some are evicted.
    const tight = new Sampler(model, runtime, { ...options, cacheBytes: 1_600_000 });
    for (let round = 0; round < 2; round++) {
      for (const [i, turn] of turns.entries()) expect(told(await run(tight, turn))).toEqual(cold[i]);
    }
  });
});

it("requests that begin alike wait for the first and take what it left", async () => {
  const { runtime, prefilled } = counting(native);
  const prefix = ids(3 * blockTokens, 1);
  const requests = Array.from({ length: 8 }, (_, i) => ({ prompt: [...prefix, i, i, i], params: { maxTokens: 3 } }));
  const results = await runAll(new Sampler(model, runtime, defaults), requests);
  expect(prefilled()).toBe(prefix.length + 8 * 3);
  const hits = results.map(({ promptCacheHitTokens }) => promptCacheHitTokens);
  expect(hits).toEqual([0, ...new Array<number>(7).fill(prefix.length)]);
});

it("a prompt that ends with a block leaves that block, too", async () => {
  const sampler = new Sampler(model, native, defaults);
  const prompt = ids(2 * blockTokens, 1);
  const ask = (tokens: number[]): Asked => ({ prompt: tokens, params: { maxTokens: 2, seed: 1 } });
  await run(sampler, ask(prompt));
  const warm = await run(sampler, ask([...prompt, 1, 2]));
  expect(warm.promptCacheHitTokens).toBe(prompt.length);
  expect(told(await run(sampler, { ...ask([...prompt, 1, 2]), scope: "alone" }))).toEqual(told(warm));
  expect((await run(sampler, ask(prompt))).promptCacheHitTokens).toBe(prompt.length);
});

it.each(setups)(
  "prompts that end around a block, in any order, are as if alone (%s, packed: %s)",
  async (_, packing, runtime) => {
    const options = { ...defaults, packing };
    const cold = new Sampler(model, runtime, options);
    const base = ids(70, 1);
    const ask = (length: number): Asked => ({ prompt: base.slice(0, length), params: { maxTokens: 2, seed: length } });
    const lengths = [1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 65];
    const expected = new Map<number, unknown>();
    for (const length of lengths) {
      expected.set(length, told(await run(cold, { ...ask(length), scope: `alone ${length}` })));
    }
    for (let seed = 1; seed <= 4; seed++) {
      const random = createRandom(seed, "order");
      const order = Array.from({ length: 20 }, () => lengths[Math.floor(random() * lengths.length)]!);
      // Second, with room for about as many blocks as the longest prompt has.
      const sampler = new Sampler(model, runtime, seed % 2 ? options : { ...options, cacheBytes: 700_000 });
      const known = new Set<number>();
      for (const length of order) {
        const result = await run(sampler, ask(length));
        expect(told(result), `${length} of ${order}`).toEqual(expected.get(length));
        if (seed % 2 === 0) continue;
        // The whole prompt if it was requested before; otherwise the whole blocks of another prompt, without the last token's.
        const longest = Math.max(0, ...[...known].map((other) => Math.floor(Math.min(other, length) / blockTokens)));
        const blocks = Math.min(longest, Math.floor((length - 1) / blockTokens));
        expect(result.promptCacheHitTokens).toBe(known.has(length) ? length : blocks * blockTokens);
        known.add(length);
      }
    }
  },
);

it("the same short prompt is computed once, at each temperature", async () => {
  const { runtime, prefilled } = counting(native);
  const sampler = new Sampler(model, runtime, defaults);
  const prompt = ids(blockTokens - 1, 1);
  const ask = (temperature: number, seed: number) => ({ prompt, params: { maxTokens: 3, temperature, seed } });
  await runAll(sampler, [ask(1, 1), ask(1, 2), ask(0.5, 3), ask(0.5, 4)]);
  expect(prefilled()).toBe(2 * prompt.length);
});

describe("nothing is found", () => {
  const prompt = ids(200, 1);
  const request: Asked = { prompt, params: { maxTokens: 2, seed: 1 } };

  it("across scopes: two tenants with equal prompts see the same hit counts as alone", async () => {
    const { runtime, prefilled } = counting(native);
    const sampler = new Sampler(model, runtime, defaults);
    const first = await run(sampler, { ...request, scope: "a" });
    const second = await run(sampler, { ...request, scope: "b" });
    expect(second).toEqual(first);
    expect(second.promptCacheHitTokens).toBe(0);
    expect(prefilled()).toBe(2 * prompt.length);
    expect((await run(sampler, { ...request, scope: "a" })).promptCacheHitTokens).toBe(prompt.length);
    // Submitted together, neither waits for the other's blocks.
    const others = new Sampler(model, runtime, defaults);
    const both = await runAll(others, [
      { ...request, scope: "a" },
      { ...request, scope: "b" },
    ]);
    expect(both.map(({ promptCacheHitTokens }) => promptCacheHitTokens)).toEqual([0, 0]);
  });

  it("across weights, nor of weights that are gone", async () => {
    const sampler = new Sampler(model, native, defaults);
    const adapter = adapterOf(1);
    await run(sampler, request);
    expect((await run(sampler, { ...request, weights: adapter })).promptCacheHitTokens).toBe(0);
    expect((await run(sampler, { ...request, weights: adapter })).promptCacheHitTokens).toBe(200);
    const bytes = sampler.stats.prefixCacheBytes;
    sampler.keepPrefixesOf((weights) => weights !== adapter);
    expect(sampler.stats.prefixCacheBytes).toBe(bytes / 2);
    expect((await run(sampler, { ...request, weights: adapter })).promptCacheHitTokens).toBe(0);
    expect((await run(sampler, request)).promptCacheHitTokens).toBe(200);
  });

  it("where all positions are scored; what is computed for it is left for others", async () => {
    const sampler = new Sampler(model, native, defaults);
    const scored = { ...request, promptLogprobs: true, topkPromptLogprobs: 2 };
    const cold = await run(sampler, scored);
    expect(cold.promptCacheHitTokens).toBe(0);
    expect(await run(sampler, scored)).toEqual(cold);
    const plain = await run(sampler, request);
    expect(plain.sequences).toEqual(cold.sequences);
    expect(plain.promptCacheHitTokens).toBe(prompt.length);
    expect((await run(sampler, { ...request, scope: "alone" })).sequences).toEqual(cold.sequences);
  });
});

describe.each(setups)("where only the last positions are scored, on %s, packed: %s", (_, packing, runtime) => {
  const prompt = ids(200, 1);
  const all: Asked = { prompt, params: { maxTokens: 2, seed: 1 }, promptLogprobs: true, topkPromptLogprobs: 2 };

  it.each([0, 1, 17, 40, 199, 200, 1000])(
    "the last %s: as if all were, and the rest comes from the cache",
    async (n) => {
      const sampler = new Sampler(model, runtime, { ...defaults, packing });
      const whole = await run(sampler, { ...all, scope: "other" });
      const last: Asked = { ...all, promptLogprobsLastN: n };
      const cold = await run(sampler, last);
      const unscored = Math.max(1, prompt.length - n);
      expect(cold.promptLogprobs).toEqual(whole.promptLogprobs!.map((value, i) => (i < unscored ? Number.NaN : value)));
      const { tokenIds, logprobs } = cold.topkPromptLogprobs!;
      expect(tokenIds.subarray(2 * unscored)).toEqual(whole.topkPromptLogprobs!.tokenIds.subarray(2 * unscored));
      expect(logprobs.subarray(2 * unscored)).toEqual(whole.topkPromptLogprobs!.logprobs.subarray(2 * unscored));
      expect(new Set(logprobs.subarray(0, 2 * unscored))).toEqual(new Set([-99999]));
      expect(cold.sequences).toEqual(whole.sequences);
      const warm = await run(sampler, last);
      expect(told(warm)).toEqual(told(cold));
      const computed = Math.max(0, prompt.length - n - 1); // a token is scored by the row before it
      const known = Math.min(Math.floor(computed / blockTokens), Math.floor((prompt.length - 1) / blockTokens));
      expect(warm.promptCacheHitTokens).toBe(known * blockTokens);
    },
  );
});

it.each([100, 131, 255, 257])(
  "a vocabulary of %s gets equal scores with any other scored positions",
  async (vocabSize) => {
    const narrow = tinyModel({
      model_type: "qwen3",
      max_position_embeddings: 1024,
      ...wideShape,
      vocab_size: vocabSize,
    });
    const weights = noisyAdapter(narrow.config, { rank: 17 });
    const prompt = ids(300, 1);
    for (const packing of ["none", "all"] as const) {
      const sampler = new Sampler(narrow, native, { ...defaults, packing });
      const ask = (n: number): Asked => ({
        prompt,
        weights,
        params: { maxTokens: 1, seed: 1 },
        promptLogprobs: true,
        promptLogprobsLastN: n,
      });
      const all = await run(sampler, { ...ask(300), scope: "other" });
      for (const n of [1, 3, 40, 131, 200]) {
        for (let round = 0; round < 2; round++) {
          const { promptLogprobs, sequences } = await run(sampler, ask(n));
          expect(promptLogprobs!.subarray(-n), `the last ${n}`).toEqual(all.promptLogprobs!.subarray(-n));
          expect(sequences).toEqual(all.sequences);
        }
      }
    }
  },
);

describe("memory", () => {
  it("stays within its share in a run that fills it ten times over, and what waits is never refused for it", async () => {
    const cacheBytes = 1_500_000;
    const sampler = new Sampler(model, native, { ...defaults, cacheBytes });
    let filled = 0;
    for (let i = 0; filled < 10 * cacheBytes; i++) {
      const before = sampler.stats.prefixCacheBytes;
      const prompt = ids(150 + (i % 90), i);
      await runAll(sampler, [
        { prompt, params: { maxTokens: 3, seed: i } },
        { prompt: prompt.slice(0, 100), params: { maxTokens: 3, seed: i } },
      ]);
      const { cacheBytes: decoding, prefixCacheBytes } = sampler.stats;
      expect(decoding + prefixCacheBytes).toBeLessThanOrEqual(cacheBytes);
      filled += Math.max(0, prefixCacheBytes - before) + 3 * blockTokens * 8 * 2 * 2 * 64;
    }
    // A request that needs all of it gets it.
    const whole = await run(sampler, { prompt: ids(150, 1), numSamples: 2, params: { maxTokens: 50, seed: 1 } });
    expect(whole.sequences).toHaveLength(2);
    const { cacheBytes: decoding, prefixCacheBytes } = sampler.stats;
    expect(decoding + prefixCacheBytes).toBeLessThanOrEqual(cacheBytes);
  });

  it("a request that is cancelled holds nothing", async () => {
    const sampler = new Sampler(model, native, { ...defaults, cacheBytes: 1_200_000 });
    const handle = sampler.submit({ prompt: ids(130, 1), numSamples: 3, params: { maxTokens: 5 } }, undefined);
    const settled = handle.result.catch((error: unknown) => error);
    await sampler.step();
    handle.cancel("enough");
    while (sampler.busy) await sampler.step();
    expect(await settled).toBe("enough");
    // All blocks can be evicted again.
    for (let i = 2; i < 8; i++) await run(sampler, { prompt: ids(130, i), params: { maxTokens: 1 } });
    expect((await run(sampler, { prompt: ids(130, 1), params: { maxTokens: 1 } })).promptCacheHitTokens).toBe(0);
  });
});
