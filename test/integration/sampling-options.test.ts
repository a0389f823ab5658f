/** What a sample can tell beside its tokens, on the bundled model: the same numbers as a full forward pass, whatever else is in the batch. */
import { type Engine, openEngine, type SampleRequest, type SampleResult } from "@tinklet/engine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { modelPath } from "../../packages/base-model/index.js";

const vocabSize = 4096;
const tolerance = 1e-4;
const text = (length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => 10 + ((i * 7919 + seed * 104_729 + (i % 13) * seed) % (vocabSize - 10)));

describe("sampling options, against a full forward pass", () => {
  let engine: Engine;
  const adapters: (string | undefined)[] = [undefined];
  beforeAll(async () => {
    engine = await openEngine(modelPath, { threads: 1 });
    for (const [seed, rank] of [
      [1, 4],
      [2, 8],
    ] as const) {
      const { adapterId } = await engine.createAdapter({ rank, seed, trainUnembed: seed === 1 });
      const tokens = text(40, seed);
      for (let step = 0; step < 3; step++) {
        void engine.forwardBackward(adapterId, {
          lossFn: "cross_entropy",
          data: [{ tokens: tokens.slice(0, -1), lossFnInputs: { target_tokens: { data: tokens.slice(1) } } }],
        });
        await engine.optimStep(adapterId, { learningRate: 0.01 });
      }
      adapters.push(adapterId);
    }
  }, 60_000);
  afterAll(() => engine.close());

  /** The log-prob of every token of the vocabulary after each token of a sequence. */
  const everything = async (adapter: string | undefined, tokens: readonly number[]): Promise<Float32Array[]> => {
    const all = Int32Array.from({ length: vocabSize }, (_, id) => id);
    const targets = new Int32Array(tokens.length * vocabSize);
    for (let row = 0; row < tokens.length; row++) targets.set(all, row * vocabSize);
    const { lossFnOutputs } = await engine.forward(adapter ?? null, {
      lossFn: "cross_entropy",
      data: [{ tokens, lossFnInputs: { target_tokens: { data: targets, shape: [tokens.length, vocabSize] } } }],
    });
    const { data } = lossFnOutputs[0]!.logprobs;
    return tokens.map((_, row) => data.subarray(row * vocabSize, (row + 1) * vocabSize));
  };

  const targetsOf = (prompt: readonly number[]) => {
    const cells = prompt.slice(1).flatMap((token, i) => [
      { position: i + 1, token },
      { position: i + 1, token: (token * 31 + i) % vocabSize },
    ]);
    return {
      positions: Int32Array.from(cells, ({ position }) => position),
      tokens: Int32Array.from(cells, ({ token }) => token),
    };
  };

  const asked = (prompt: number[], adapter: string | undefined, seed: number): SampleRequest => ({
    prompt,
    ...(adapter === undefined ? {} : { adapter }),
    params: { maxTokens: 6, seed, temperature: 0.8, stop: [] },
    promptLogprobs: true,
    topkSampleLogprobs: 5,
    targetPromptLogprobs: targetsOf(prompt),
    promptAltTokensK: 3,
  });

  const check = async (request: SampleRequest, result: SampleResult): Promise<void> => {
    const prompt = [...request.prompt];
    const [sequence] = result.sequences;
    const tokens = [...prompt, ...sequence!.tokens];
    const rows = await everything(request.adapter, tokens.slice(0, -1));
    const near = (value: number, expected: number): void =>
      expect(Math.abs(value - expected)).toBeLessThanOrEqual(tolerance);
    const { positions, tokens: targets } = request.targetPromptLogprobs!;
    expect(result.targetPromptLogprobs!.length).toBe(targets.length);
    targets.forEach((token, cell) => {
      near(result.targetPromptLogprobs![cell]!, rows[positions[cell]! - 1]![token]!);
    });
    for (let i = 1; i < prompt.length; i++) near(result.promptLogprobs![i]!, rows[i - 1]![prompt[i]!]!);
    const { k, tokenIds, logprobs } = sequence!.topkLogprobs!;
    expect([k, tokenIds.length]).toEqual([5, 5 * sequence!.tokens.length]);
    sequence!.tokens.forEach((_, at) => {
      const row = rows[prompt.length - 1 + at]!;
      const ids = [...tokenIds.subarray(at * k, (at + 1) * k)];
      ids.forEach((id, i) => {
        near(logprobs[at * k + i]!, row[id]!);
        if (i > 0) expect(logprobs[at * k + i]!).toBeLessThanOrEqual(logprobs[at * k + i - 1]!);
      });
      const least = Math.min(...ids.map((id) => row[id]!));
      const likelier = row.reduce((count, value) => count + (value > least + tolerance ? 1 : 0), 0);
      expect(likelier).toBeLessThan(k);
      expect(new Set(ids).size).toBe(k);
    });
    const drawn = result.promptAltTokens!;
    expect(drawn.tokenIds.length).toBe((prompt.length - 1) * drawn.k);
    drawn.tokenIds.forEach((token, cell) => {
      near(drawn.logprobs[cell]!, rows[Math.floor(cell / drawn.k)]![token]!);
    });
  };

  it("topk_sample_logprobs, target_prompt_logprobs and prompt_alt_tokens_k agree, for adapters and the base, in any batch", async () => {
    const requests = [9, 66].flatMap((length, i) =>
      adapters.map((adapter, j) => asked(text(length, 5 + i), adapter, 10 * i + j)),
    );
    const company = [3, 40].map((length) => engine.sample({ prompt: text(length, 1), params: { maxTokens: 30 } }));
    const together = await Promise.all(requests.map((request) => engine.sample(request)));
    await Promise.all(company);
    for (const [i, request] of requests.entries()) await check(request, together[i]!);
    // and alone the same as in company
    const alone = await engine.sample(requests[4]!);
    expect(alone.targetPromptLogprobs).toEqual(together[4]!.targetPromptLogprobs);
    expect(alone.promptAltTokens).toEqual(together[4]!.promptAltTokens);
  }, 120_000);

  it("draws alternatives at the request's temperature: at 0 the most likely, else in proportion", async () => {
    const prompt = text(12, 3);
    const draw = async (temperature: number, promptAltTokensK: number) =>
      (await engine.sample({ prompt, promptAltTokensK, params: { maxTokens: 1, temperature, seed: 4 } }))
        .promptAltTokens!;
    const greedy = await draw(0, 2);
    const rows = await everything(undefined, prompt);
    for (let row = 0; row < prompt.length - 1; row++) {
      const best = rows[row]!.indexOf(Math.max(...rows[row]!));
      expect([...greedy.tokenIds.subarray(row * 2, row * 2 + 2)]).toEqual([best, best]);
    }
    const k = 2000;
    const many = await draw(1, k);
    for (let row = 0; row < prompt.length - 1; row++) {
      const best = greedy.tokenIds[row * 2]!;
      const probability = Math.exp(rows[row]![best]!);
      const seen = many.tokenIds.subarray(row * k, (row + 1) * k).filter((token) => token === best).length / k;
      // five standard deviations of a share of k draws
      expect(Math.abs(seen - probability)).toBeLessThan(5 * Math.sqrt((probability * (1 - probability)) / k) + 1e-9);
    }
  }, 60_000);

  it("prompt_logprobs_last_n leaves out the tokens before, and nothing else", async () => {
    const prompt = text(150, 8);
    const request = { ...asked(prompt, adapters[1], 3), topkPromptLogprobs: 2 };
    const whole = await engine.sample(request);
    for (const n of [1, 64, 100, 149]) {
      const part = await engine.sample({ ...request, promptLogprobsLastN: n });
      const first = prompt.length - n;
      expect(part.promptLogprobs!.subarray(0, first).every(Number.isNaN)).toBe(true);
      part.promptLogprobs!.subarray(first).forEach((value, i) => {
        expect(Math.abs(value - whole.promptLogprobs![first + i]!)).toBeLessThanOrEqual(tolerance);
      });
      const top = part.topkPromptLogprobs!;
      expect(top.logprobs.subarray(0, first * 2).every((value) => value === -99999)).toBe(true);
      expect(top.tokenIds.subarray(first * 2)).toEqual(whole.topkPromptLogprobs!.tokenIds.subarray(first * 2));
      part.targetPromptLogprobs!.forEach((value, i) => {
        expect(Math.abs(value - whole.targetPromptLogprobs![i]!)).toBeLessThanOrEqual(tolerance);
      });
      expect(part.promptAltTokens!.tokenIds).toEqual(whole.promptAltTokens!.tokenIds);
    }
  }, 60_000);

  it("stop: [] goes on beyond the model's own end", async () => {
    const [end] = engine.info.eosTokenIds;
    const { adapterId } = await engine.createAdapter({ rank: 8, seed: 9 });
    const prompt = text(8, 2);
    for (let step = 0; step < 20; step++) {
      void engine.forwardBackward(adapterId, {
        lossFn: "cross_entropy",
        data: [{ tokens: prompt, lossFnInputs: { target_tokens: { data: prompt.map(() => end!) } } }],
      });
      await engine.optimStep(adapterId, { learningRate: 0.02 });
    }
    const draw = async (stop?: number[]) =>
      (
        await engine.sample({
          prompt,
          adapter: adapterId,
          params: { maxTokens: 5, temperature: 0, ...(stop === undefined ? {} : { stop }) },
        })
      ).sequences[0]!;
    expect(await draw()).toMatchObject({ stopReason: "stop", tokens: Int32Array.of(end!) });
    expect(await draw([7])).toMatchObject({ stopReason: "stop", tokens: Int32Array.of(end!) });
    const on = await draw([]);
    expect(on.stopReason).toBe("length");
    expect([...on.tokens.slice(0, 1), on.tokens.length]).toEqual([end!, 5]);
  }, 60_000);

  it("refuses targets that are not in the prompt or not in the vocabulary", async () => {
    const prompt = [5, 6, 7];
    const refused = (position: number, token: number) =>
      engine.sample({
        prompt,
        targetPromptLogprobs: { positions: Int32Array.of(position), tokens: Int32Array.of(token) },
      });
    await expect(refused(0, 5)).rejects.toThrow(/position 0 is not within 1 … 2/);
    await expect(refused(3, 5)).rejects.toThrow(/position 3/);
    await expect(refused(1, vocabSize)).rejects.toThrow(/not in the vocabulary/);
  });
});
