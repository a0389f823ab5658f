/** Rotary frequencies, plain and scaled. */
import { readConfig } from "@tinklet/models/config";
import { describe, expect, it } from "vitest";
import { RopeCache, ropeFrequencies } from "./rope.ts";

const base = {
  model_type: "llama",
  vocab_size: 100,
  hidden_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  intermediate_size: 128,
};

describe("rope", () => {
  it("keeps high frequencies and scales low ones down (llama3)", () => {
    const plain = ropeFrequencies(readConfig({ ...base, rope_theta: 5e5 }));
    const scaled = ropeFrequencies(
      readConfig({
        ...base,
        rope_theta: 5e5,
        rope_scaling: {
          rope_type: "llama3",
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 8192,
        },
      }),
    );
    expect(scaled[0]).toBe(plain[0]);
    expect(scaled.at(-1)).toBeCloseTo(plain.at(-1)! / 8, 12);
    scaled.forEach((frequency, i) => {
      expect(frequency).toBeLessThanOrEqual(plain[i]!);
      expect(frequency).toBeGreaterThanOrEqual(plain[i]! / 8);
    });
  });

  it("extending the tables keeps existing values", () => {
    const cache = new RopeCache(readConfig(base));
    const before = cache.tables(10).cos.slice();
    const after = cache.tables(1000);
    expect(after.dims[0]).toBeGreaterThanOrEqual(1000);
    expect(after.cos.subarray(0, before.length)).toEqual(before);
  });
});
