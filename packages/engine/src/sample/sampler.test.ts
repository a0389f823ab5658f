/** Sampling on small random models: compared with full forward passes, and with itself in other batches. */

import type { ModelConfig } from "@tinklet/models/config";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { describe, expect, it } from "vitest";
import type { Adapter } from "../adapter/adapter.ts";
import type { LoadedModel } from "../model/load.ts";
import { createRandom } from "../random.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import { loadNativeRuntime } from "../runtime/ort.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { type Compute, toleranceOf } from "../testing/rounding.ts";
import { tinyModel, wideShape } from "../testing/tiny-model.ts";
import { Trainer } from "../train/trainer.ts";
import type { SampledSequence, SampleRequest, SampleResult, SamplingParams } from "../types.ts";
import { chooseToken } from "./choose-token.ts";
import { KvCache } from "./kv-cache.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";

const runtime = (await loadNativeRuntime(1)).runtime ?? createInterpreter();
const defaults: SamplerOptions = {
  contextLength: 64,
  maxBatch: 32,
  cacheBytes: 1e9,
  eosTokenIds: [],
  packing: "none",
};

const adapterOf = (config: ModelConfig, seed: number, rank = 3): Adapter =>
  noisyAdapter(config, { rank, seed, trainAttn: seed !== 2, trainUnembed: seed !== 3, noise: 0.1 });

/** Submits requests and steps until all are done. */
const runAll = async (
  sampler: Sampler,
  requests: readonly (SampleRequest & { weights?: Adapter })[],
): Promise<SampleResult[]> => {
  const handles = requests.map(({ weights, ...request }) => sampler.submit(request, weights));
  while (sampler.busy) await sampler.step();
  return Promise.all(handles.map((handle) => handle.result));
};

/** The last log-probs of a sequence equal those of a float64 training forward within float32's error. */
const expectScores = async (
  { model, weights }: { readonly model: LoadedModel; readonly weights: Adapter },
  sequence: readonly number[],
  logprobs: ArrayLike<number>,
): Promise<void> => {
  const compute: Compute = async (each, adapter) => {
    const trainer = new Trainer(model, each, { activationBytes: 1e10, contextLength: 1024 });
    const { lossFnOutputs } = await trainer.forward(adapter, {
      lossFn: "cross_entropy",
      data: [{ tokens: sequence.slice(0, -1), lossFnInputs: { target_tokens: { data: sequence.slice(1) } } }],
    });
    return { logprobs: lossFnOutputs[0]!.logprobs.data.slice(-logprobs.length) };
  };
  const { share, where } = (await toleranceOf(compute, () => weights, 4)).worst({ logprobs });
  expect(share, where).toBeLessThanOrEqual(1);
};

