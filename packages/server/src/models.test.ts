/** What several models are given of one machine. */
import { defaultMemoryBudget } from "@tinklet/engine";
import { expect, test } from "vitest";
import { sharedOut } from "./models.ts";

test("the memory budget is divided among the models, whether it was given or not", () => {
  expect(sharedOut({ memoryBudgetBytes: 9e9, threads: 2 }, 2)).toEqual({ memoryBudgetBytes: 4.5e9, threads: 2 });
  expect(sharedOut(undefined, 3)).toEqual({ memoryBudgetBytes: Math.floor(defaultMemoryBudget() / 3) });
});
