import { SampledSequence, SampleResponse, TensorData } from "@tinklet/wire";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import { checkHonoured, newerParts } from "./sample-parts.ts";

const ids = TensorData.from([[5], [-1]], { dtype: "int64" });
const around = { target: undefined, recordStabilityInfo: false, extensions: [] };
const problem = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
    return error as Error & { field?: string; feature?: string };
  }
  throw new Error("did not throw");
};

describe("the newer fields of a request", () => {
  it("are there when they carry something", () => {
    expect(newerParts({}, around)).toEqual({});
    expect(newerParts({ topkSampleLogprobs: 0, promptAltTokensK: 0 }, around)).toEqual({});
    const options = { topkSampleLogprobs: 2, promptAltTokensK: 3, includePromptLogprobs: true, promptLogprobsLastN: 1 };
    expect(newerParts(options, { ...around, target: ids, recordStabilityInfo: true })).toEqual({
      topkSampleLogprobs: 2,
      targetPromptLogprobs: ids,
      promptAltTokensK: 3,
      promptLogprobsLastN: 1,
      recordStabilityInfo: true,
    });
  });

  it.each([
    [{ topkSampleLogprobs: 1.5 }, "topkSampleLogprobs", "must be an integer of at least 0, got 1.5"],
    [{ topkSampleLogprobs: -1 }, "topkSampleLogprobs", "must be an integer of at least 0, got -1"],
    [{ promptAltTokensK: Number.NaN }, "promptAltTokensK", "must be an integer of at least 0, got NaN"],
    [
      { includePromptLogprobs: true, promptLogprobsLastN: 0 },
      "promptLogprobsLastN",
      "must be an integer of at least 1",
    ],
    [{ promptLogprobsLastN: 2 }, "promptLogprobsLastN", "set includePromptLogprobs"],
    [{ promptLogprobsLastN: 2, includePromptLogprobs: false }, "promptLogprobsLastN", "set includePromptLogprobs"],
  ])("%j cannot be meant", (options, field, message) => {
    const error = problem(() => newerParts(options, around));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect([error.field, error.message]).toEqual([field, expect.stringContaining(message)]);
  });

  it("target tokens are a table of ids", () => {
    const of = (tensor: TensorData) => problem(() => newerParts({}, { ...around, target: tensor })).message;
    expect(of(TensorData.from([[1]], { dtype: "float32" }))).toContain(
      "must have dtype int64 (token ids), got float32",
    );
    expect(of(TensorData.from([1, 2], { dtype: "int64" }))).toContain(
      "must have shape [prompt length - 1, K], got [2]",
    );
    expect(of(TensorData.from([[[1, 2]]], { dtype: "int64" }))).toContain("got [1, 1, 2]");
    expect(of(TensorData.ofParts({ dtype: "int64", values: BigInt64Array.of(1n) }))).toContain("got []");
  });

  it("a constraint goes out as it was when it was asked for, and only to servers that have it", () => {
    const properties = { aKey: { type: "string" } };
    const constraint = { type: "json_schema" as const, schema: { type: "object", properties } };
    const asked = structuredClone(constraint);
    const parts = newerParts({ constraint }, { ...around, extensions: ["constraint"] });
    Object.assign(properties, { another: { type: "number" } });
    expect(parts).toEqual({ tinkletConstraint: asked });
    const { name, feature, message } = problem(() => newerParts({ constraint }, around));
    expect([name, feature]).toEqual(["UnsupportedFeatureError", "tinklet_constraint"]);
    expect(message).toContain("is a Tinklet extension");
  });

  it.each([
    [{ type: "json_schema" }, "constraint.schema"],
    [{ type: "json_object", schema: {} }, "constraint.schema"],
    [{ type: "regex" }, "type"],
    [{ type: "json_schema", schema: { enum: [() => 1] } }, "schema.enum[0]"],
  ])("the constraint %j cannot be meant", (constraint, field) => {
    const error = problem(() =>
      newerParts({ constraint: constraint as never }, { ...around, extensions: ["constraint"] }),
    );
    expect(error).toBeInstanceOf(InvalidInputError);
    expect(error.field).toContain(field);
  });
});

describe("an answer", () => {
  const table = { tokenIds: new Int32Array(2), logprobs: new Float32Array(2), k: 1, length: 2 } as never;
  const sequence = (topk: boolean) =>
    new SampledSequence({
      stopReason: "length",
      tokens: [1, 2],
      logprobs: [-1, -2],
      topkSampledLogprobs: topk ? table : undefined,
    });
  const answer = (parts: Partial<ConstructorParameters<typeof SampleResponse>[0]> = {}) =>
    new SampleResponse({ sequences: [sequence(true), sequence(true)], ...parts });
  const alternatives = { tokens: ids, logprobs: ids } as never;

  it("that has what was asked for is good, and so is one to a request that asked for nothing", () => {
    checkHonoured({}, answer({ sequences: [sequence(false)] }));
    checkHonoured(
      { topkSampleLogprobs: 1, targetPromptLogprobs: ids, promptAltTokensK: 1 },
      answer({ targetPromptLogprobs: ids, promptAltTokens: alternatives }),
    );
    const scored = Float32Array.of(Number.NaN, Number.NaN, -3);
    checkHonoured({ promptLogprobsLastN: 1 }, answer({ promptLogprobs: scored }));
    checkHonoured({ promptLogprobsLastN: 2 }, answer({ promptLogprobs: Float32Array.of(Number.NaN, -2, -3) }));
    checkHonoured({ promptLogprobsLastN: 1 }, answer());
  });

  it("that lacks something names it", () => {
    const lacks = (request: Parameters<typeof checkHonoured>[0], response: SampleResponse) =>
      problem(() => checkHonoured(request, response)).feature;
    expect(lacks({ promptAltTokensK: 1 }, answer())).toBe("prompt_alt_tokens_k");
    expect(lacks({ targetPromptLogprobs: ids }, answer())).toBe("target_prompt_logprobs");
    const one = answer({ sequences: [sequence(true), sequence(false)] });
    expect(lacks({ topkSampleLogprobs: 1 }, one)).toBe("topk_sample_logprobs");
    const all = answer({ promptLogprobs: Float32Array.of(Number.NaN, -2, -3) });
    expect(lacks({ promptLogprobsLastN: 1 }, all)).toBe("prompt_logprobs_last_n");
  });
});