describe("against full forward passes", () => {
  const model = tinyModel({ model_type: "qwen3", tie_word_embeddings: false });
  const weights = adapterOf(model.config, 1);
  const prompt = [3, 1, 4, 1, 5];

  it("greedy tokens are the argmax and log-probs those of the training forward", async () => {
    const [result] = await runAll(new Sampler(model, runtime, defaults), [
      { prompt, weights, params: { maxTokens: 20, temperature: 0 } },
    ]);
    const { tokens, logprobs, stopReason } = result!.sequences[0]!;
    expect(tokens.length).toBe(20);
    expect(stopReason).toBe("length");
    await expectScores({ model, weights }, [...prompt, ...tokens], logprobs);
  });

  it.each(["decoding", "all"] as const)("joined and packed weights (%s) give the same tokens", async (packing) => {
    const request = { prompt, weights, numSamples: 3, params: { maxTokens: 20, seed: 5 } };
    const [plain] = await runAll(new Sampler(model, runtime, defaults), [request]);
    const [packed] = await runAll(new Sampler(model, runtime, { ...defaults, packing }), [request]);
    expect(packed!.sequences.map(({ tokens }) => [...tokens])).toEqual(
      plain!.sequences.map(({ tokens }) => [...tokens]),
    );
    for (const { sequences } of [plain!, packed!]) {
      await expectScores({ model, weights }, [...prompt, ...sequences[0]!.tokens], sequences[0]!.logprobs);
    }
  });

  it("scores the prompt: the first value is missing, top-1 is at least the token itself", async () => {
    const [result] = await runAll(new Sampler(model, runtime, defaults), [
      { prompt, weights, promptLogprobs: true, topkPromptLogprobs: 3, params: { maxTokens: 1, temperature: 0 } },
    ]);
    expect(result!.promptLogprobs![0]).toBeNaN();
    expect(result!.promptLogprobs!.length).toBe(prompt.length);
    await expectScores({ model, weights }, prompt, result!.promptLogprobs!.slice(1));
    const top = result!.topkPromptLogprobs!;
    expect([...top.tokenIds.subarray(0, 3), ...top.logprobs.subarray(0, 3)]).toEqual([0, 0, 0, -99999, -99999, -99999]);
    for (let i = 1; i < prompt.length; i++) {
      const row = [...top.logprobs.subarray(i * 3, i * 3 + 3)];
      expect(row).toEqual([...row].sort((a, b) => b - a));
      expect(row[0]!).toBeGreaterThanOrEqual(result!.promptLogprobs![i]! - 1e-6);
    }
  });

  // Up to 3 queries that share keys are one product each; sums over more than 128 columns are split.
  it.each([
    { heads: 1, kvHeads: 1, headDim: 2 },
    { heads: 3, kvHeads: 1, headDim: 128 },
    { heads: 4, kvHeads: 1, headDim: 130 },
    { heads: 5, kvHeads: 5, headDim: 6 },
    { heads: 16, kvHeads: 2, headDim: 6 },
    { heads: 2, kvHeads: 1, headDim: 256 },
    { heads: 1, kvHeads: 1, headDim: 258 },
  ])("decodes with $heads heads over $kvHeads of $headDim columns", async ({ heads, kvHeads, headDim }) => {
    const own = tinyModel({ num_attention_heads: heads, num_key_value_heads: kvHeads, head_dim: headDim });
    const given = { model: own, weights: adapterOf(own.config, 1) };
    const [result] = await runAll(new Sampler(own, runtime, defaults), [
      { prompt, weights: given.weights, params: { maxTokens: 40, seed: 1 } },
    ]);
    const { tokens, logprobs } = result!.sequences[0]!;
    await expectScores(given, [...prompt, ...tokens], logprobs);
  });

  it("scores prompts of a vocabulary so large that a run has few of them", async () => {
    const own = tinyModel({ vocab_size: 2 ** 18, max_position_embeddings: 1024 }); // 2 ** 23 logits per run: 32 rows
    const given = { model: own, weights: adapterOf(own.config, 1, 17) };
    const sampler = new Sampler(own, runtime, { ...defaults, contextLength: 1024 });
    for (const length of [32, 33, 65]) {
      const long = Array.from({ length }, (_, i) => (i * 7919) % 2 ** 18);
      const [result] = await runAll(sampler, [
        {
          prompt: long,
          weights: given.weights,
          promptLogprobs: true,
          topkPromptLogprobs: 1,
          params: { maxTokens: 1, temperature: 0 },
        },
      ]);
      if (length === 33) await expectScores(given, long, result!.promptLogprobs!.slice(1));
      const top = result!.topkPromptLogprobs!.logprobs;
      for (let i = 1; i < length; i++) {
        expect(Number.isFinite(result!.promptLogprobs![i]!)).toBe(true);
        expect(top[i]!).toBeGreaterThanOrEqual(result!.promptLogprobs![i]!);
      }
    }
  });

  it("lists none, one and all tokens of the vocabulary", async () => {
    const { vocabSize } = model.config;
    const sampler = new Sampler(model, runtime, defaults);
    for (const k of [0, 1, vocabSize - 1, vocabSize]) {
      const [result] = await runAll(sampler, [
        { prompt, weights, topkPromptLogprobs: k, topkSampleLogprobs: k, params: { maxTokens: 2, temperature: 0 } },
      ]);
      const rows = [
        ...(result!.topkPromptLogprobs ? [[...result!.topkPromptLogprobs.logprobs.subarray(k)]] : []),
        ...(result!.sequences[0]!.topkLogprobs ? [[...result!.sequences[0]!.topkLogprobs.logprobs]] : []),
      ];
      expect(rows.map(({ length }) => length)).toEqual(k === 0 ? [] : [k * (prompt.length - 1), k * 2]);
      for (const row of rows) {
        for (let start = 0; start < row.length; start += k) {
          const own = row.slice(start, start + k);
          expect(own).toEqual(own.toSorted((a, b) => b - a));
          const sum = own.reduce((total, logprob) => total + Math.exp(logprob), 0);
          if (k === vocabSize) expect(Math.abs(sum - 1)).toBeLessThan(vocabSize * 2 ** -20);
          else expect(sum).toBeLessThan(1);
        }
      }
    }
    await expect(runAll(sampler, [{ prompt, topkPromptLogprobs: vocabSize + 1 }])).rejects.toThrow(
      /topkPromptLogprobs/,
    );
  });

  it("answers nothing about the inside of a prompt that has none", async () => {
    const [result] = await runAll(new Sampler(model, runtime, defaults), [
      {
        prompt: [3],
        weights,
        numSamples: 2,
        promptLogprobs: true,
        topkPromptLogprobs: 2,
        promptAltTokensK: 2,
        params: { maxTokens: 2, seed: 1 },
      },
    ]);
    expect(result!.promptLogprobs).toEqual(Float32Array.of(Number.NaN));
    expect(result!.topkPromptLogprobs).toMatchObject({ tokenIds: new Int32Array(2) });
    expect(result!.promptAltTokens).toMatchObject({ k: 2, tokenIds: new Int32Array(0) });
    expect(result!.sequences.map(({ tokens }) => tokens.length)).toEqual([2, 2]);
  });

  it("needs no prefill for zero tokens beyond the prompt's own scores", async () => {
    const [result] = await runAll(new Sampler(model, runtime, defaults), [
      { prompt, promptLogprobs: true, params: { maxTokens: 0 } },
    ]);
    expect(result!.sequences).toEqual([
      { stopReason: "length", tokens: new Int32Array(0), logprobs: new Float32Array(0) },
    ]);
  });
});

