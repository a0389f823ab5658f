import { readFileSync } from "node:fs";
import { Datum, decodeBase64, ModelInput, type ModelInputChunk, TensorData } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chunkData, estimateDatumBytes, estimatePromptBytes } from "./batching.ts";

// biome-ignore lint/suspicious/noExplicitAny: recorded values of many shapes, read by hand below
type Recorded = any;
const recorded = (version: string): Recorded =>
  JSON.parse(
    readFileSync(new URL(`../../../../../test/fixtures/tinker-${version}/derived.json`, import.meta.url), "utf8"),
  );

function input(recipe: Recorded): ModelInput {
  return new ModelInput(
    recipe.chunks.map((chunk: Recorded): ModelInputChunk => {
      const expected = omitUndefined({ expectedTokens: chunk.expected_tokens });
      switch (chunk.$type) {
        case "EncodedTextChunk":
          return { type: "encoded_text", tokens: chunk.tokens };
        case "ImageChunk":
          return { type: "image", data: decodeBase64(chunk.data.$bytes), format: chunk.format, ...expected };
        case "ImageAssetPointerChunk":
          return { type: "image_asset_pointer", location: chunk.location, format: chunk.format, ...expected };
        default:
          return { type: "dmel", dmel: decodeBase64(chunk.dmel.$bytes) };
      }
    }),
  );
}

function tensor(recipe: Recorded): TensorData | number[] {
  if (Array.isArray(recipe)) return recipe;
  if ("$i32" in recipe) return TensorData.from(Int32Array.from(recipe.$i32));
  if ("$f64" in recipe) return TensorData.from(Float64Array.from(recipe.$f64));
  return TensorData.fromSparse({
    values: Float32Array.from(recipe.data),
    crowIndices: recipe.sparse_crow_indices,
    colIndices: recipe.sparse_col_indices,
    shape: recipe.shape,
  });
}

describe.each(["0.25.0", "0.36.0"])("byte estimates against recordings of tinker %s", (version) => {
  const { modelInputs, datumBytes } = recorded(version);
  test.each<[string, Recorded]>(modelInputs.map((item: Recorded) => [item.id, item]))(
    "M-602 input: %s",
    (_, item: Recorded) => {
      const modelInput = input(item.input);
      expect(estimatePromptBytes(modelInput)).toBe(item.sample_bytes.output);
      expect(estimateDatumBytes(new Datum({ modelInput }))).toBe(item.training_bytes.output);
    },
  );
  test.each<[string, Recorded]>(datumBytes.map((item: Recorded) => [item.id, item]))(
    "M-602 datum: %s",
    (_, item: Recorded) => {
      const inputs = Object.entries(item.input.loss_fn_inputs as Record<string, Recorded>);
      const lossFnInputs = Object.fromEntries(inputs.map(([key, value]) => [key, tensor(value)]));
      expect(estimateDatumBytes(new Datum({ modelInput: input(item.input.model_input), lossFnInputs }))).toBe(
        item.output,
      );
    },
  );
});

describe("M-602 chunks of a batch", () => {
  /** A datum of exactly `4 * tokens` estimated bytes. */
  const datum = (tokens: number) => new Datum({ modelInput: ModelInput.fromInts(new Int32Array(tokens)) });
  const limits = (fwdbwdMaxChunkLen: number, fwdbwdMaxChunkBytesCount: number) => ({
    fwdbwdMaxChunkLen,
    fwdbwdMaxChunkBytesCount,
  });
  const sizes = (tokens: number[], length: number, bytes: number) =>
    chunkData(tokens.map(datum), limits(length, bytes)).map((chunk) => chunk.data.length);

  test("cut by length", () => expect(sizes([1, 1, 1, 1, 1], 2, 1e9)).toEqual([2, 2, 1]));
  test("a chunk may reach the byte limit, not pass it", () => expect(sizes([2, 2, 2, 2], 99, 16)).toEqual([2, 2]));
  test("a datum larger than the limit goes alone", () => expect(sizes([1, 9, 1, 1], 99, 16)).toEqual([1, 1, 2]));
  test("the first datum is never refused for its size", () => expect(sizes([9], 99, 1)).toEqual([1]));
  test("the estimate of each chunk comes with it", () => {
    expect(chunkData([datum(1), datum(2), datum(3)], limits(2, 1e9)).map((chunk) => chunk.bytes)).toEqual([12, 12]);
  });
  test("keeps order, keeps everything, obeys both limits, and closes no chunk early", () => {
    const tokens = fc.array(fc.nat(12), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(tokens, fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 100 }), (counts, length, bytes) => {
        const data = counts.map(datum);
        const chunks = chunkData(data, limits(length, bytes));
        expect(chunks.flatMap((chunk) => chunk.data)).toEqual(data);
        for (const [i, chunk] of chunks.entries()) {
          expect(chunk.data.length).toBeGreaterThan(0);
          expect(chunk.data.length).toBeLessThanOrEqual(length);
          if (chunk.data.length > 1) expect(chunk.bytes).toBeLessThanOrEqual(bytes);
          const next = chunks[i + 1]?.data[0];
          if (next !== undefined) {
            const fits = chunk.data.length < length && chunk.bytes + estimateDatumBytes(next) <= bytes;
            expect(fits).toBe(false);
          }
        }
      }),
    );
  });
});
