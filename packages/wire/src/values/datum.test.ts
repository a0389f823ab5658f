import { describe, expect, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import { decodeForwardBackwardRequest, encodeForwardBackwardRequest } from "../proto/tensors.ts";
import { copyDatum, Datum, toData } from "./datum.ts";
import { ModelInput } from "./model-input.ts";
import { TensorData } from "./tensor-data.ts";

const modelInput = ModelInput.fromInts([1, 2, 3]);
const make = (lossFnInputs: Record<string, unknown>) => new Datum({ modelInput, lossFnInputs: lossFnInputs as never });
describe("Datum", () => {
  it("M-305: plain lists become tensors by their key's rule", () => {
    expect(make({ target_tokens: [1, 2, 3] }).lossFnInputs["target_tokens"]).toMatchObject({
      dtype: "int64",
      shape: [3],
    });
    for (const key of ["weights", "advantages", "logprobs", "clip_low_threshold", "clip_high_threshold"]) {
      const tensor = make({ [key]: [1, 0.5, null] }).lossFnInputs[key]!;
      expect(tensor.dtype).toBe("float32");
      expect(tensor.data).toEqual([1, 0.5, Number.NaN]);
    }
    expect(
      make({
        target_tokens: [
          [1, 2],
          [3, 4],
        ],
      }).lossFnInputs["target_tokens"]!.shape,
    ).toEqual([2, 2]);
    expect(make({ weights: [] }).lossFnInputs["weights"]!.shape).toEqual([0]);
    expect(make({ weights: [true, false] }).lossFnInputs["weights"]!.data).toEqual([1, 0]);
    expect(new Datum({ modelInput }).lossFnInputs).toEqual({});
  });

  it("M-305: a plain list under any other key asks for a typed array or a TensorData", () => {
    for (const key of ["mask", "toString", "__proto__x", "Weights"]) {
      const error = refusal(() => make({ [key]: [1, 2, 3] }));
      expect(error.field).toBe(`lossFnInputs.${key}`);
      expect(error.hint).toMatch(/target_tokens, weights.*typed array or a TensorData/);
    }
    expect(make({ mask: Float32Array.of(1) }).lossFnInputs["mask"]!.dtype).toBe("float32");
  });

  it("M-305: typed arrays keep their own dtype, tensors pass through", () => {
    expect(make({ weights: Int32Array.of(1) }).lossFnInputs["weights"]!.dtype).toBe("int64");
    expect(make({ target_tokens: Float32Array.of(1) }).lossFnInputs["target_tokens"]!.dtype).toBe("float32");
    const tensor = TensorData.from([1], { dtype: "int64" });
    expect(make({ weights: tensor }).lossFnInputs["weights"]).toBe(tensor);
    expect(
      make({ weights: { data: Float32Array.of(1, 2), dims: [2, 1], type: "float32" } }).lossFnInputs["weights"]!.shape,
    ).toEqual([2, 1]);
  });

  it("M-305: a string, an object, a number or ragged lists are refused, naming the field", () => {
    for (const value of ["abc", {}, 5, null, undefined, new Set([1]), true]) {
      const error = refusal(() => make({ weights: value }));
      expect(error.field).toBe("lossFnInputs.weights");
      expect(error.hint).toContain("array of numbers");
    }
    expect(refusal(() => make({ weights: [[1, 2], [3]] })).field).toBe("lossFnInputs.weights[1]");
    expect(refusal(() => make({ target_tokens: [1, "2"] })).message).toBe(
      'lossFnInputs.target_tokens[1]: must be an integer (beyond 2^53 a bigint), not "2"',
    );
    expect(refusal(() => new Datum({ modelInput: "abc" as never })).hint).toContain("array of token ids");
    expect(refusal(() => new Datum({ modelInput: [1, 1.5] })).field).toBe("modelInput[1]");
    expect(refusal(() => new Datum({ modelInput, lossFnInputs: [] as never })).field).toBe("lossFnInputs");
  });

  it("takes token ids for its input, and plain objects make data", () => {
    for (const tokens of [[1, 2], Int32Array.of(1, 2), Uint32Array.of(1, 2), Uint16Array.of(1, 2)]) {
      expect(new Datum({ modelInput: tokens }).modelInput).toEqual(ModelInput.fromInts([1, 2]));
    }
    const plain = { modelInput: [1, 2], lossFnInputs: { weights: [0, 1] } };
    const whole = new Datum(plain);
    expect(toData([plain, whole])).toEqual([whole, whole]);
    expect(toData([plain, whole])[1]).toBe(whole);
    expect(refusal(() => toData([whole, { modelInput: [1], lossFnInputs: { weights: ["x"] } } as never])).field).toBe(
      "data[1].lossFnInputs.weights[0]",
    );
    expect(refusal(() => toData([5 as never])).field).toBe("data[0]");
  });

  it("tells where its tokens come from, and checks that nothing is left out or counted twice", () => {
    const datum = make({ target_tokens: [2, 3, 4] });
    const sequenceId = "s:0";
    const spans = {
      modelInput: [
        { type: "prompt", sequenceId, length: 2 },
        { type: "sampled", sequenceId, length: 1 },
      ],
      lossFnInputs: [
        { type: "prompt", sequenceId, offset: 1, length: 1 },
        { type: "sampled", sequenceId, length: 2 },
      ],
    } as const;
    const traced = datum.withProvenance(spans);
    expect(traced).toMatchObject({ modelInputSpans: spans.modelInput, lossFnInputSpans: spans.lossFnInputs });
    expect(copyDatum(traced)).toEqual(traced);
    expect(datum.modelInputSpans).toBeUndefined();
    const bytes = encodeForwardBackwardRequest({
      modelId: "m",
      forwardBackwardInput: { data: [traced, datum], lossFn: "cross_entropy" },
    });
    const [first, second] = decodeForwardBackwardRequest(bytes).forwardBackwardInput.data;
    expect(first?.modelInputSpans).toEqual(spans.modelInput.map((span) => ({ offset: 0, ...span })));
    expect(first?.lossFnInputSpans?.[0]).toEqual(spans.lossFnInputs[0]);
    expect(second?.modelInputSpans).toBeUndefined();
    const short = [{ type: "prompt", sequenceId, length: 2 }] as const;
    expect(refusal(() => datum.withProvenance({ ...spans, modelInput: short })).message).toMatch(
      /must cover all 3 positions, but cover 2/,
    );
    expect(refusal(() => datum.withProvenance({ ...spans, lossFnInputs: short })).field).toBe("lossFnInputs");
    for (const [key, value, problem] of [
      ["type", "else", 'must be "prompt" or "sampled", not "else"'],
      ["sequenceId", "", "must be the id of a sequence"],
      ["sequenceId", 7, "must be the id of a sequence"],
      ["offset", -1, "must be an integer of at least 0, not -1"],
      ["length", 1.5, "must be an integer of at least 0, not 1.5"],
    ] as const) {
      const modelInput = [{ type: "prompt", sequenceId, length: 3, [key]: value }] as never;
      const error = refusal(() => datum.withProvenance({ ...spans, modelInput }));
      expect([error.field, error.message]).toEqual([
        `modelInputSpans[0].${key}`,
        `modelInputSpans[0].${key}: ${problem}`,
      ]);
    }
    expect(refusal(() => datum.withProvenance({ ...spans, modelInput: "all" as never })).message).toBe(
      'modelInputSpans: must be an array of spans, not "all"',
    );
    expect(refusal(() => new Datum({ modelInput: [1], modelInputSpans: [] })).field).toBe("lossFnInputSpans");
  });

  it("is immutable", () => {
    const datum = make({ weights: [1] });
    expect(Object.isFrozen(datum.lossFnInputs)).toBe(true);
  });
});
