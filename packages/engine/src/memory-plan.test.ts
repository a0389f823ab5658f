/** The division of a memory budget, and budgets that are too small. */
import { describe, expect, it } from "vitest";
import { defaultMemoryBudget } from "./default-memory-budget.ts";
import { MemoryError } from "./errors.ts";
import { longestCached, planMemory } from "./memory-plan.ts";
import { KvCache } from "./sample/kv-cache.ts";
import { tinyConfig } from "./testing/tiny-model.ts";

it("takes its share of the container, where that is smaller than the machine", () => {
  expect(defaultMemoryBudget(10e9, 4e9)).toBe(3.2e9);
  expect(defaultMemoryBudget(10e9, 2 ** 64)).toBe(8e9); // what an unlimited container reports
  expect(defaultMemoryBudget(10e9, 0)).toBe(8e9);
});

describe("the budget", () => {
  const plan = (weightsBytes: number, budget: number, runtime: "native" | "wasm" = "native") =>
    planMemory("a model", { weightsBytes, budget, runtime });

  it.each([
    ["native", 5e8, 6e9],
    ["native", 5e8, 2e9],
    ["native", 4e7, 6e8],
    ["wasm", 5e8, 6e9],
    ["wasm", 4e7, 20e9],
  ] as const)("is not exceeded (%s, %d of %d)", (runtime, weightsBytes, budget) => {
    const { activationBytes, cacheBytes, adapterBytes } = plan(weightsBytes, budget, runtime);
    expect(weightsBytes + activationBytes + cacheBytes + adapterBytes).toBeLessThanOrEqual(budget);
    expect(Math.min(activationBytes, cacheBytes, adapterBytes)).toBeGreaterThan(0);
    if (runtime === "wasm") expect(activationBytes + cacheBytes).toBeLessThan(2 ** 32);
  });

  it("has a packed copy only if what packing takes for a moment fits, too", () => {
    expect(plan(5e8, 7.4 * 5e8).packing).toBe("none");
    expect(plan(5e8, 7.6 * 5e8).packing).toBe("decoding");
    expect(plan(7e8, 100e9).packing).toBe("none"); // it would take too long
  });

  it("has packed copies for prompts, too, of small models alone", () => {
    expect(plan(4e7, 13.4 * 4e7).packing).toBe("decoding");
    expect(plan(4e7, 13.6 * 4e7).packing).toBe("all");
    expect(plan(6.5e7, 100e9).packing).toBe("decoding");
    expect(plan(4e7, 100e9, "wasm").packing).toBe("decoding");
  });

  it("leaves something to work with, or is refused", () => {
    expect(() => plan(1e9, 1.05e9)).toThrow(MemoryError);
    expect(() => plan(5e8, 3e9, "wasm")).toThrow(/WebAssembly 5 times as much/);
  });

  it("does not help WebAssembly beyond what it can address", () => {
    expect(() => plan(1e9, 100e9, "wasm")).toThrow(/needs 1000 MB.*at most 780 MB.*npm install onnxruntime-node/);
    expect(plan(5.4e8, 16e9, "wasm").activationBytes).toBeGreaterThan(5e8);
  });
});

it("finds the longest context that one request has a cache for", () => {
  const config = tinyConfig({ max_position_embeddings: 4096 });
  const whole = KvCache.bytesFor(config, 2, 4096);
  expect(longestCached(config, whole)).toBe(4096);
  for (const cacheBytes of [whole - 1, whole / 2, whole / 3 + 1, 20_000]) {
    const length = longestCached(config, cacheBytes);
    expect(KvCache.bytesFor(config, 2, length)).toBeLessThanOrEqual(cacheBytes);
    expect(KvCache.bytesFor(config, 2, length + 1)).toBeGreaterThan(cacheBytes);
  }
  expect(longestCached(config, 100)).toBe(0);
});
