/** A token has equal bits in prompt runs of any length with any other tokens: the prefix cache depends on this. */
import { describe, expect, it } from "vitest";
import type { LoadedModel } from "../model/load.ts";
import { createRandom } from "../random.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import { noisyAdapter } from "../testing/noisy-adapter.ts";
import { tinyModel, wideShape } from "../testing/tiny-model.ts";
import { Extender } from "./extender.ts";
import { joinedForPrompts } from "./fused.ts";
import { type HostBlock, recut, takeBlocks } from "./kv-block.ts";
import { startsOf } from "./prefill-inputs.ts";
import { keyStep, rowLimits } from "./run-rows.ts";

const runtimes = [(await loadNativeRuntime(2)).runtime, (await loadNativeRuntime(4)).runtime, await loadWasmRuntime(1)];
const shape = { model_type: "qwen3", max_position_embeddings: 1024, ...wideShape, vocab_size: 512 };
const usual = tinyModel(shape);
/** Narrow, so that the maximum and the minimum rows of a run are close. */
const narrow = tinyModel({
  ...shape,
  hidden_size: 45,
  num_attention_heads: 6,
  head_dim: 10,
  intermediate_size: 139,
  vocab_size: 512,
});
/** Heads with sums that are long enough to be split. */
const wideHeads = tinyModel({ ...shape, head_dim: 192, num_attention_heads: 2 });
const random = createRandom(1, "run-rows");
const prompt = Int32Array.from({ length: 450 }, () => Math.floor(random() * 512));
const other = prompt.map((token) => 511 - token);

/** The prompt's keys, values and final logits, computed in runs of the given lengths, each together with tokens of another prompt. */
const compute = async (
  { extender, model: { config } }: { readonly extender: Extender; readonly model: LoadedModel },
  sizes: readonly number[],
  beside: number,
) => {
  const adapter = noisyAdapter(config, { rank: 16, seed: 1 });
  const made: HostBlock[] = [];
  let logits = new Float32Array();
  for (let [at, run] = [0, 0]; at < prompt.length; run++) {
    const length = Math.min(sizes[run % sizes.length]!, prompt.length - at, extender.rowLimits.most - beside);
    const neighbour = { past: [], tokens: other.subarray(0, beside), adapter: run % 2 ? adapter : undefined };
    const own = { past: [...made], tokens: prompt.subarray(at, at + length), adapter };
    const pieces = beside === 0 ? [own] : [neighbour, own];
    const start = startsOf(pieces).at(-1)!;
    const result = await extender.prefill({
      pieces,
      rows: Int32Array.of(start + length - 1),
      coldness: Float32Array.of(1),
    });
    made.push(...takeBlocks(config, { ...result, start, length }, length));
    logits = result.logits.slice();
    at += length;
  }
  return { keysAndValues: recut(config, made, prompt.length)[0]!.data, logits };
};

const cases = runtimes.flatMap((runtime) =>
  [["usual heads", usual] as const, ["wide heads", wideHeads] as const, ["narrow linears", narrow] as const]
    // WebAssembly has one thread here: it splits no sums, and computes wide heads like others.
    .filter(([, model]) => runtime?.name === "native" || model === usual)
    .flatMap(([heads, model]) =>
      (["decoding", "all"] as const).flatMap((packing) =>
        runtime ? [{ name: runtime.name, threads: runtime.threads, heads, packing, runtime, model }] : [],
      ),
    ),
);

describe.each(cases)("$heads on $name with $threads threads, packed: $packing", ({ packing, runtime, model }) => {
  it("keys, values and logits do not depend on where runs begin and end, nor on what runs beside them", async () => {
    const extender = new Extender(model, runtime, { packing });
    const { most } = extender.rowLimits;
    const expected = await compute({ extender, model }, [most], 0);
    for (const [sizes, beside] of [
      [[64], 0],
      [[most - 1, 1, 2], 0],
      [[3, 5, 60, 1], 0],
      [[1, 100, 17], 20],
      [[33], Math.min(90, most - 1)],
      [[most, 16], 1],
      [[keyStep - 1, 1, keyStep, 1], 0],
    ] as const) {
      const actual = await compute({ extender, model }, sizes, beside);
      // Compared as bytes: a list of differences would be too long.
      expect(Buffer.compare(bytes(actual.logits), bytes(expected.logits)), `logits, runs of ${sizes}`).toBe(0);
      const same = Buffer.compare(bytes(actual.keysAndValues), bytes(expected.keysAndValues));
      expect(same, `keys and values, runs of ${sizes} beside ${beside}`).toBe(0);
    }
    await extender.dispose();
  });
});

const bytes = (values: Float32Array): Buffer => Buffer.from(values.buffer, values.byteOffset, values.byteLength);

const { config } = usual;

it("has fewer rows than the narrowest linear with long sums has columns, and enough for all threads", () => {
  expect(rowLimits(config, 2)).toEqual({ fewest: 4, most: 255, fewestOfHead: 2 });
  expect(rowLimits(config, 4)).toEqual({ fewest: 12, most: 255, fewestOfHead: 6 });
  expect(rowLimits(config, 64).fewest).toBe(252);
  expect(rowLimits(config, 1)).toEqual({ fewest: 2, most: 256, fewestOfHead: 2 });
  expect(rowLimits({ ...config, hiddenSize: 2048, heads: 16, kvHeads: 8, headDim: 128 }, 2).most).toBe(256);
  expect(rowLimits({ ...config, vocabSize: 100 }, 2)).toEqual({ fewest: 4, most: 99, fewestOfHead: 11 });
  expect(rowLimits(narrow.config, 2)).toEqual({ fewest: 42, most: 44, fewestOfHead: 2 });
  expect(rowLimits(narrow.config, 4)).toEqual({ fewest: 44, most: 44, fewestOfHead: 2 }); // the number that all threads need is above the maximum
});

it("joins the linears of an input where one has fewer columns than limit nothing", () => {
  const linears = (...sizes: number[]) => sizes.map((outSize) => ({ outSize }));
  expect(joinedForPrompts(linears(300, 256, 300))).toEqual([linears(300, 256, 300)]);
  expect(joinedForPrompts(linears(257, 257))).toEqual([linears(257), linears(257)]);
  const sized = (mlpSize: number) => rowLimits({ ...config, hiddenSize: 512, mlpSize, headDim: 128 }, 2).most;
  expect([sized(100), sized(128), sized(129)]).toEqual([199, 255, 256]); // less than the columns of gate and up together
});
