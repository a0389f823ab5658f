import { expect, test } from "vitest";
import { ConfigError } from "../errors.ts";
import { llama3Factors, llama3Scaling } from "./rope-factors.ts";

const published = { lowFreqFactor: 1, highFreqFactor: 4, originalContext: 8192 };

test.each([8, 32])("the parameters are recovered from the divisors for factor %d", (factor) => {
  const divisors = Float32Array.from(llama3Factors(64, 500_000, { ...published, factor }));
  expect(divisors[0]).toBe(1);
  expect(divisors.at(-1)).toBe(factor);
  expect(llama3Scaling(divisors, 64, 500_000, "x.gguf")).toEqual({
    rope_type: "llama3",
    factor,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  });
});

test("other divisors are rejected", () => {
  const divisors = Float32Array.from(llama3Factors(64, 500_000, { ...published, factor: 8 }));
  divisors[16] = 3;
  expect(() => llama3Scaling(divisors, 64, 500_000, "x.gguf")).toThrow(ConfigError);
  expect(() => llama3Scaling(divisors.subarray(1), 64, 500_000, "x.gguf")).toThrow(ConfigError);
});
