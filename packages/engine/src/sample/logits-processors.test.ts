/** Biases and penalties: their effect on a distribution and on draws from it. */
import { describe, expect, it } from "vitest";
import { createInterpreter } from "../runtime/interpreter.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import type { SampleRequest, SampleResult, SamplingParams, TokenEvent } from "../types.ts";
import { chooseToken } from "./choose-token.ts";
import { readShape, shaped } from "./logits-processors.ts";
import { Sampler } from "./sampler.ts";

const model = tinyModel({ model_type: "qwen3" });
const { vocabSize } = model.config;
const options = { contextLength: 64, maxBatch: 8, cacheBytes: 1e9, eosTokenIds: [], packing: "none" } as const;

const sample = async (params: SamplingParams, more: Partial<SampleRequest> = {}, events?: TokenEvent[]) => {
  const sampler = new Sampler(model, createInterpreter(), options);
  const request = { prompt: [7, 8], ...more, params: { maxTokens: 8, seed: 3, ...params } };
  const { result } = sampler.submit(request, undefined, { onToken: (event) => void events?.push(event) });
  while (sampler.busy) await sampler.step();
  return (await result) as SampleResult;
};
const tokensOf = async (params: SamplingParams) => [...(await sample(params)).sequences[0]!.tokens];

describe("a shaped distribution", () => {
  const logits = Float32Array.of(1, 3, 2, -1);
  it("is the softmax of the logits with bias and penalties", () => {
    const shape = { presencePenalty: 0.5, frequencyPenalty: 0.25, bias: [[3, 4] as const] };
    const counts = new Map([[1, 2]]);
    const changed = shaped({ logits }, shape, { counts, coldness: 2 });
    const wanted = [1, 3 - 0.5 - 2 * 0.25, 2, -1 + 4];
    expect([...changed.logits]).toEqual(wanted);
    const powers = wanted.map((logit) => Math.exp(2 * logit));
    const sum = powers.reduce((a, b) => a + b);
    for (const [i, p] of changed.probabilities.entries()) expect(p).toBeCloseTo(powers[i]! / sum, 6);
    expect([...logits]).toEqual([1, 3, 2, -1]); // the input, which others may share, is unchanged
  });
  it("is finite however cold it is", () => {
    const { probabilities } = shaped(
      { logits },
      { presencePenalty: 0, frequencyPenalty: 0, bias: [[0, 1]] },
      { counts: new Map(), coldness: 1e30 },
    );
    expect([...probabilities]).toEqual([0, 1, 0, 0]);
  });
  it("is asked for only when something is", () => {
    expect(readShape({ presencePenalty: 0, frequencyPenalty: 0, logitBias: [] }, 4)).toBeUndefined();
    for (const params of [{ logitBias: [[4, 1]] }, { logitBias: [[0, Number.NaN]] }, { presencePenalty: Infinity }]) {
      expect(() => readShape(params as SamplingParams, 4)).toThrow(/^params\.(logitBias\[0\]|presencePenalty)/);
    }
  });
});

describe("what is drawn", () => {
  it("follows a bias, at every temperature; log-probs stay the model's own", async () => {
    for (const temperature of [0, 1]) {
      expect(await tokensOf({ temperature, logitBias: [[5, 1000]] })).toEqual(new Array(8).fill(5));
    }
    const plain = await tokensOf({ temperature: 0 });
    const without = await tokensOf({ temperature: 0, logitBias: plain.map((token) => [token, -1000] as const) });
    expect(without.some((token) => plain.includes(token))).toBe(false);
    const forced = await sample(
      { temperature: 0, maxTokens: 1, logitBias: [[5, 1000]] },
      { topkSampleLogprobs: vocabSize },
    );
    const { topkLogprobs, logprobs } = forced.sequences[0]!;
    const at = topkLogprobs!.tokenIds.indexOf(5);
    expect(logprobs[0]).toBe(topkLogprobs!.logprobs[at]);
    expect(logprobs[0]).toBeLessThan(-0.1);
  });
  it("does not repeat itself under a large penalty", async () => {
    for (const params of [{ presencePenalty: 1000 }, { frequencyPenalty: 1000 }]) {
      const tokens = await tokensOf({ temperature: 0, ...params });
      expect(new Set(tokens).size).toBe(8);
    }
    // presence counts once, frequency each time: alternating tokens minimize both
    const bias = [
      [1, 1000],
      [2, 990],
    ] as const;
    expect(await tokensOf({ temperature: 0, logitBias: bias, frequencyPenalty: 20 })).toEqual([1, 2, 1, 2, 1, 2, 1, 2]);
    expect(await tokensOf({ temperature: 0, logitBias: bias, presencePenalty: 20 })).toEqual([1, 2, 1, 1, 1, 1, 1, 1]);
  });
  it("tells the likeliest tokens with each one, as the result does", async () => {
    const events: TokenEvent[] = [];
    const result = await sample({ temperature: 1 }, { topkSampleLogprobs: 3 }, events);
    const { tokenIds, logprobs } = result.sequences[0]!.topkLogprobs!;
    expect(events.flatMap(({ top }) => top!.map(([id]) => id))).toEqual([...tokenIds]);
    expect(events.flatMap(({ top }) => top!.map(([, logprob]) => Math.fround(logprob)))).toEqual([...logprobs]);
  });
});

describe("min-p", () => {
  const probabilities = Float32Array.of(0.1, 0.4, 0.05, 0.3, 0.15);
  const all = (choice: { topK?: number; topP?: number; minP: number }) =>
    [
      ...new Set(
        Array.from({ length: 1000 }, (_, i) => chooseToken(probabilities, { topK: -1, topP: 1, ...choice }, i / 1000)),
      ),
    ].sort();
  it("keeps what is likely beside the likeliest, behind top-k and top-p", () => {
    expect(all({ minP: 0.5 })).toEqual([1, 3]);
    expect(all({ minP: 0.3 })).toEqual([1, 3, 4]);
    expect(all({ minP: 1 })).toEqual([1]);
    expect(all({ minP: 0.1, topK: 2 })).toEqual([1, 3]);
    expect(all({ minP: 0 })).toEqual([0, 1, 2, 3, 4]);
  });
  it("is refused beyond its bounds", async () => {
    await expect(sample({ minP: 1.5 })).rejects.toThrow(/params\.minP/);
  });
});
