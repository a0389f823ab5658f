import { describe, expect, it } from "vitest";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { Datum } from "../values/datum.ts";
import { ModelInput } from "../values/model-input.ts";
import { TensorData } from "../values/tensor-data.ts";
import { ForwardBackwardOutput, OptimStepResponse } from "./training.ts";
import { ForwardBackwardInput, ForwardBackwardRequest, forwardBackwardOutputJson } from "./training-json.ts";

const modelInput = ModelInput.fromInts([1, 2]);
const sparse = TensorData.fromSparse({
  values: Float32Array.of(5, 6),
  crowIndices: [0, 1, 2],
  colIndices: [3, 0],
  shape: [2, 4],
});

describe("the JSON forms of older clients and servers", () => {
  it("M-304: a sparse tensor keeps its indices and shape", () => {
    const datum = new Datum({ modelInput, lossFnInputs: { weights: sparse } });
    const wire = ForwardBackwardInput.encode({ data: [datum], lossFn: "cross_entropy" });
    expect(wire).toMatchObject({
      data: [
        {
          loss_fn_inputs: {
            weights: {
              data: [5, 6],
              dtype: "float32",
              shape: [2, 4],
              sparse_crow_indices: [0, 1, 2],
              sparse_col_indices: [3, 0],
            },
          },
        },
      ],
    });
    expect(ForwardBackwardInput.decode(wire).data[0]?.lossFnInputs["weights"]).toEqual(sparse);
  });

  it("M-302: a tensor without a shape is one-dimensional, and one without it here sends none", () => {
    const read = (tensor: object) =>
      ForwardBackwardInput.decode({
        data: [{ model_input: { chunks: [] }, loss_fn_inputs: { t: tensor } }],
        loss_fn: "ppo",
      }).data[0]!.lossFnInputs["t"]!;
    expect(read({ data: [1, 2], dtype: "int64" })).toMatchObject({ shape: [2], values: BigInt64Array.of(1n, 2n) });
    expect(read({ data: [1, null], dtype: "float32", shape: [1, 2] }).toList()).toEqual([[1, Number.NaN]]);
    expect(read({ data: [9007199254740993n], dtype: "int64" }).values).toEqual(BigInt64Array.of(9007199254740993n));
    const bare = TensorData.ofParts({ dtype: "float32", values: Float32Array.of(1) });
    const wire = ForwardBackwardInput.encode({
      data: [new Datum({ modelInput, lossFnInputs: { t: bare } })],
      lossFn: "ppo",
    });
    expect((wire["data"] as { loss_fn_inputs: { t: object } }[])[0]!.loss_fn_inputs.t).toEqual({
      data: [1],
      dtype: "float32",
    });
  });

  it("names the tensor, and what is wrong with it", () => {
    const read = (tensor: unknown) => () =>
      ForwardBackwardInput.decode({
        data: [{ model_input: { chunks: [] }, loss_fn_inputs: { t: tensor } }],
        loss_fn: "ppo",
      });
    const bad: [unknown, RegExp][] = [
      [{ data: [1], dtype: "float64" }, /^data\[0\]\.loss_fn_inputs\.t\.dtype: must be one of "int64", "float32"/],
      [
        { data: [1, 2], dtype: "int64", shape: [3] },
        /^data\[0\]\.loss_fn_inputs\.t\.data\.shape: \[3\] has 3 elements, but there are 2 values/,
      ],
      [{ data: ["1"], dtype: "int64" }, /^data\[0\]\.loss_fn_inputs\.t\.data\[0\]: must be a number, not "1"/],
      [{ data: [1.5], dtype: "int64" }, /^data\[0\]\.loss_fn_inputs\.t\.data\[0\]: must be an integer/],
      [{ data: [1], dtype: "float32", shape: [1, 1], sparse_crow_indices: [0, 1] }, /sparseColIndices/],
      [{ data: [1], dtype: "float32", shape: [1, 1], sparse_col_indices: [0] }, /sparseCrowIndices/],
      [{ data: [1], dtype: "float32", sparse_crow_indices: [0, 1], sparse_col_indices: [0] }, /shape/],
      ["text", /^data\[0\]\.loss_fn_inputs\.t: must be an object, not "text"/],
    ];
    for (const [tensor, problem] of bad) {
      expect(read(tensor)).toThrow(ResponseValidationError);
      expect(read(tensor)).toThrow(problem);
    }
  });

  it("a datum without loss inputs has none; one without a model input is refused", () => {
    expect(
      ForwardBackwardInput.decode({ data: [{ model_input: { chunks: [] } }], loss_fn: "x" }).data[0]!.lossFnInputs,
    ).toEqual({});
    expect(() => ForwardBackwardInput.decode({ data: [{}], loss_fn: "x" })).toThrow(
      /data\[0\]\.model_input: must be an object, not undefined/,
    );
    expect(() => ForwardBackwardInput.encode({ data: [{} as Datum], lossFn: "x" })).toThrow(InvalidInputError);
    expect(() => ForwardBackwardInput.encode({ data: [{} as Datum], lossFn: "x" })).toThrow(
      /data\[0\]: must be a Datum/,
    );
    expect(() => ForwardBackwardInput.encode({ data: [], lossFn: "x", lossFnConfig: { a: Number.NaN } })).toThrow(
      /lossFnConfig\.a: must be a finite number, not NaN/,
    );
  });

  it("M-214: the whole request, there and back", () => {
    const request = {
      forwardBackwardInput: {
        data: [new Datum({ modelInput, lossFnInputs: { weights: [1, 0] } })],
        lossFn: "ppo",
        lossFnConfig: { clip_low_threshold: 0.8 },
      },
      modelId: "m",
      seqId: 3,
    };
    const wire = ForwardBackwardRequest.encode(request);
    expect(wire).toMatchObject({
      model_id: "m",
      seq_id: 3,
      forward_backward_input: { loss_fn: "ppo", loss_fn_config: { clip_low_threshold: 0.8 } },
    });
    expect(ForwardBackwardRequest.decode(wire)).toEqual(request);
  });

  it("M-401: an output, there and back; a value that is no tensor is refused", () => {
    const output = new ForwardBackwardOutput({
      lossFnOutputType: "T",
      lossFnOutputs: [{ logprobs: TensorData.from(Float32Array.of(1, 2)) }],
      metrics: { "loss:sum": 3 },
    });
    const wire = forwardBackwardOutputJson.encode(output);
    expect(wire).toEqual({
      loss_fn_output_type: "T",
      loss_fn_outputs: [{ logprobs: { data: [1, 2], dtype: "float32", shape: [2] } }],
      metrics: { "loss:sum": 3 },
    });
    expect(forwardBackwardOutputJson.decode(wire)).toEqual(output);
    expect(() =>
      forwardBackwardOutputJson.encode(
        new ForwardBackwardOutput({ lossFnOutputType: "T", lossFnOutputs: [{ x: 5 as never }] }),
      ),
    ).toThrow(/lossFnOutputs\[0\]\.x: must be a TensorData, not 5/);
    expect(forwardBackwardOutputJson.decode({ loss_fn_output_type: "T", loss_fn_outputs: [] }).metrics).toEqual({});
  });
});

