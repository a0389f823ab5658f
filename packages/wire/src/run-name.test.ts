import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InvalidInputError } from "./errors.ts";
import {
  checkpointNames,
  checkRunName,
  referenceOf,
  runNameFrom,
  runNameProblem,
  shownCheckpoint,
  splitReference,
} from "./run-name.ts";

describe("names of runs", () => {
  test.each(["bike", "a", "0", "smollm2-1.7b", "A_b.c-d", "x".repeat(64)])("%s is valid and stays as it is", (name) => {
    expect(runNameProblem(name)).toBeUndefined();
    expect(runNameFrom(name)).toBe(name);
  });

  test.each([
    ["Qwen/Qwen3-8B", "looks like a path or a base model", "Qwen-Qwen3-8B"],
    ["../etc/passwd", "looks like a path or a base model", "etc-passwd"],
    ["C:\\runs\\bike", "looks like a path or a base model", "C-runs-bike"],
    ["tinker://run/weights/a", "looks like the address of a checkpoint", "tinker-run-weights-a"],
    ["bike.gguf", "looks like a file", "bike"],
    ["bike@best", "is not a valid name", "bike-best"],
    ["s-1:train:0", "is not a valid name", "s-1-train-0"],
    ["my bike\n\u001b[2J", "is not a valid name", "my-bike-2J"],
    ["bıke", "is not a valid name", "b-ke"],
    ["-rf", "is not a valid name", "rf"],
    ["x".repeat(65), "must have at most 64 characters, got 65", "x".repeat(48)],
  ])("%j is refused with the rule and a similar name", (name, problem, similar) => {
    const error = (() => {
      try {
        checkRunName("name", name);
      } catch (caught) {
        return caught as InvalidInputError;
      }
      throw new Error("it was accepted");
    })();
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.field).toBe("name");
    expect(error.message).toContain(problem);
    expect(error.hint).toContain(JSON.stringify(similar));
  });

  test.each([undefined, null, 7, {}, ""])("%j is refused", (name) => {
    expect(() => checkRunName("name", name)).toThrow(InvalidInputError);
  });

  test("any text gives a valid name or none, in bounded time", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" })), (text) => {
        const name = runNameFrom(text);
        expect(name === undefined || runNameProblem(name) === undefined).toBe(true);
      }),
    );
    expect(runNameFrom("データ")).toBeUndefined();
    expect(runNameFrom("..")).toBeUndefined();
    expect(runNameFrom(`${"/".repeat(10_000_000)}bike`)).toBeUndefined();
  });

  test("checkpoints of the loops are shown by their step, and found by both names", () => {
    expect(referenceOf("bike", "000040")).toBe("bike@step-40");
    expect(["final", "best", "40", "1234567", "0000001"].map(shownCheckpoint)).toEqual([
      "final",
      "best",
      "40",
      "step-1234567",
      "0000001",
    ]);
    expect(checkpointNames("step-40")).toEqual(["step-40", "000040"]);
    expect(checkpointNames("000040")).toEqual(["000040"]);
    expect(checkpointNames("best")).toEqual(["best"]);
    expect(splitReference("bike@step-40")).toEqual({ run: "bike", checkpoint: "step-40" });
    expect(splitReference("bike")).toEqual({ run: "bike", checkpoint: undefined });
    expect(splitReference("bike@a@b")).toEqual({ run: "bike", checkpoint: "a@b" });
  });
});
