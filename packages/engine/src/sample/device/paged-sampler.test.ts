/**
 * A sampler on a device, except numerical accuracy: equal draws to one on the host, few bytes across the bus, and pages that are shared,
 * evicted and copied.
 */
import { afterAll, describe, expect, it } from "vitest";
import { type AdapterWeights, freeze } from "../../adapter/adapter.ts";
import { MemoryError } from "../../errors.ts";
import type { Device } from "../../runtime/device.ts";
import { createInterpreter } from "../../runtime/interpreter.ts";
import { createInterpreterDevice } from "../../runtime/interpreter-device.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { openTestDevice, runtimeOf, testKinds } from "../../testing/devices.ts";
import { noisyAdapter } from "../../testing/noisy-adapter.ts";
import { tinyModel } from "../../testing/tiny-model.ts";
import type { SampleRequest, SampleResult } from "../../types.ts";
import { Sampler } from "../sampler.ts";
import { pageBytes } from "./pages.ts";

const model = tinyModel({ eos_token_id: null });
const { vocabSize } = model.config;
const opened: Awaited<ReturnType<typeof openTestDevice>>[] = [];
afterAll(() => {
  for (const device of opened) device.dispose();
});

type OnDevice = Runtime & { readonly device: Device };
const open = async (kind: "interpreter" | (typeof testKinds)[number]): Promise<OnDevice> => {
  if (kind === "interpreter") return createInterpreterDevice();
  const device = await openTestDevice(kind);
  opened.push(device);
  return runtimeOf(device);
};
const samplerOn = (runtime: Runtime, { pages = 200, maxBatch = 8, of = model } = {}): Sampler =>
  new Sampler(of, runtime, {
    contextLength: 64,
    maxBatch,
    cacheBytes: pages * pageBytes(of.config),
    eosTokenIds: [],
    packing: "none",
  });
const finish = async <T>(sampler: Sampler, ...results: Promise<T>[]): Promise<T[]> => {
  const all = Promise.all(results);
  all.catch(() => {}); // awaited by the caller
  while (sampler.busy) await sampler.step();
  return all;
};
const sample = async (
  sampler: Sampler,
  request: Partial<SampleRequest>,
  adapter?: AdapterWeights,
): Promise<SampleResult> => {
  const { result } = sampler.submit({ prompt: [1, 2, 3], ...request }, adapter);
  const [own] = await finish(sampler, result);
  return own!;
};
const prompt = (length: number, first = 0): number[] => Array.from({ length }, (_, i) => (first + i * 7) % vocabSize);

/** Requests of all kinds: greedy, random, filtered, with changed distributions, scores and listed tokens. */
const requests: readonly Partial<SampleRequest>[] = [
  { params: { temperature: 0, maxTokens: 8 }, topkSampleLogprobs: 3 },
  { params: { seed: 1, maxTokens: 20 }, numSamples: 3 },
  { params: { seed: 2, maxTokens: 10, temperature: 0.7, topK: 5, topP: 0.9 }, prompt: prompt(20) },
  { params: { seed: 3, maxTokens: 10, minP: 0.05 }, prompt: prompt(16), topkSampleLogprobs: 2 },
  { params: { seed: 4, maxTokens: 10, presencePenalty: 1, logitBias: [[5, 2]] } },
  { params: { seed: 5, maxTokens: 4 }, prompt: prompt(40), promptLogprobs: true, topkPromptLogprobs: 2 },
];

describe.each(["interpreter", ...testKinds] as const)("on %s", (kind) => {
  /** Keys of 64 values take two rows of a page. */
  const shapes = [{}, { head_dim: 64, num_key_value_heads: 1 }];
  it.each(shapes)("draws what a sampler on the host draws, alone and in company: %o", async (shape) => {
    const of = tinyModel({ eos_token_id: null, ...shape });
    const [host, device] = [
      samplerOn(createInterpreter({ float64: true }), { of }),
      samplerOn(await open(kind), { of }),
    ];
    const adapter = freeze(noisyAdapter(of.config));
    const some = kind === "webgpu" ? requests.slice(0, 4) : requests;
    const all = (sampler: Sampler): Promise<SampleResult>[] =>
      some.map((request, i) => sampler.submit({ prompt: [1, 2, 3], ...request }, i % 2 ? adapter : undefined).result);
    const expected = await finish(host, ...all(host));
    const results = await finish(device, ...all(device));
    for (const [i, { sequences, promptLogprobs }] of results.entries()) {
      const wanted = expected[i]!;
      expect(sequences.map(({ tokens }) => [...tokens])).toEqual(wanted.sequences.map(({ tokens }) => [...tokens]));
      for (const [index, { logprobs, topkLogprobs }] of sequences.entries()) {
        const own = wanted.sequences[index]!;
        for (const [at, logprob] of logprobs.entries()) expect(logprob).toBeCloseTo(own.logprobs[at]!, 4);
        expect(topkLogprobs?.tokenIds).toEqual(own.topkLogprobs?.tokenIds);
      }
      promptLogprobs?.forEach((logprob, at) => {
        if (at > 0) expect(logprob).toBeCloseTo(wanted.promptLogprobs![at]!, 4);
      });
    }
    await device.dispose("done");
  });
});