describe("prompts of several runs", () => {
  const model = tinyModel({ model_type: "qwen3", max_position_embeddings: 1024, eos_token_id: null });
  const prompt = Array.from({ length: 600 }, (_, i) => (i * i) % 37);

  // Only the last run returns a distribution; the others return keys and values.
  it.each([
    ["all modules", {}],
    ["the unembedding alone", { trainAttn: false, trainMlp: false }],
    ["no unembedding", { trainUnembed: false }],
  ])("are sampled with adapters of any rank that train %s", async (_, trained) => {
    const sampler = new Sampler(model, runtime, { ...defaults, contextLength: 1024 });
    for (const rank of [16, 17, 32, 256]) {
      const weights = noisyAdapter(model.config, { rank, ...trained });
      const [result] = await runAll(sampler, [{ prompt, weights, numSamples: 2, params: { maxTokens: 3, seed: 1 } }]);
      for (const { tokens, logprobs } of result!.sequences) {
        expect(tokens).toHaveLength(3);
        expect(logprobs.every(Number.isFinite)).toBe(true);
      }
    }
  });
});

describe("prompts", () => {
  const model = tinyModel({ model_type: "llama", eos_token_id: null });
  const other = adapterOf(model.config, 1);
  const request = (prompt: number[], seed: number) => ({ prompt, params: { maxTokens: 8, seed } });

  it("of similar length share a run, with any adapters, and have the same results as alone", async () => {
    const requests: (SampleRequest & { weights?: Adapter })[] = [
      request([1, 2, 3], 1),
      request([4, 5, 6, 7, 8, 9, 10], 2),
      { ...request([7, 8, 9, 10], 3), weights: other },
      { ...request([3, 2], 4), numSamples: 2 },
    ];
    const sampler = new Sampler(model, runtime, defaults);
    const handles = requests.map(({ weights, ...each }) => sampler.submit(each, weights));
    await sampler.step();
    expect(sampler.stats).toMatchObject({ activeSequences: 4, waitingSequences: 1 }); // one is too long
    while (sampler.busy) await sampler.step();
    const together = await Promise.all(handles.map(({ result }) => result));
    for (const [i, each] of requests.entries()) {
      const [alone] = await runAll(new Sampler(model, runtime, defaults), [each]);
      expect(together[i]!.sequences, `request ${i}`).toEqual(alone!.sequences);
    }
  });

  it("that are scored are run alone", async () => {
    const sampler = new Sampler(model, runtime, defaults);
    const scored = sampler.submit({ ...request([1, 2, 3], 1), promptLogprobs: true }, undefined);
    const plain = sampler.submit(request([4, 5, 6], 2), undefined);
    await sampler.step();
    expect(sampler.stats).toMatchObject({ activeSequences: 1, waitingSequences: 1 });
    while (sampler.busy) await sampler.step();
    expect((await scored.result).promptLogprobs).toHaveLength(3);
    expect((await plain.result).promptLogprobs).toBeUndefined();
  });

  it("are not run ahead of what can start: the first come is the first served", async () => {
    const sampler = new Sampler(model, runtime, { ...defaults, maxBatch: 2 });
    const done: string[] = [];
    const submit = (name: string, numSamples: number): Promise<void> =>
      sampler.submit({ ...request([1, 2, 3], 1), numSamples }, undefined).result.then(() => void done.push(name));
    const all = [submit("three samples", 3), submit("one", 1), submit("another", 1)];
    await sampler.step();
    expect(sampler.stats).toMatchObject({ activeSequences: 2, waitingSequences: 3 + 1 + 1 });
    while (sampler.busy) await sampler.step();
    await Promise.all(all);
    expect(done.at(-1)).toBe("another"); // the third sample and "one" run side by side
  });
});

