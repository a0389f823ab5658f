/** How the memory of one machine is divided among several models. */
import { defaultMemoryBudget } from "@tinklet/engine";
import { expect, test } from "vitest";
import { optionsPerEngine } from "./models.ts";

test("a single model on a device has the device's default budget", () => {
  const cuda = { device: "cuda", memoryBudgetBytes: 9e9 } as const;
  expect(optionsPerEngine({ device: "auto" }, 1)).toEqual({ device: "auto" });
  expect(optionsPerEngine(cuda, 1)).toEqual(cuda);
  expect(optionsPerEngine(cuda, 2).memoryBudgetBytes).toBe(4.5e9);
});

test("the memory budget, given or default, is divided among the models", () => {
  expect(optionsPerEngine({ memoryBudgetBytes: 9e9, threads: 2 }, 2)).toEqual({ memoryBudgetBytes: 4.5e9, threads: 2 });
  expect(optionsPerEngine(undefined, 3)).toEqual({ memoryBudgetBytes: Math.floor(defaultMemoryBudget() / 3) });
});