describe("what crosses the bus", () => {
  const perStep = async (overrides: Record<string, unknown>, sequences: number, length: number) => {
    const runtime = await open("cpu");
    const { device } = runtime;
    const own = tinyModel({ eos_token_id: null, ...overrides });
    const sampler = new Sampler(own, runtime, {
      contextLength: 64,
      maxBatch: 8,
      cacheBytes: 200 * pageBytes(own.config),
      eosTokenIds: [],
      packing: "none",
    });
    const adapter = freeze(noisyAdapter(own.config));
    for (let i = 0; i < sequences; i++) {
      void sampler
        .submit({ prompt: prompt(length, i), params: { maxTokens: 12, seed: i } }, adapter)
        .result.catch(() => {});
    }
    while (sampler.stats.activeSequences < sequences) await sampler.step();
    await sampler.step(); // the last pages are copied, tables are uploaded
    const before = { ...device.traffic };
    await sampler.step();
    const bytes = {
      toDevice: device.traffic.toDevice - before.toDevice,
      fromDevice: device.traffic.fromDevice - before.fromDevice,
    };
    await sampler.dispose("done");
    return bytes;
  };

  it("per token: position and pages to the device, five numbers back, for any model size", async () => {
    const { heads, kvHeads } = model.config;
    expect(heads).toBeGreaterThan(kvHeads);
    // Token, position (8 bytes), rows written (8 each), pages, reach, row, scale-free draw inputs; the run's page starts and scale.
    const pages = 2;
    const perToken = 4 + 8 + 8 * kvHeads + 4 * pages + 4 + 4 + 4 * 4;
    const perRun = 4 * pages + 4;
    const one = await perStep({}, 1, 20);
    expect(one).toEqual({ toDevice: perToken + perRun, fromDevice: 5 * 4 });
    expect(await perStep({}, 4, 20)).toEqual({ toDevice: 4 * perToken + perRun, fromDevice: 4 * 5 * 4 });
    expect(await perStep({ hidden_size: 48, num_hidden_layers: 4, vocab_size: 500, head_dim: 8 }, 1, 20)).toEqual(one);
  });
});

describe("pages", () => {
  it("prompts that begin alike share them, and samples of one prompt do not write to each other's", async () => {
    const sampler = samplerOn(await open("cpu"));
    const first = await sample(sampler, { prompt: prompt(40), numSamples: 4, params: { seed: 9, maxTokens: 12 } });
    const used = sampler.stats.prefixCacheBytes;
    const again = await sample(sampler, { prompt: prompt(40), numSamples: 4, params: { seed: 9, maxTokens: 12 } });
    expect(again.promptCacheHitTokens).toBe(40);
    expect(sampler.stats.prefixCacheBytes).toBe(used);
    expect(again.sequences.map(({ tokens }) => tokens)).toEqual(first.sequences.map(({ tokens }) => tokens));
    const longer = await sample(sampler, { prompt: [...prompt(40), 1], params: { seed: 9, maxTokens: 1 } });
    expect(longer.promptCacheHitTokens).toBe(32);
    const cold = await sample(samplerOn(await open("cpu")), {
      prompt: [...prompt(40), 1],
      params: { seed: 9, maxTokens: 1 },
    });
    expect(longer.sequences[0]!.logprobs[0]).toBeCloseTo(cold.sequences[0]!.logprobs[0]!, 5);
  });

  it.each(testKinds)("gives up what is only kept for what runs, and finds all pages again, on %s", async (kind) => {
    // A request of 40 + 12 tokens takes up to five; eight hold no two of them, and little of earlier prompts.
    const sampler = samplerOn(await open(kind), { pages: 8 });
    for (let round = 0; round < (kind === "webgpu" ? 3 : 12); round++) {
      const { sequences } = await sample(sampler, {
        prompt: prompt(40, round),
        params: { seed: round, maxTokens: 12 },
      });
      expect(sequences[0]!.tokens).toHaveLength(12);
    }
    expect(sampler.stats.prefixCacheBytes).toBeLessThanOrEqual(8 * pageBytes(model.config));
    expect(sampler.stats.cacheBytes).toBe(0);
  });

  it("many requests with few pages all come to their end", async () => {
    const sampler = samplerOn(await open("cpu"), { pages: 14 });
    const results = Array.from(
      { length: 10 },
      (_, i) => sampler.submit({ prompt: prompt(20, i), params: { seed: i, maxTokens: 20 } }, undefined).result,
    );
    const all = await finish(sampler, ...results);
    expect(all.map(({ sequences }) => sequences[0]!.tokens.length)).toEqual(Array(10).fill(20));
  });

  it("a request that no pages would hold is refused with the numbers", async () => {
    const sampler = samplerOn(await open("cpu"), { pages: 3 });
    await expect(sample(sampler, { prompt: prompt(40), params: { maxTokens: 20 } })).rejects.toThrow(MemoryError);
  });

  it("a page that held what is no number is clean when it is used again", async () => {
    const sampler = samplerOn(await open("cpu"), { pages: 6 });
    const overflowing = noisyAdapter(model.config);
    overflowing.values.fill(3e18);
    const broken = sample(sampler, { prompt: prompt(40), params: { maxTokens: 12 } }, freeze(overflowing));
    await expect(broken).rejects.toMatchObject({ code: "not_finite" });
    const { sequences } = await sample(sampler, { prompt: prompt(40), params: { seed: 1, maxTokens: 12 } });
    const clean = await sample(samplerOn(await open("cpu")), {
      prompt: prompt(40),
      params: { seed: 1, maxTokens: 12 },
    });
    expect(sequences[0]!.tokens).toEqual(clean.sequences[0]!.tokens);
  });

  it("are freed with the sampler", async () => {
    const runtime = await open("cpu");
    const sampler = samplerOn(runtime);
    await sample(sampler, { params: { maxTokens: 4 } });
    await sampler.dispose("done");
    expect(runtime.device.valueBytes).toBe(model.bytes);
  });
});