// Products of small models are not divided. This model is wide enough for the runtime to divide products among threads and to split sums.
describe("independence of a wider model on two threads", async () => {
  const { runtime: threaded = runtime } = await loadNativeRuntime(2);
  const model = tinyModel({
    model_type: "llama",
    ...wideShape,
    vocab_size: 512,
    eos_token_id: null,
  });
  const random = createRandom(3, "wide");
  const requests = (adapters: readonly (Adapter | undefined)[]) =>
    Array.from({ length: 20 }, (_, seed): SampleRequest & { weights?: Adapter } => {
      const weights = adapters[seed % adapters.length];
      return {
        prompt: Array.from({ length: 14 }, () => Math.floor(random() * 512)),
        params: { maxTokens: 6, seed },
        ...(weights ? { weights } : {}),
      };
    });

  it.each([
    ["the base model", [undefined]],
    ["one adapter", [adapterOf(model.config, 1, 16)]],
    [
      "adapters of several ranks",
      [undefined, ...[16, 24, 96, 8, 64].map((rank, i) => adapterOf(model.config, i, rank))],
    ],
  ])("%s", async (_, adapters) => {
    const given = requests(adapters);
    const together = await runAll(new Sampler(model, threaded, defaults), given);
    const sampler = new Sampler(model, threaded, defaults);
    for (const [i, each] of given.entries()) {
      const [alone] = await runAll(sampler, [each]);
      const [mine, own] = [together[i]!.sequences[0]!, alone!.sequences[0]!];
      expect(mine.tokens, `request ${i}`).toEqual(own.tokens);
      // Two units in the last place of a number between 4 and 8 (the log-sum-exp): the logarithms of several rows are computed in vectors.
      own.logprobs.forEach((value, j) => {
        expect(Math.abs(mine.logprobs[j]! - value), `request ${i}, token ${j}`).toBeLessThanOrEqual(2 * 2 ** -21);
      });
    }
  });
});

describe.each(["none", "decoding", "all"] as const)("independence, packed weights: %s", (packing) => {
  const model = tinyModel({ model_type: "qwen2", max_position_embeddings: 256, eos_token_id: null });
  const options = { ...defaults, contextLength: 256, packing };
  const adapters = [
    undefined,
    adapterOf(model.config, 1),
    adapterOf(model.config, 2, 5),
    adapterOf(model.config, 3, 2),
  ];
  const random = createRandom(9, "requests");
  const requests = Array.from({ length: 50 }, (_, i) => {
    const weights = adapters[i % adapters.length];
    return {
      prompt: Array.from({ length: 1 + Math.floor(random() * 40) }, () => Math.floor(random() * 37)),
      ...(weights ? { weights } : {}),
      numSamples: 1 + (i % 3),
      params: {
        maxTokens: 100,
        seed: 1000 + i,
        temperature: [1, 0.7, 1.3][i % 3]!,
        topK: i % 4 === 3 ? 8 : -1,
        topP: i % 5 === 4 ? 0.9 : 1,
      },
    };
  });

  it("10,000 tokens do not depend on what else is in the batch", async () => {
    const together = await runAll(new Sampler(model, runtime, options), requests);
    let tokens = 0;
    for (const [i, request] of requests.entries()) {
      const [alone] = await runAll(new Sampler(model, runtime, { ...options, maxBatch: 1 + (i % 2) }), [request]);
      alone!.sequences.forEach((sequence, s) => {
        expect([...together[i]!.sequences[s]!.tokens]).toEqual([...sequence.tokens]);
        sequence.logprobs.forEach((value, t) => {
          // Two units in the last place of the log-sum-exp, see above.
          expect(Math.abs(value - together[i]!.sequences[s]!.logprobs[t]!)).toBeLessThanOrEqual(2 * 2 ** -21);
        });
        tokens += sequence.tokens.length;
      });
    }
    expect(tokens).toBeGreaterThanOrEqual(9_900);
  }, 60_000);

  it("sample i of n is the sample of seed + i", async () => {
    const request = { prompt: [5, 6, 7], params: { maxTokens: 12, seed: 40 } };
    const [three] = await runAll(new Sampler(model, runtime, options), [{ ...request, numSamples: 3 }]);
    const [last] = await runAll(new Sampler(model, runtime, options), [
      { ...request, params: { maxTokens: 12, seed: 42 } },
    ]);
    expect(three!.sequences[2]!.tokens).toEqual(last!.sequences[0]!.tokens);
    expect(three!.sequences[0]!.tokens).not.toEqual(three!.sequences[1]!.tokens);
  });

  it("draws a seed and reports it", async () => {
    const request = { prompt: [5, 6, 7], params: { maxTokens: 12 } };
    const [first] = await runAll(new Sampler(model, runtime, options), [request]);
    const [again] = await runAll(new Sampler(model, runtime, options), [
      { ...request, params: { maxTokens: 12, seed: first!.seed } },
    ]);
    expect(again!.sequences[0]!.tokens).toEqual(first!.sequences[0]!.tokens);
  });
});

