import { describe, expect, it } from "vitest";
import { InvalidInputError } from "../errors.ts";
import { ParsedCheckpointTinkerPath } from "./tinker-path.ts";

const parse = ParsedCheckpointTinkerPath.fromTinkerPath;

describe("tinker:// paths", () => {
  it("M-410: takes both kinds apart", () => {
    expect(parse("tinker://run/weights/x")).toEqual({
      tinkerPath: "tinker://run/weights/x",
      trainingRunId: "run",
      checkpointType: "training",
      checkpointId: "weights/x",
    });
    expect(parse("tinker://s:train:0/sampler_weights/final-1")).toMatchObject({
      trainingRunId: "s:train:0",
      checkpointType: "sampler",
      checkpointId: "sampler_weights/final-1",
    });
    expect(parse("tinker://run/external_weights/x")).toMatchObject({
      checkpointType: "external",
      checkpointId: "external_weights/x",
    });
  });

  it("M-410: rejects everything else with a typed error that shows the form", () => {
    const bad = [
      "",
      "tinker:/run/weights/x",
      "http://run/weights/x",
      "tinker://run/weights",
      "tinker://run/weights/x/y",
    ];
    for (const path of [
      ...bad,
      "tinker://run/other/x",
      "tinker:///weights/x",
      "tinker://run/weights/",
      "Tinker://run/weights/x",
      "tinker://run/toString/x",
    ]) {
      try {
        parse(path);
        expect.unreachable(path);
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidInputError);
        expect((error as InvalidInputError).field).toBe("tinkerPath");
        expect((error as InvalidInputError).hint).toContain("tinker://<run>/weights/<name>");
      }
    }
    expect(() => parse(5 as never)).toThrow(InvalidInputError);
  });
});
