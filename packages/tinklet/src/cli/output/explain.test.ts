// Hints of the SDK name options of the command line.

import { hintFor } from "@tinklet/sdk/environment";
import { TinkerError } from "@tinklet/wire/errors";
import { expect, it } from "vitest";
import { nearest } from "../parse.ts";
import { commandHint, explain } from "./explain.ts";

const path = (kind: string) => `tinker://run/${kind}/x`;
const failures = [
  ...[401, 402, 403, 413, 429].map((status) => ({ status })),
  { message: "rank must be a power of 2", rank: 3 },
  { operation: "LoadWeights", path: path("sampler_weights") },
  { operation: "createSamplingSession", path: path("weights") },
  { operation: "LoadWeights", path: path("weights"), status: 404 },
  { message: "too long", promptTokens: 5, maxTokens: 6, maxContextLength: 7 },
  { message: "loss is NaN" },
  { operation: "createModel", baseModel: "org/m", status: 404 },
  { operation: "clientConfig", status: 404 },
];

it.each(failures)("no hint of the command line names a function or option of the SDK: %o", (facts) => {
  const hint = hintFor({ operation: "optimStep", message: "", ...facts }) ?? "";
  expect(hint).not.toBe("");
  expect(commandHint(hint)).not.toMatch(/\b[a-z]+[A-Z]\w*|\w\(\)/);
});

it("an error with a hint is explained with the command's name", () => {
  const error = new TinkerError("gone", { code: "x", hint: [{ name: "listCheckpoints" }, " lists those that exist."] });
  expect(error.hint).toBe("listCheckpoints lists those that exist.");
  expect(explain(error)).toEqual({
    message: "gone",
    details: ["Hint: npx tinklet checkpoint list lists those that exist."],
  });
});

it.each([
  ["epoch", "epochs"],
  ["learning-rat", "learning-rate"],
  ["max", "max-cost"],
  ["zzzzzz", undefined],
])("nearest to %s is %s", (typed, word) => {
  expect(nearest(typed, ["epochs", "learning-rate", "max-cost", "out"])).toBe(word);
});

it("prints a hint once if the message contains it", () => {
  const error = Object.assign(new Error("In use. Stop it."), { code: "locked", hint: "Stop it." });
  expect(explain(error)).toEqual({ message: "In use.", details: ["Hint: Stop it."] });
});