describe("metrics", () => {
  it("that are no numbers on the server are NaN here, and the answer stands", () => {
    const wire = { metrics: { a: Number.NaN, b: "NaN", d: "-Infinity", e: 0.5 } };
    const read = { a: Number.NaN, b: Number.NaN, d: -Infinity, e: 0.5 };
    expect(OptimStepResponse.decode(wire).metrics).toEqual(read);
    const output = { loss_fn_output_type: "ArrayRecord", loss_fn_outputs: [], ...wire };
    expect(forwardBackwardOutputJson.decode(output).metrics).toEqual(read);
    expect(() => OptimStepResponse.decode({ metrics: { a: "x" } })).toThrow(ResponseValidationError);
  });
});

describe("outputs", () => {
  it("are typed arrays by name, dense, and what a known loss lacks is an error that names it", () => {
    const output = new ForwardBackwardOutput({
      lossFnOutputType: "ArrayRecord",
      lossFnOutputs: [
        { logprobs: TensorData.from(Float32Array.of(-1, -2)), counts: TensorData.from(Int32Array.of(3)) },
      ],
    });
    expect(output.outputs).toEqual([{ logprobs: Float32Array.of(-1, -2), counts: Float32Array.of(3) }]);
    expect(() => output.outputs[0]?.["elementwise_loss"]).toThrow(/loss_fn_outputs\[0\].elementwise_loss: is missing/);
    expect(output.outputs[0]?.["other"]).toBeUndefined();
  });
});
