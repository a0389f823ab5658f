/** Many long conversations over a runtime that computes nothing: memory use does not grow. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import type { Program, Runtime, Value } from "../runtime/runtime.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import { Sampler } from "./sampler.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

const model = tinyModel({ num_hidden_layers: 1, max_position_embeddings: 1024, eos_token_id: null });
const { vocabSize, kvHeads, headDim } = model.config;
const floats = (length: number, fill = 0): Value => ({ data: new Float32Array(length).fill(fill), dims: [length] });
/** Every distribution is uniform, all keys and values are zeros. */
const program: Program = {
  run: (inputs) => {
    const [tokens, rows] = [inputs["tokens"]!.dims[0]!, inputs["rows"]!.dims[0]!];
    return Promise.resolve({
      "k.0": floats(tokens * kvHeads * headDim),
      "v.0": floats(tokens * kvHeads * headDim),
      logits: floats(rows * vocabSize),
      probabilities: floats(rows * vocabSize, 1 / vocabSize),
      "largest.logit": floats(rows),
      "largest.probability": floats(rows, 1 / vocabSize),
    });
  },
  dispose: () => Promise.resolve(),
};
const idle: Runtime = { name: "interpreter", threads: 1, compile: () => Promise.resolve(program) };

it("1,000 conversations of 50 turns leave the heap flat and the cache within its share", async () => {
  const cacheBytes = 400_000;
  const sampler = new Sampler(model, idle, {
    contextLength: 1024,
    maxBatch: 8,
    cacheBytes,
    eosTokenIds: [],
    packing: "none",
  });
  let most = 0;
  let leastFound = Infinity;
  /** Each prompt repeats the conversation; replies differ between conversations. */
  const talk = async (conversation: number): Promise<number> => {
    let prompt = [conversation % 37, Math.floor(conversation / 37) % 37, 5];
    let hits = 0;
    for (let turn = 0; turn < 50; turn++) {
      // Only some turns decode, because decoding copies the whole conversation; the prefix cache is filled by prefill.
      const maxTokens = turn % 10 === 0 ? 2 : 1;
      const { result } = sampler.submit({ prompt, params: { maxTokens, seed: turn } }, undefined);
      while (sampler.busy) await sampler.step();
      const { sequences, promptCacheHitTokens } = await result;
      hits += promptCacheHitTokens;
      prompt = [...prompt, ...sequences[0]!.tokens, turn % 37, conversation % 31, 1, 2, 3, 4];
      const { cacheBytes: decoding, prefixCacheBytes } = sampler.stats;
      most = Math.max(most, decoding + prefixCacheBytes);
    }
    return hits;
  };
  const heldAfter = async (from: number, to: number): Promise<number> => {
    for (let conversation = from; conversation < to; conversation++) {
      leastFound = Math.min(leastFound, await talk(conversation));
    }
    // Buffers are freed asynchronously to a collection, some only by the next one.
    for (let i = 0; i < 4; i++) {
      collectGarbage();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const early = await heldAfter(0, 100);
  const late = await heldAfter(100, 1000);
  expect(most).toBeLessThanOrEqual(cacheBytes);
  expect(leastFound).toBeGreaterThan(0);
  // A conversation's blocks are 50 × 8 tokens: without eviction, 900 conversations would take a hundred times this.
  expect(late - early).toBeLessThan(1_000_000);
}, 300_000);
