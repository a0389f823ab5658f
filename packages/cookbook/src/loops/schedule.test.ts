import { describe, expect, it } from "vitest";
import { BatchedDataset, splitData } from "../data/dataset.ts";
import { derivedSeed, permutation } from "../random.ts";
import { recommendedLearningRate, type Schedule, scheduleFactor } from "./schedule.ts";

describe("scheduleFactor", () => {
  // compute_schedule_lr_multiplier of tinker-cookbook, called for these steps of 10.
  it.each<[Schedule, number[]]>([
    ["constant", [1, 1, 1]],
    ["linear", [1, 0.7, 0.09999999999999998]],
    ["cosine", [1, 0.7938926261462366, 0.024471741852423234]],
  ])("is the official cookbook's %s", (schedule, expected) => {
    expect([0, 3, 9].map((step) => scheduleFactor(schedule, { step, totalSteps: 10 }))).toEqual(expected);
  });

  it("warms up in equal steps and spans the rest", () => {
    const at = (step: number) => scheduleFactor("linear", { step, totalSteps: 10, warmupSteps: 2 });
    expect([at(0), at(1), at(2), at(6)]).toEqual([0.5, 1, 1, 0.5]);
  });

  it("refuses what it does not know", () => {
    expect(() => scheduleFactor("steep" as Schedule, { step: 0, totalSteps: 1 })).toThrow("schedule");
    expect(() => scheduleFactor("linear", { step: 0, totalSteps: 0 })).toThrow("totalSteps");
  });
});

// get_lr of tinker-cookbook for the same models.
it("the learning-rate rule gives the official cookbook's values", () => {
  expect(recommendedLearningRate("Qwen/Qwen3-8B", { hiddenSize: 4096 })).toBe(0.00047297908091376354);
  expect(recommendedLearningRate("meta-llama/Llama-3.1-8B", { hiddenSize: 4096 })).toBe(0.0002856415043086949);
  expect(recommendedLearningRate("unheard/of", { hiddenSize: 4096 })).toBeUndefined();
});

describe("data in batches", () => {
  const letters = [..."abcdefg"];

  it("gives each item once per epoch, in an order that depends on seed and epoch alone", () => {
    const dataset = new BatchedDataset(letters, { batchSize: 3, seed: 5 });
    const epoch = (at: number) => [0, 1, 2].flatMap((index) => dataset.batch(at, index));
    expect(dataset.batchesPerEpoch).toBe(3);
    expect(epoch(0).toSorted()).toEqual(letters);
    expect(epoch(1)).not.toEqual(epoch(0));
    expect(new BatchedDataset(letters, { batchSize: 3, seed: 5 }).batch(1, 2)).toEqual(dataset.batch(1, 2));
    expect(new BatchedDataset(letters, { batchSize: 3, seed: 6 }).batch(0, 0)).not.toEqual(dataset.batch(0, 0));
  });

  it("keeps equal items on one side of a split", () => {
    const doubled = [...letters, ...letters];
    const { train, test } = splitData(doubled, { share: 0.3, key: (item) => item });
    expect(test.length).toBe(4);
    expect(train.length).toBe(10);
    expect(train.filter((item) => test.includes(item))).toEqual([]);
    expect(splitData(letters, { share: 2, key: (item) => item }).test.length).toBe(2);
    expect(() => splitData(letters, { share: 7, key: (item) => item })).toThrow("nothing to train on");
  });
});

it("a permutation is one, and derived seeds lie apart", () => {
  expect(permutation(50, 3).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
  const seeds = new Set(Array.from({ length: 1000 }, (_, i) => derivedSeed(1, Math.floor(i / 10), i % 10)));
  expect(seeds.size).toBe(1000);
});