describe("a failure is its own request's", () => {
  const model = tinyModel({ eos_token_id: null });
  const request = (prompt: number[], seed = 1): SampleRequest => ({ prompt, params: { maxTokens: 12, seed } });
  const alone = async (each: SampleRequest) => (await runAll(new Sampler(model, runtime, defaults), [each]))[0];
  /** The results or errors of all requests, run together. */
  const settle = async (sampler: Sampler, handles: readonly { result: Promise<SampleResult> }[]) => {
    const settled = Promise.allSettled(handles.map(({ result }) => result));
    while (sampler.busy) await sampler.step();
    return settled;
  };

  it("an adapter that is not finite is rejected in any batch", async () => {
    const broken = adapterOf(model.config, 1);
    broken.values[5] = Number.NaN;
    const sampler = new Sampler(model, runtime, defaults);
    const handles = [sampler.submit(request([1, 2]), undefined), sampler.submit(request([3, 4]), broken)];
    const [fine, refused] = await settle(sampler, handles);
    expect(fine).toEqual({ status: "fulfilled", value: await alone(request([1, 2])) });
    expect(refused).toMatchObject({ status: "rejected", reason: { code: "not_finite", field: "adapter" } });
  });

  it("one whose numbers overflow fails alone, and leaves nothing behind for those that follow in its place", async () => {
    const huge = adapterOf(model.config, 1);
    huge.values.fill(1e19);
    const sampler = new Sampler(model, runtime, defaults);
    // The neighbour starts first and stays; the next request gets the failed one's row.
    const stays = sampler.submit({ prompt: [1, 2], params: { maxTokens: 20, seed: 1 } }, undefined);
    for (let i = 0; i < 3; i++) await sampler.step();
    const handles = [stays, sampler.submit(request([3, 4, 5, 6, 7, 8]), huge)];
    const [, broken] = await settle(sampler, handles);
    expect(broken).toMatchObject({ status: "rejected", reason: { code: "not_finite" } });
    const followers = [request([5, 6], 7), request([8, 9], 8)];
    const results = await settle(
      sampler,
      followers.map((each) => sampler.submit(each, undefined)),
    );
    for (const [i, each] of followers.entries()) {
      expect(results[i]).toEqual({ status: "fulfilled", value: await alone(each) });
    }
    expect((await stays.result).sequences).toEqual(
      (await alone({ prompt: [1, 2], params: { maxTokens: 20, seed: 1 } }))!.sequences,
    );
  });

  it("a missing tokenizer fails the request with a stop text, not the prompts beside it", async () => {
    const sampler = new Sampler(model, runtime, defaults);
    const stop = { prompt: [3, 4], params: { maxTokens: 12, stop: "x" } };
    for (const order of [
      [request([1, 2]), stop],
      [stop, request([1, 2])],
    ]) {
      const results = await settle(
        sampler,
        order.map((each) => sampler.submit(each, undefined)),
      );
      const [fine, failed] = order[0] === stop ? results.toReversed() : results;
      const value = { ...(await alone(request([1, 2]))), promptCacheHitTokens: expect.any(Number) };
      expect(fine).toEqual({ status: "fulfilled", value });
      expect(failed).toMatchObject({ status: "rejected", reason: { field: "params.stop" } });
    }
  });

  it("a listener that throws ends its own request; the others get their tokens", async () => {
    const sampler = new Sampler(model, runtime, defaults);
    let heard = 0;
    const results = await settle(sampler, [
      sampler.submit(request([1, 2]), undefined, {
        onToken: () => {
          if (++heard === 3) throw new Error("listener");
        },
      }),
      sampler.submit(request([3, 4], 2), undefined),
    ]);
    expect(results[0]).toMatchObject({ status: "rejected", reason: { message: "listener" } });
    expect(heard).toBe(3);
    expect(results[1]).toEqual({ status: "fulfilled", value: await alone(request([3, 4], 2)) });
  });

  it("a run that fails fails what it ran, waiting samples of the same request included; later ones work", async () => {
    let failing = false;
    let runs = 0;
    const flaky: typeof runtime = {
      ...runtime,
      compile: async (...args) => {
        const program = await runtime.compile(...args);
        return {
          dispose: () => program.dispose(),
          run: (inputs) => {
            runs++;
            return failing ? Promise.reject(new Error("run failed")) : program.run(inputs);
          },
        };
      },
    };
    const sampler = new Sampler(model, flaky, { ...defaults, maxBatch: 2 });
    const many = sampler.submit({ ...request([1, 2]), numSamples: 5 }, undefined);
    for (let i = 0; i < 4; i++) await sampler.step();
    failing = true;
    await sampler.step();
    failing = false;
    const before = runs;
    const [failed] = await settle(sampler, [many]);
    expect(failed).toMatchObject({ status: "rejected", reason: { message: "run failed" } });
    expect(runs).toBe(before);
    const [next] = await settle(sampler, [sampler.submit(request([3, 4]), undefined)]);
    expect(next).toEqual({ status: "fulfilled", value: await alone(request([3, 4])) });
  });

  it("a scope with nothing in a full batch begins at the next step; others wait for an end", async () => {
    const sampler = new Sampler(model, runtime, { ...defaults, maxBatch: 2 });
    const long = (first: number, scope: string) => ({
      ...request([first, 2]),
      params: { maxTokens: 40, seed: first },
      scope,
    });
    const drawn: number[] = [];
    const count = (index: number) => {
      drawn[index] = (drawn[index] ?? 0) + 1;
    };
    const submit = (asked: SampleRequest, index: number) =>
      sampler.submit(asked, undefined, { onToken: () => count(index) });
    const asked = [
      long(1, "a"),
      { ...long(2, "a"), numSamples: 3 }, // one of them begins, and two wait
      long(3, "a"),
      long(4, "b"),
      long(5, "b"),
      { ...long(6, "c"), numSamples: 2 },
    ];
    const handles = asked.slice(0, 2).map(submit);
    while (sampler.stats.activeSequences < 2) await sampler.step();
    await sampler.step();
    const before = drawn[0]!;
    handles.push(...asked.slice(2).map((each, i) => submit(each, 2 + i)));
    for (const guest of [3, 5]) {
      await sampler.step(); // its prompt, and with it its first token
      expect(drawn[guest]).toBe(1);
    }
    await sampler.step();
    expect([drawn[0], drawn[3], drawn[5]]).toEqual([before + 1, 2, 2]); // one token for each, and c's second sample waits
    expect([drawn[2], drawn[4], sampler.stats.activeSequences]).toEqual([undefined, undefined, 4]);
    while (sampler.busy) await sampler.step();
    const results = await Promise.all(handles.map(({ result }) => result));
    for (const [i, { sequences }] of results.entries()) {
      expect(sequences).toEqual((await alone(asked[i]!))!.sequences);
    }
  });

  it("guests are few", async () => {
    const sampler = new Sampler(model, runtime, { ...defaults, maxBatch: 2 });
    const handles = Array.from({ length: 20 }, (_, i) =>
      sampler.submit({ ...request([1 + i]), params: { maxTokens: 30, seed: i }, scope: `scope ${i}` }, undefined),
    );
    let most = 0;
    while (sampler.busy) {
      await sampler.step();
      most = Math.max(most, sampler.stats.activeSequences);
    }
    await Promise.all(handles.map(({ result }) => result));
    expect(most).toBe(2 + 8);
  });

  it("rows that many short sequences needed are not lengthened for one long one", async () => {
    const sampler = new Sampler(model, runtime, defaults);
    await runAll(
      sampler,
      Array.from({ length: 32 }, (_, i) => ({ prompt: [1 + i], params: { maxTokens: 2 } })),
    );
    await runAll(sampler, [{ prompt: [1], params: { maxTokens: 60 } }]);
    expect(sampler.stats.cacheBytes).toBeLessThanOrEqual(KvCache.bytesFor(model.config, 2, 64));
  });
});

