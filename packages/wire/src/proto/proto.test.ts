import { readFileSync } from "node:fs";
import fc from "fast-check";
import protobuf from "protobufjs";
import { describe, expect, it } from "vitest";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { SampledSequence, SampleResponse } from "../messages/sampling.ts";
import { ForwardBackwardOutput } from "../messages/training.ts";
import { type ForwardBackwardRequest, forwardBackwardOutputJson } from "../messages/training-json.ts";
import { Datum } from "../values/datum.ts";
import { ModelInput } from "../values/model-input.ts";
import { TensorData } from "../values/tensor-data.ts";
import { encodeMessage, Reader, WireFormatError } from "./binary.ts";
import * as generated from "./gen/tinker-public.ts";
import {
  decodeForwardBackwardOutput,
  decodeForwardBackwardRequest,
  decodeSampleResponse,
  encodeForwardBackwardOutput,
  encodeForwardBackwardRequest,
  encodeSampleResponse,
  peekForwardBackwardRequest,
} from "./tensors.ts";

const gen: typeof generated = { ...generated };
// protobufjs is the second opinion: another implementation of the format, over the same .proto
const oracle = protobuf.parse(readFileSync(new URL("tinker_public.proto", import.meta.url), "utf8"), {
  keepCase: true,
}).root;
oracle.resolveAll();
const oracleType = (name: string) => oracle.lookupType(`tinker_public.${name}`);
const oracleRead = (name: string, bytes: Uint8Array) =>
  oracleType(name).toObject(oracleType(name).decode(bytes), { longs: String, bytes: String, enums: Number });
const oracleWrite = (name: string, value: object) =>
  oracleType(name).encode(oracleType(name).fromObject(value)).finish();
const runs = Number(process.env["FUZZ_RUNS"] ?? 2000);

const text = (tokens: number[]) => ModelInput.fromInts(tokens);
const request = (data: Datum[], more: Partial<ForwardBackwardRequest> = {}): ForwardBackwardRequest => ({
  modelId: "sess-1:train:0",
  seqId: 1,
  forwardBackwardInput: { data, lossFn: "cross_entropy" },
  ...more,
});
const b64 = (values: ArrayBufferView) =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString("base64");