describe("ends", () => {
  const model = tinyModel();
  const greedy = { maxTokens: 30, temperature: 0 };
  const run = async (request: Partial<SampleRequest>, options: Partial<SamplerOptions> = {}): Promise<number[]> => {
    const [result] = await runAll(new Sampler(model, runtime, { ...defaults, ...options }), [
      { prompt: [7, 8], params: greedy, ...request },
    ]);
    return [...result!.sequences[0]!.tokens];
  };

  it("stops at end-of-sequence and at stop tokens, which are kept", async () => {
    const free = await run({});
    const stop = free[5]!;
    const upTo = free.slice(0, free.indexOf(stop) + 1);
    expect(await run({}, { eosTokenIds: [stop] })).toEqual(upTo);
    expect(await run({ params: { ...greedy, stop: [stop] } })).toEqual(upTo);
  });

  it("stops when a text appears, also across tokens", async () => {
    const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJK";
    const tokenizer = {
      decode: (ids: readonly number[]) => ids.map((id) => letters[id]).join(""),
      tokenBytes: (id: number) => new TextEncoder().encode(letters[id]),
      isSpecial: () => false,
    } as unknown as Tokenizer;
    const free = await run({});
    const text = tokenizer.decode(free);
    const stop = text.slice(4, 7);
    const options = { tokenizer: () => Promise.resolve(tokenizer) };
    expect(tokenizer.decode(await run({ params: { ...greedy, stop } }, options))).toBe(
      text.slice(0, text.indexOf(stop) + 3),
    );
    await expect(run({ params: { ...greedy, stop: "never" } })).rejects.toThrow(/need a tokenizer/);
    await expect(run({ params: { ...greedy, stop: [""] } }, options)).rejects.toThrow(/must not be empty/);
  });

  it("fills the rest of the context when max_tokens is absent", async () => {
    expect((await run({ params: { temperature: 0 } }, { contextLength: 20 })).length).toBe(18);
  });

  it("streams tokens and can be cancelled between two of them", async () => {
    const sampler = new Sampler(model, runtime, defaults);
    const events: number[] = [];
    const other = sampler.submit({ prompt: [1], params: greedy }, undefined);
    const handle = sampler.submit({ prompt: [7, 8], params: greedy }, undefined, {
      onToken: ({ token }) => {
        if (events.push(token) === 4) handle.cancel(new Error("enough"));
      },
    });
    handle.result.catch(() => {});
    while (sampler.busy) await sampler.step();
    await expect(handle.result).rejects.toThrow("enough");
    expect(events).toEqual((await run({})).slice(0, 4));
    expect((await other.result).sequences[0]!.tokens.length).toBe(30);
  });

  it("samples that are cancelled while they run take no part in the next step, and each of them ends", async () => {
    const total = 64;
    const sampler = new Sampler(model, runtime, { ...defaults, maxBatch: total });
    const drawn = new Int32Array(total);
    const handles = Array.from({ length: total }, (_, i) =>
      sampler.submit({ prompt: [7, i % 8], params: { maxTokens: 6, seed: i } }, undefined, {
        onToken: () => void drawn[i]!++,
      }),
    );
    while (sampler.stats.activeSequences < total) await sampler.step();
    const ends = handles.map(({ result }) => result.then(({ sequences }) => sequences[0]!.tokens.length, String));
    for (let i = 0; i < total; i += 2) handles[i]!.cancel(`given up ${i}`);
    const before = drawn.slice();
    await sampler.step(); // their rows are given back before anything is computed
    expect(sampler.stats.activeSequences).toBe(total / 2);
    expect([...drawn].map((count, i) => count - before[i]!)).toEqual(Array.from(drawn, (_, i) => i % 2));
    while (sampler.busy) await sampler.step();
    expect(await Promise.all(ends)).toEqual(ends.map((_, i) => (i % 2 === 0 ? `given up ${i}` : 6)));
    expect(sampler.stats).toMatchObject({ activeSequences: 0, waitingSequences: 0 });
  });

  const first = async (params: SamplingParams, of = model): Promise<SampledSequence> => {
    const [result] = await runAll(new Sampler(of, runtime, defaults), [{ prompt: [7, 8], params }]);
    return result!.sequences[0]!;
  };

  it.each([1e-37, 1e-38, 1e-45, 5e-324])("a temperature of %s is as good as 0", async (temperature) => {
    const cold = await first({ maxTokens: 12, temperature: 0 });
    for (const choice of [{}, { topP: 0.9 }, { topK: 3 }]) {
      expect(await first({ temperature, maxTokens: 12, seed: 3, ...choice })).toEqual(cold);
    }
  });

  it("logits that overflow at a low temperature leave the choice to the largest", async () => {
    const large = { ...model, weights: new Map(model.weights) };
    const norm = model.weights.get("model.norm.weight")!;
    large.weights.set("model.norm.weight", { ...norm, data: norm.data.map((x) => x * 1e20) });
    const cold = await first({ maxTokens: 6, temperature: 0 }, large);
    expect(await first({ maxTokens: 6, temperature: 1e-25, topP: 0.9 }, large)).toEqual(cold);
  });

  it("refuses what makes no sense, by name", async () => {
    for (const [request, message] of [
      [{ prompt: [] }, /prompt: is empty/],
      [{ prompt: [99] }, /prompt\[0\]: token 99/],
      [{ params: { temperature: -1 } }, /params\.temperature/],
      [{ params: { topP: 0 } }, /params\.topP/],
      [{ params: { topK: 1.5 } }, /params\.topK/],
      [{ numSamples: 0 }, /numSamples/],
      [{ params: { stop: ["a", 1] as unknown as string[] } }, /not both/],
    ] as const) {
      await expect(run(request as Partial<SampleRequest>)).rejects.toThrow(message);
    }
    await expect(run({}, { cacheBytes: 100 })).rejects.toThrow(/memory budget/);
  });
});