describe("ForwardBackwardRequest", () => {
  it("M-212: data, loss and numeric config arrive as the official schema says", () => {
    const datum = new Datum({
      modelInput: text([1, 2, 3]),
      lossFnInputs: { weights: [1, 1, 0], target_tokens: [2, 3, 4] },
    });
    const bytes = encodeForwardBackwardRequest(
      request([datum], {
        forwardOnly: true,
        forwardBackwardInput: { data: [datum], lossFn: "ppo", lossFnConfig: { clip_low_threshold: 0.8 } },
      }),
    );
    expect(oracleRead("ForwardBackwardRequest", bytes)).toEqual({
      model_id: "sess-1:train:0",
      seq_id: 1,
      data: [
        {
          model_input: [{ encoded_text: { tokens: b64(Int32Array.of(1, 2, 3)) } }],
          loss_fn_inputs: {
            weights: { dense: b64(Float32Array.of(1, 1, 0)), dtype: 1, shape: ["3"] },
            target_tokens: { dense: b64(BigInt64Array.of(2n, 3n, 4n)), dtype: 2, shape: ["3"] },
          },
        },
      ],
      loss_fn: "ppo",
      loss_fn_config: { clip_low_threshold: 0.8 },
      forward_only: true,
    });
    const config = { clip: true } as never;
    expect(() =>
      encodeForwardBackwardRequest(
        request([], { forwardBackwardInput: { data: [], lossFn: "ppo", lossFnConfig: config } }),
      ),
    ).toThrow(/lossFnConfig\.clip: must be a number/);
    expect(() => encodeForwardBackwardRequest(request([{} as never]))).toThrow(/data\[0\]: must be a Datum/);
  });

  it("numbers, strings and tokens that the format cannot represent are errors", () => {
    const chunk = (tokens: number[]) => new Datum({ modelInput: new ModelInput([{ type: "encoded_text", tokens }]) });
    expect(() => encodeForwardBackwardRequest(request([chunk([1, 2 ** 31])]))).toThrow(
      /data\[0\]\.modelInput\.chunks\[0\]\.tokens\[1\]/,
    );
    expect(() => encodeForwardBackwardRequest(request([chunk([0.5])]))).toThrow(InvalidInputError);
    expect(() => encodeForwardBackwardRequest(request([], { seqId: 2 ** 31 }))).toThrow(
      /seqId: must be an integer of 32 bits/,
    );
    expect(() => encodeForwardBackwardRequest(request([], { modelId: "\ud83e" }))).toThrow(/modelId: must be a string/);
    expect(() => encodeForwardBackwardRequest(request([], { modelId: 5 as never }))).toThrow(
      /modelId: must be a string/,
    );
  });

  it("M-302: a scalar has no shape on the wire, and a missing shape reads as one-dimensional", () => {
    const datum = new Datum({ modelInput: text([]), lossFnInputs: { x: TensorData.from(5, { dtype: "float32" }) } });
    const bytes = encodeForwardBackwardRequest(request([datum]));
    expect(oracleRead("ForwardBackwardRequest", bytes)["data"][0].loss_fn_inputs.x).not.toHaveProperty("shape");
    const back = decodeForwardBackwardRequest(bytes).forwardBackwardInput.data[0]!.lossFnInputs["x"]!;
    expect(back.shape).toEqual([1]);
    expect(back.data).toEqual([5]);
  });

  it("M-303: multi-dimensional shapes survive the round trip", () => {
    const tensor = TensorData.from([[[1, 2]], [[3, 4]]], { dtype: "int64" });
    const back = decodeForwardBackwardRequest(
      encodeForwardBackwardRequest(request([new Datum({ modelInput: text([1]), lossFnInputs: { t: tensor } })])),
    );
    expect(back.forwardBackwardInput.data[0]!.lossFnInputs["t"]!.toList()).toEqual([[[1, 2]], [[3, 4]]]);
  });

  it("M-304: sparse CSR goes out in its own arm with int64 indices, and comes back", () => {
    const sparse = TensorData.fromSparse({
      values: Float32Array.of(5, 6),
      crowIndices: [0, 1, 2],
      colIndices: [3, 0],
      shape: [2, 4],
    });
    const bytes = encodeForwardBackwardRequest(
      request([new Datum({ modelInput: text([1]), lossFnInputs: { weights: sparse } })]),
    );
    expect(oracleRead("ForwardBackwardRequest", bytes)["data"][0].loss_fn_inputs.weights).toEqual({
      sparse_csr: {
        values: b64(Float32Array.of(5, 6)),
        crow_indices: b64(BigInt64Array.of(0n, 1n, 2n)),
        col_indices: b64(BigInt64Array.of(3n, 0n)),
      },
      dtype: 1,
      shape: ["2", "4"],
    });
    expect(decodeForwardBackwardRequest(bytes).forwardBackwardInput.data[0]!.lossFnInputs["weights"]).toEqual(sparse);
  });

  it("M-306: int64 beyond 2^53 leaves with its exact bytes", () => {
    const values = BigInt64Array.of(2n ** 53n + 1n, -(2n ** 63n));
    const bytes = encodeForwardBackwardRequest(
      request([new Datum({ modelInput: text([1]), lossFnInputs: { t: values } })]),
    );
    expect(decodeForwardBackwardRequest(bytes).forwardBackwardInput.data[0]!.lossFnInputs["t"]!.values).toEqual(values);
  });

  it("M-308: images and audio travel as raw bytes; M-309: a pointer in training data is refused", () => {
    const image = { type: "image", data: Uint8Array.of(255, 0), format: "png", expectedTokens: 0 } as const;
    const dmel = { type: "dmel", dmel: Uint8Array.of(4, 1, 5) } as const;
    const input = new ModelInput([image, dmel, { type: "encoded_text", tokens: [1, 2] }]);
    const bytes = encodeForwardBackwardRequest(request([new Datum({ modelInput: input })]));
    expect(oracleRead("ForwardBackwardRequest", bytes)["data"][0].model_input).toEqual([
      { image: { data: "/wA=", format: "png", expected_tokens: 0 } },
      { dmel: { dmel: "BAEF" } },
      { encoded_text: { tokens: b64(Int32Array.of(1, 2)) } },
    ]);
    const chunks = decodeForwardBackwardRequest(bytes).forwardBackwardInput.data[0]!.modelInput.chunks;
    expect(chunks).toEqual([image, dmel, { type: "encoded_text", tokens: Int32Array.of(1, 2) }]);
    const pointer = new Datum({
      modelInput: new ModelInput([{ type: "image_asset_pointer", format: "png", location: "x" }]),
    });
    expect(() => encodeForwardBackwardRequest(request([pointer]))).toThrow(
      /data\[0\]\.modelInput\.chunks\[0\]: an image pointer cannot be used in training/,
    );
  });

  it("a server reads model and number of a request that it must refuse, and newer fields", () => {
    const bytes = encodeForwardBackwardRequest(request([], { seqId: 7 }));
    expect(peekForwardBackwardRequest(bytes)).toEqual({ modelId: "sess-1:train:0", seqId: 7 });
    const rest = Buffer.concat([bytes, Buffer.from("ffffffff", "hex")]);
    expect(peekForwardBackwardRequest(rest)).toEqual({ modelId: "sess-1:train:0", seqId: 7 });
    expect(peekForwardBackwardRequest(Uint8Array.of(0xff, 0xff))).toBeUndefined();
    expect(peekForwardBackwardRequest(new Uint8Array(0))).toBeUndefined();
    const newer = oracleWrite("ForwardBackwardRequest", {
      model_id: "m",
      loss_fn: "ppo",
      loss_fn_config: { a: 1 },
      loss_fn_config_v2: { a: { number: 1 }, b: { number: 2.5 } },
      data: [{ model_input_spans: [{ prompt_tokens: { sequence_id: "s", length: 3 } }] }],
    });
    const decoded = decodeForwardBackwardRequest(newer);
    expect(decoded.forwardBackwardInput.lossFnConfig).toEqual({ a: 1, b: 2.5 });
    expect(decoded).not.toHaveProperty("seqId");
    const words = oracleWrite("ForwardBackwardRequest", { loss_fn_config_v2: { mode: { text: "x" } } });
    expect(decodeForwardBackwardRequest(words).forwardBackwardInput.lossFnConfig).toEqual({ mode: "x" });
  });

  it("sends texts of a config in the newer field alone, and numbers where every server reads them", () => {
    const lossFnConfig = { loss_id: "l", beta: 0.5 };
    const bytes = encodeForwardBackwardRequest(
      request([], { forwardBackwardInput: { data: [], lossFn: "custom", lossFnConfig } }),
    );
    expect(oracleRead("ForwardBackwardRequest", bytes)).toMatchObject({
      loss_fn_config: { beta: 0.5 },
      loss_fn_config_v2: { loss_id: { text: "l" } },
    });
    expect(decodeForwardBackwardRequest(bytes).forwardBackwardInput.lossFnConfig).toEqual(lossFnConfig);
  });

  it("inconsistent parts are a typed error that names the field", () => {
    const tensor = (value: object) =>
      oracleWrite("ForwardBackwardRequest", { data: [{ loss_fn_inputs: { w: value } }] });
    const four = Buffer.from(Float32Array.of(1).buffer);
    const bad: [Uint8Array, RegExp][] = [
      [
        tensor({ dense: four, dtype: 1, shape: [2] }),
        /data\[0\]\.loss_fn_inputs\.w\.shape: \[2\] has 2 elements, but there are 1 values/,
      ],
      [tensor({ dense: Buffer.from([1, 2, 3]), dtype: 1 }), /3 bytes is not a multiple of the element size 4/],
      [tensor({ dense: four, dtype: 0 }), /element type 0 is not known/],
      [tensor({ dense: four, dtype: 9 }), /element type 9 is not known/],
      [tensor({ dense: four, dtype: 1, shape: [-1] }), /-1 is not a valid dimension/],
      [tensor({ dense: four, dtype: 1, shape: ["9223372036854775807"] }), /is not a valid dimension/],
      [tensor({ sparse_csr: { values: four }, dtype: 1, shape: [1, 1] }), /sparseCrowIndices/],
      [
        oracleWrite("ForwardBackwardRequest", { data: [{ model_input: [{}] }] }),
        /model_input\[0\]: unknown kind of chunk/,
      ],
      [
        oracleWrite("ForwardBackwardRequest", { data: [{ model_input: [{ image: { format: "gif" } }] }] }),
        /format: "gif"/,
      ],
      [
        oracleWrite("ForwardBackwardRequest", {
          data: [{ model_input: [{ encoded_text: { tokens: Buffer.from([1]) } }] }],
        }),
        /tokens/,
      ],
    ];
    for (const [bytes, problem] of bad) {
      expect(() => decodeForwardBackwardRequest(bytes)).toThrow(InvalidInputError);
      expect(() => decodeForwardBackwardRequest(bytes)).toThrow(problem);
    }
    const ok = tensor({ dense: Buffer.from(Int32Array.of(-1, 7).buffer), dtype: 3 });
    expect(decodeForwardBackwardRequest(ok).forwardBackwardInput.data[0]!.lossFnInputs["w"]!.values).toEqual(
      BigInt64Array.of(-1n, 7n),
    );
  });

  it("the encoder does not copy values more than once and keeps views of odd alignment right", () => {
    const memory = new Uint8Array(64);
    const view = new Float32Array(memory.buffer, 4, 3);
    view.set([1.5, -2, 3]);
    const bytes = encodeForwardBackwardRequest(
      request([new Datum({ modelInput: text([1]), lossFnInputs: { weights: view } })]),
    );
    for (const shift of [0, 1, 2, 3]) {
      const shifted = new Uint8Array(bytes.length + shift);
      shifted.set(bytes, shift);
      const back = decodeForwardBackwardRequest(shifted.subarray(shift));
      expect(back.forwardBackwardInput.data[0]!.lossFnInputs["weights"]!.data).toEqual([1.5, -2, 3]);
    }
  });
});

describe("ForwardBackwardOutput", () => {
  const record = (fields: object, more: object = {}) => ({ fields, num_datums: 2, ...more });
  const batched = (values: ArrayBufferView, offsets: number[], dtype: number, trailing: number[] = []) => ({
    data: Buffer.from(values.buffer, values.byteOffset, values.byteLength),
    offsets: Buffer.from(BigInt64Array.from(offsets, BigInt).buffer),
    dtype,
    trailing_shape: trailing,
  });
  const read = (value: object) => decodeForwardBackwardOutput(oracleWrite("ForwardBackwardOutput", value));

  it("M-401: tensors per datum and metrics; the loss is a derived accessor", () => {
    const output = read({
      loss_fn_output_type: "a:b:TorchLossReturn",
      metrics: { "loss:sum": 2.5 },
      loss_fn_outputs: [record({ logprobs: batched(Float32Array.of(1, 2, 3), [0, 4, 12], 1) })],
    });
    expect(output.lossFnOutputType).toBe("TorchLossReturn");
    expect(output.lossFnOutputs.map((each) => each["logprobs"]?.toList())).toEqual([[1], [2, 3]]);
    expect(output.loss).toBe(2.5);
    expect(
      new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs: [], metrics: { "loss:mean": 1 } }).loss,
    ).toBe(1);
    expect(new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs: [] }).loss).toBeUndefined();
    expect(
      forwardBackwardOutputJson.decode({
        loss_fn_output_type: "t",
        loss_fn_outputs: [{ a: { data: [1], dtype: "float32" } }],
      }).lossFnOutputs[0]?.["a"]?.data,
    ).toEqual([1]);
    expect(() => forwardBackwardOutputJson.decode({ loss_fn_output_type: "t", loss_fn_outputs: [{ a: 5 }] })).toThrow(
      /loss_fn_outputs\[0\]\.a/,
    );
  });

  it("widens int32 and bfloat16, keeps trailing shapes and chunks of their own shapes", () => {
    const output = read({
      loss_fn_outputs: [
        record({
          i: batched(Int32Array.of(-5, 6), [0, 4, 8], 3),
          b: batched(Uint16Array.of(0x3f80, 0x4000), [0, 2, 4], 4),
          m: batched(Float32Array.of(1, 2, 3, 4), [0, 0, 16], 1, [2]),
          z: batched(new Float32Array(0), [0, 0, 0], 1, [0, 3]),
        }),
      ],
    });
    expect(output.lossFnOutputType).toBe("");
    const [first, second] = output.lossFnOutputs;
    expect(first!["i"]).toMatchObject({ dtype: "int64", values: BigInt64Array.of(-5n) });
    expect(second!["b"]!.toList()).toEqual([2]);
    expect([first!["m"]!.shape, second!["m"]!.toList(), first!["z"]!.shape]).toEqual([
      [0, 2],
      [
        [1, 2],
        [3, 4],
      ],
      [0, 0, 3],
    ]);
    const several = read({
      loss_fn_outputs: [
        record({ m: batched(Float32Array.of(1, 2), [0, 4, 8], 1) }),
        record({ m: batched(BigInt64Array.of(7n), [0, 8], 2, [1, 1]) }, { num_datums: 0 }),
        record({}, { num_datums: 0 }),
      ],
    });
    expect(several.lossFnOutputs).toHaveLength(3);
    expect(several.lossFnOutputs[2]!["m"]).toMatchObject({ dtype: "int64", shape: [1, 1, 1] });
  });

  it("a record without fields has the stated number of empty results", () => {
    const output = read({ loss_fn_output_type: "a:b", loss_fn_outputs: [record({}, { num_datums: 2 })] });
    expect(output.lossFnOutputs).toEqual([{}, {}]);
    expect(output.lossFnOutputType).toBe("b");
    expect(read({ loss_fn_output_type: "a:b" }).lossFnOutputType).toBe("a:b");
    expect(read({}).lossFnOutputType).toBe("ArrayRecord");
  });

  it("refuses what cannot be right", () => {
    const bad: [object, RegExp][] = [
      [record({ a: batched(Float32Array.of(1), [0, 4], 1) }), /a: covers 1 of 2 data/],
      [record({ a: batched(Float32Array.of(1), [0, 4, 8], 1) }), /4 to 8 is outside 4 bytes/],
      [record({ a: batched(Float32Array.of(1), [4, 0, 4], 1) }), /outside/],
      [record({ a: batched(Float32Array.of(1), [-4, 0, 4], 1) }), /outside/],
      [record({ a: batched(Float32Array.of(1), [0, 2, 4], 1) }), /not a multiple/],
      [record({ a: batched(Float32Array.of(1, 2, 3), [0, 0, 12], 1, [2]) }), /3 elements do not fill rows of 2/],
      [record({ a: batched(Float32Array.of(1), [0, 0, 4], 0) }), /element type 0/],
      [record({}, { num_datums: "4611686018427387904" }), /data without fields/],
      [record({}, { num_datums: -1 }), /num_datums: -1/],
    ];
    for (const [value, problem] of bad) {
      expect(() => read({ loss_fn_outputs: [value] })).toThrow(ResponseValidationError);
      expect(() => read({ loss_fn_outputs: [value] })).toThrow(problem);
    }
  });

  it("M-413: what a server writes a client reads, ragged outputs in several records", () => {
    const output = new ForwardBackwardOutput({
      lossFnOutputType: "ArrayRecord",
      lossFnOutputs: [
        { logprobs: TensorData.from(Float32Array.of(1, 2)), top: TensorData.from([[1, 2]], { dtype: "int64" }) },
        {
          logprobs: TensorData.from(Float32Array.of(3)),
          top: TensorData.from(
            [
              [4, 5],
              [6, 7],
            ],
            { dtype: "int64" },
          ),
        },
        { logprobs: TensorData.from(Float32Array.of(4)), top: TensorData.from([[1, 2, 3]], { dtype: "int64" }) },
      ],
      metrics: { "loss:sum": 0.1, "nan:mean": Number.NaN },
    });
    const bytes = encodeForwardBackwardOutput(output);
    expect(decodeForwardBackwardOutput(bytes)).toEqual(output);
    expect(oracleRead("ForwardBackwardOutput", bytes)["loss_fn_outputs"]).toHaveLength(2);
    const fields = [{ a: TensorData.from(Float32Array.of(1)) }, {}];
    const uneven = new ForwardBackwardOutput({ lossFnOutputType: "t", lossFnOutputs: fields });
    expect(() => decodeForwardBackwardOutput(encodeForwardBackwardOutput(uneven))).toThrow(
      /a: is missing in this record/,
    );
  });
});