describe("pick", () => {
  const probabilities = Float32Array.of(0.1, 0.4, 0.05, 0.3, 0.15);

  it("is the inverse of the distribution function", () => {
    const counts = new Float64Array(5);
    for (let i = 0; i < 10_000; i++) counts[chooseToken(probabilities, { topK: -1, topP: 1 }, (i + 0.5) / 10_000)]!++;
    counts.forEach((count, id) => {
      expect(count / 10_000).toBeCloseTo(probabilities[id]!, 3);
    });
  });

  it("finds in a long vocabulary what a plain walk finds, and never an id without weight", () => {
    const random = createRandom(3, "weights");
    for (const size of [255, 256, 257, 1000, 2049]) {
      const weights = Float32Array.from({ length: size }, (_, i) => (i % 3 === 0 || i > size - 5 ? 0 : random()));
      let total = 0;
      for (const weight of weights) total += weight;
      for (const at of [0, 1e-9, ...Array.from({ length: 300 }, random), 1 - 2 ** -53]) {
        let running = 0;
        const plain = weights.findIndex((weight) => {
          running += weight;
          return running > at * total;
        });
        const found = chooseToken(weights, { topK: -1, topP: 1 }, at);
        expect(weights[found]).toBeGreaterThan(0);
        if (at < 1 - 1e-12) expect(found, `${at} of ${size}`).toBe(plain);
      }
    }
  });

  it("keeps the k best, then the smallest set that holds p", () => {
    const all = (topK: number, topP: number): number[] =>
      [...new Set(Array.from({ length: 1000 }, (_, i) => chooseToken(probabilities, { topK, topP }, i / 1000)))].sort();
    expect(all(2, 1)).toEqual([1, 3]);
    expect(all(-1, 0.69)).toEqual([1, 3]);
    expect(all(-1, 0.71)).toEqual([1, 3, 4]);
    expect(all(3, 0.5)).toEqual([1, 3]); // shares of what top-k left: 0.47, 0.82
    expect(all(-1, 1e-9)).toEqual([1]);
    expect(all(1, 1)).toEqual([1]);
  });

  it("finds the k best without sorting all, of equals the smaller ids", () => {
    const random = createRandom(4, "ties");
    const weights = Float32Array.from({ length: 3000 }, () => Math.floor(random() * 50) / 1000);
    const order = [...weights.keys()].sort((a, b) => weights[b]! - weights[a]! || a - b);
    for (const k of [1, 2, 40, 512, 513, 2999, 5000]) {
      // Above 512, every draw sorts all tokens, which is slow: a few draws are sufficient.
      // Below, evenly spaced draws, two per token, reach each of the k: no weight is less than half of the mean.
      const draws = k > 512 ? 40 : 2 * k;
      const found = new Set(
        Array.from({ length: draws }, (_, i) => chooseToken(weights, { topK: k, topP: 1 }, i / draws)),
      );
      const expected = new Set(order.slice(0, k));
      expect([...found].filter((id) => !expected.has(id))).toEqual([]);
      if (k <= 512) expect(found.size).toBe(k);
    }
  });
});