describe("SampleResponse", () => {
  it("M-403: sequences, prompt log-probs with null for NaN, top-k without empty cells", () => {
    const bytes = oracleWrite("SampleResponse", {
      sequences: [
        {
          stop_reason: 1,
          tokens: Buffer.from(Int32Array.of(5, 6).buffer),
          logprobs: Buffer.from(Float32Array.of(-0.5, -1).buffer),
        },
        {},
      ],
      prompt_logprobs: Buffer.from(Float32Array.of(Number.NaN, -2).buffer),
      topk_prompt_logprobs: {
        token_ids: Buffer.from(Int32Array.of(0, 0, 9, 0).buffer),
        logprobs: Buffer.from(Float32Array.of(-99999, -99999, -1, -99999).buffer),
        k: 2,
        length: 2,
      },
      prompt_cache_hit_tokens: 3,
    });
    const response = decodeSampleResponse(bytes);
    expect(response.sequences[0]).toMatchObject({ stopReason: "length", tokens: [5, 6], logprobs: [-0.5, -1] });
    expect(response.sequences[1]).toMatchObject({ stopReason: "stop", tokens: [], logprobs: undefined });
    expect(response.promptLogprobs).toEqual([null, -2]);
    expect(response.topkPromptLogprobs).toEqual([null, [[9, -1]]]);
    expect(response.promptCacheHitTokens).toBe(3);
    expect(response.sequences[0]!.tokens).toBe(response.sequences[0]!.tokens);
    expect(JSON.parse(JSON.stringify(response)).sequences[0]).toEqual({
      stopReason: "length",
      tokens: [5, 6],
      logprobs: [-0.5, -1],
    });
    expect(decodeSampleResponse(encodeSampleResponse(response))).toEqual(response);
  });

  it("M-403: absent, empty and zero-sized parts mean that nothing was computed", () => {
    const empty = decodeSampleResponse(new Uint8Array(0));
    expect([empty.sequences, empty.promptLogprobs, empty.topkPromptLogprobs]).toEqual([[], undefined, undefined]);
    const none = decodeSampleResponse(
      oracleWrite("SampleResponse", {
        sequences: [{ logprobs: Buffer.alloc(0) }],
        prompt_logprobs: Buffer.alloc(0),
        topk_prompt_logprobs: { k: 0, length: 5 },
      }),
    );
    expect(none.sequences[0]!.logprobs).toBeUndefined();
    expect([none.promptLogprobs, none.topkPromptLogprobs]).toEqual([undefined, undefined]);
  });

  it("M-102: a stop reason of a newer server survives as its number, in both directions", () => {
    const response = decodeSampleResponse(oracleWrite("SampleResponse", { sequences: [{ stop_reason: 7 }] }));
    expect(response.sequences[0]!.stopReason).toBe("unknown:7");
    expect(decodeSampleResponse(encodeSampleResponse(response))).toEqual(response);
    const odd = new SampleResponse({ sequences: [new SampledSequence({ stopReason: "tired", tokens: [] })] });
    expect(() => encodeSampleResponse(odd)).toThrow(/stopReason: "tired"/);
  });

  it("refuses tables whose size does not fit", () => {
    const table = { token_ids: Buffer.alloc(8), logprobs: Buffer.alloc(4), k: 2, length: 1 };
    expect(() => decodeSampleResponse(oracleWrite("SampleResponse", { topk_prompt_logprobs: table }))).toThrow(
      /2 and 1 cells for 1 × 2/,
    );
    expect(() => decodeSampleResponse(oracleWrite("SampleResponse", { prompt_logprobs: Buffer.alloc(3) }))).toThrow(
      ResponseValidationError,
    );
  });
});

describe("the format itself", () => {
  const messages = Object.keys(gen)
    .filter((name) => name.startsWith("create"))
    .map((name) => name.slice("create".length));
  type Codec = { read: (reader: Reader) => object; size: never; write: never };
  const codec = (name: string): Codec => ({
    read: gen[`read${name}` as "readTensor"],
    size: gen[`size${name}` as "sizeTensor"] as never,
    write: gen[`write${name}` as "writeTensor"] as never,
  });

  it("M-413: agrees with protobufjs on every message, both ways", () => {
    const scalar: Record<string, fc.Arbitrary<unknown>> = {
      string: fc.string({ unit: "binary" }),
      bytes: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      bool: fc.boolean(),
      int32: fc.integer(),
      uint32: fc.nat({ max: 0xffffffff }),
      int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
      uint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
      float: fc.float({ noNaN: true }),
      double: fc.double({ noNaN: true }),
    };
    const arbitrary = (type: protobuf.Type): fc.Arbitrary<object> => {
      const one = (field: protobuf.Field): fc.Arbitrary<unknown> => {
        const of = field.resolvedType;
        return of instanceof protobuf.Type
          ? arbitrary(of)
          : of instanceof protobuf.Enum
            ? fc.integer({ min: 0, max: 9 })
            : scalar[field.type]!;
      };
      const shape = type.fieldsArray.map((field) => {
        const value = one(field);
        if (field.map)
          return fc.dictionary(
            fc.string({ maxLength: 5 }).filter((key) => !key.includes("__proto__")),
            value,
            { maxKeys: 2, noNullPrototype: true },
          );
        return field.repeated ? fc.array(value, { maxLength: 3 }) : fc.option(value, { nil: undefined });
      });
      return fc.tuple(...shape).map((values) => {
        const entries = type.fieldsArray.map((field, i): [string, unknown] => [field.name, values[i]]);
        const seen = new Set<string>();
        // one member of a oneof at a time
        return Object.fromEntries(
          entries.filter(([name, value]) => {
            const group = type.fields[name]?.partOf?.name;
            if (value === undefined || (group !== undefined && seen.has(group))) return false;
            if (group !== undefined) seen.add(group);
            return true;
          }),
        );
      });
    };
    for (const name of messages) {
      const type = oracleType(name);
      fc.assert(
        fc.property(arbitrary(type), (value) => {
          const theirs = Uint8Array.from(oracleWrite(name, value)); // no Buffer: views keep their class
          const { read, size, write } = codec(name);
          const ours = encodeMessage(read(new Reader(theirs)), size, write);
          expect(oracleRead(name, ours)).toEqual(oracleRead(name, theirs));
          // and what we wrote reads back to the same object
          expect(read(new Reader(ours))).toEqual(read(new Reader(theirs)));
        }),
        { numRuns: Math.ceil(runs / 40) },
      );
    }
  });

  it("arbitrary bytes give a value or a typed error, nothing else", () => {
    const decoders: [(bytes: Uint8Array) => unknown, typeof InvalidInputError | typeof ResponseValidationError][] = [
      [decodeForwardBackwardRequest, InvalidInputError],
      [decodeForwardBackwardOutput, ResponseValidationError],
      [decodeSampleResponse, ResponseValidationError],
    ];
    const seeds = [
      encodeForwardBackwardRequest(
        request([new Datum({ modelInput: text([1, 2]), lossFnInputs: { weights: [1, 2], t: Float32Array.of(1) } })]),
      ),
      encodeForwardBackwardOutput(
        new ForwardBackwardOutput({
          lossFnOutputType: "t",
          lossFnOutputs: [{ a: TensorData.from(Float32Array.of(1)) }],
          metrics: { "a:sum": 1 },
        }),
      ),
      encodeSampleResponse(
        new SampleResponse({
          sequences: [new SampledSequence({ stopReason: "stop", tokens: [1, 2], logprobs: [0, 1] })],
        }),
      ),
    ];
    const mutated = fc
      .tuple(fc.constantFrom(...seeds), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }), fc.nat(100))
      .map(([seed, changes, cut]) => {
        const bytes = seed.slice(0, cut > 80 ? Math.floor((seed.length * (cut - 80)) / 20) : seed.length);
        for (const [at, value] of changes) if (bytes.length > 0) bytes[at % bytes.length] = value;
        return bytes;
      });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), mutated), (bytes) => {
        for (const [decode, ErrorClass] of decoders) {
          try {
            decode(bytes);
          } catch (error) {
            if (!(error instanceof ErrorClass)) throw error;
          }
        }
      }),
      { numRuns: runs },
    );
  });

  it("steps over unknown fields and groups, and refuses broken ones", () => {
    const read = (...bytes: number[]) => gen.readStopTokens(new Reader(Uint8Array.from(bytes)));
    // field 15: varint, fixed64, bytes, group (with a field inside), fixed32; then values = [5]
    expect(
      read(
        0x78,
        0x80,
        1,
        0x79,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        0x7a,
        2,
        9,
        9,
        0x7b,
        0x08,
        1,
        0x7c,
        0x7d,
        1,
        2,
        3,
        4,
        0x0a,
        1,
        5,
      ),
    ).toEqual({ values: [5] });
    expect(read(0x08, 5, 0x0a, 2, 6, 7, 0x08, 8)).toEqual({ values: [5, 6, 7, 8] });
    const broken: [number[], RegExp][] = [
      [[0x78], /truncated/],
      [[0x7a, 5, 1], /truncated/],
      [[0x7d, 1], /truncated/],
      [[0x7b, 0x08, 1], /truncated group/],
      [[0x7b, 0x74], /mismatched group/],
      [[0x7e], /wire type 6/],
      [[0x00, 1], /field number 0/],
      [[0x78, ...Array<number>(11).fill(0x80)], /ten bytes/],
      [[0x08, ...Array<number>(11).fill(0xff)], /ten bytes/],
      [[0x0a, 2, 5, 0x80], /truncated/],
      [Array<number>(300).fill(0x7b), /nested too deeply/],
    ];
    for (const [bytes, problem] of broken) {
      expect(() => read(...bytes)).toThrow(WireFormatError);
      expect(() => read(...bytes)).toThrow(problem);
    }
    expect(() => gen.readStopStrings(new Reader(Uint8Array.of(0x0a, 1, 0xff)))).toThrow(/UTF-8/);
    // a length that reaches past the enclosing message must not be believed
    expect(() => gen.readChunk(new Reader(Uint8Array.of(0x0a, 3, 0x0a, 5, 1, 2, 3, 4, 5)))).toThrow(WireFormatError);
  });

  it("merges a message that occurs twice, and the last member of a oneof wins", () => {
    const halves = Buffer.concat([
      oracleWrite("Tensor", { sparse_csr: { values: Buffer.from([1]) } }),
      oracleWrite("Tensor", { sparse_csr: { crow_indices: Buffer.from([2]) } }),
    ]);
    expect(gen.readTensor(new Reader(halves)).sparseCsr).toMatchObject({
      values: Buffer.from([1]),
      crowIndices: Buffer.from([2]),
    });
    const both = Buffer.concat([
      oracleWrite("Tensor", { dense: Buffer.from([1]) }),
      oracleWrite("Tensor", { sparse_csr: {} }),
    ]);
    expect(gen.readTensor(new Reader(both)).dense).toBeUndefined();
  });

  it("integers of all sizes", () => {
    const roundTrip = (value: number | bigint) =>
      gen.readTensor(new Reader(encodeMessage({ dtype: 0, shape: [value] }, gen.sizeTensor, gen.writeTensor))).shape[0];
    const values = [
      0,
      1,
      127,
      128,
      16383,
      16384,
      2 ** 28 - 1,
      2 ** 28,
      2 ** 32 - 1,
      2 ** 32,
      2 ** 53 - 1,
      -1,
      -(2 ** 53) + 1,
    ];
    for (const value of values) expect(roundTrip(value)).toBe(value);
    for (const value of [2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n]) expect(roundTrip(value)).toBe(value);
    for (const seqId of [-1, -(2 ** 31), 2 ** 31 - 1]) {
      expect(oracleRead("ForwardBackwardRequest", encodeForwardBackwardRequest(request([], { seqId })))["seq_id"]).toBe(
        seqId,
      );
    }
  });
});
