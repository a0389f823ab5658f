/**
 * Converts between the generated protobuf types and the API's types: byte fields become typed arrays and back, without a copy where the
 * memory is aligned, else with one block copy. No other file uses the generated types. Arrays on the wire are little-endian, and so are
 * the typed arrays of every platform that runs JavaScript today.
 */

import { describe } from "../describe.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import {
  type PromptAltTokens,
  SampledSequence,
  SampleResponse,
  type StopReason,
  type TopkLogprobs,
} from "../messages/sampling.ts";
import { ForwardBackwardOutput } from "../messages/training.ts";
import type { ForwardBackwardRequest } from "../messages/training-json.ts";
import { omitUndefined } from "../omit-undefined.ts";
import { hasLoneSurrogate } from "../schema/fields.ts";
import { Datum, type LossFnOutput } from "../values/datum.ts";
import { int32Tokens, ModelInput, type ModelInputChunk } from "../values/model-input.ts";
import type { ProvenanceSpans } from "../values/provenance.ts";
import { TensorData } from "../values/tensor-data.ts";
import { encodeMessage, type Int64, Reader, WireFormatError } from "./binary.ts";
import * as gen from "./gen/tinker-public.ts";

/** The content type of the binary messages. */
export const protobufContentType = "application/x-protobuf";

type ElementArray = Int32Array | Float32Array | BigInt64Array | Uint16Array;
interface ArrayClass<T extends ElementArray> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): T;
}

/** The bytes as elements: a view if aligned, else a copy. */
function elements<T extends ElementArray>(Class: ArrayClass<T>, bytes: Uint8Array, field: string): T {
  const size = Class.BYTES_PER_ELEMENT;
  if (bytes.byteLength % size !== 0) {
    throw new WireFormatError(`${field}: ${bytes.byteLength} bytes is not a multiple of the element size ${size}`);
  }
  // not slice(): a Node Buffer's slice() is a view
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes);
  return new Class(aligned.buffer as ArrayBuffer, aligned.byteOffset, aligned.byteLength / size);
}

const bytesOf = (values: ArrayBufferView): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

/** Runs a decoder; converts a WireFormatError with `fail`. */
function decoding<T>(body: () => T, fail: (problem: string, cause: unknown) => Error): T {
  try {
    return body();
  } catch (error) {
    if (error instanceof WireFormatError) throw fail(error.message, error);
    if (error instanceof InvalidInputError) throw fail(error.message, error);
    throw error;
  }
}
const badAnswer = (name: string) => (problem: string, cause: unknown) =>
  new ResponseValidationError(name, problem, { cause });

function dimensions(shape: readonly Int64[], field: string): number[] {
  return shape.map((size) => {
    if (typeof size === "bigint" || size < 0) throw new WireFormatError(`${field}: ${size} is not a valid dimension`);
    return size;
  });
}

// ---- ForwardBackwardRequest -------------------------------------------------------------------------------------

/** Encodes a training request. Each tensor's memory is copied once, into a buffer of the exact size. */
export function encodeForwardBackwardRequest(request: ForwardBackwardRequest): Uint8Array {
  return encodeUnnumberedPass(request)(request.seqId ?? 0);
}

/**
 * Encodes a training request without its sequence number, which a client assigns only when it sends the request. After this call the
 * caller may change its arrays. The number is written before the rest, so that nothing is copied twice.
 *
 * @returns a function that returns the bytes with a sequence number. Each call writes into the same memory.
 */
export function encodeUnnumberedPass(request: Omit<ForwardBackwardRequest, "seqId">): (seqId: number) => Uint8Array {
  const { forwardBackwardInput: input, modelId } = request;
  const config = new Map<string, number>();
  const texts = new Map<string, gen.LossConfigValue>(); // strings only: numbers are in the field that all server versions read
  for (const [key, value] of Object.entries(input.lossFnConfig ?? {})) {
    if (typeof value === "number") config.set(key, value);
    else if (typeof value === "string" && !hasLoneSurrogate(value)) texts.set(key, { text: value });
    else throw new InvalidInputError(`lossFnConfig.${key}`, `must be a number or a string, not ${describe(value)}`);
  }
  for (const [field, text] of Object.entries({ modelId, lossFn: input.lossFn })) {
    if (typeof text !== "string" || hasLoneSurrogate(text)) {
      throw new InvalidInputError(field, `must be a string without lone surrogates, not ${describe(text)}`);
    }
  }
  const headroom = passHeader(modelId, -1).length; // a negative number has the longest encoding
  const bytes = encodeMessage(
    {
      ...gen.createForwardBackwardRequest(),
      data: input.data.map((datum, i) => datumToProto(datum, `data[${i}]`)),
      lossFn: input.lossFn,
      lossFnConfig: config,
      forwardOnly: request.forwardOnly ?? false,
      lossFnConfigV2: texts,
    },
    gen.sizeForwardBackwardRequest,
    gen.writeForwardBackwardRequest,
    headroom,
  );
  return (seqId) => {
    if ((seqId | 0) !== seqId) {
      throw new InvalidInputError("seqId", `must be an integer of 32 bits, not ${describe(seqId)}`);
    }
    const header = passHeader(modelId, seqId);
    bytes.set(header, headroom - header.length);
    return bytes.subarray(headroom - header.length);
  };
}

/** The first two fields of a training request. */
function passHeader(modelId: string, seqId: number): Uint8Array {
  return encodeMessage(
    { ...gen.createForwardBackwardRequest(), modelId, seqId },
    gen.sizeForwardBackwardRequest,
    gen.writeForwardBackwardRequest,
  );
}

function datumToProto(datum: Datum, field: string): gen.Datum {
  if (!(datum instanceof Datum)) throw new InvalidInputError(field, `must be a Datum, not ${describe(datum)}`);
  const lossFnInputs = new Map<string, gen.Tensor>();
  for (const [key, tensor] of Object.entries(datum.lossFnInputs)) lossFnInputs.set(key, tensorToProto(tensor));
  return {
    modelInput: datum.modelInput.chunks.map((chunk, i) => chunkToProto(chunk, `${field}.modelInput.chunks[${i}]`)),
    lossFnInputs,
    modelInputSpans: datum.modelInputSpans?.map(spanToProto) ?? [],
    lossFnInputSpans: datum.lossFnInputSpans?.map(spanToProto) ?? [],
  };
}

function spanToProto({ type, sequenceId, offset = 0, length }: ProvenanceSpans[number]): gen.ProvenanceSpan {
  const run = { sequenceId, offset, length };
  return type === "prompt" ? { promptTokens: run } : { sampledTokens: run };
}

function spanFromProto({ promptTokens, sampledTokens }: gen.ProvenanceSpan): ProvenanceSpans[number] {
  const { sequenceId, offset, length } = promptTokens ?? sampledTokens ?? { sequenceId: "", offset: 0, length: 0 };
  const type = promptTokens === undefined ? "sampled" : "prompt";
  return { type, sequenceId, offset: Number(offset), length: Number(length) };
}

function chunkToProto(chunk: ModelInputChunk, field: string): gen.Chunk {
  switch (chunk.type) {
    case "encoded_text": {
      return { encodedText: { tokens: bytesOf(int32Tokens(chunk.tokens, `${field}.tokens`)) } };
    }
    case "image":
      return { image: { data: chunk.data, format: chunk.format, expectedTokens: chunk.expectedTokens } };
    case "dmel":
      return { dmel: { dmel: chunk.dmel } };
    case "image_asset_pointer":
      throw new InvalidInputError(field, "an image pointer cannot be used in training", {
        hint: "Image pointers are for sampling prompts; for training use an ImageChunk with the image's bytes.",
      });
  }
}

function tensorToProto(tensor: TensorData): gen.Tensor {
  const dtype = tensor.dtype === "float32" ? gen.DType.DTYPE_FLOAT32 : gen.DType.DTYPE_INT64;
  const shape = tensor.shape === undefined ? [] : [...tensor.shape];
  const { sparseCrowIndices: crow, sparseColIndices: col } = tensor;
  if (crow === undefined || col === undefined) return { dense: bytesOf(tensor.values), dtype, shape };
  const sparseCsr = { values: bytesOf(tensor.values), crowIndices: bytesOf(crow), colIndices: bytesOf(col) };
  return { sparseCsr, dtype, shape };
}

/** Decodes a training request (for servers). @throws {@link InvalidInputError} naming the field. */
export function decodeForwardBackwardRequest(bytes: Uint8Array): ForwardBackwardRequest {
  return decoding(
    () => {
      const raw = gen.readForwardBackwardRequest(new Reader(bytes));
      const config: Record<string, number | string> = Object.fromEntries(raw.lossFnConfig);
      for (const [key, value] of raw.lossFnConfigV2) {
        const given = value.number ?? value.text;
        if (given !== undefined) config[key] = given;
      }
      return {
        forwardBackwardInput: {
          data: raw.data.map((datum, i) => datumFromProto(datum, `data[${i}]`)),
          lossFn: raw.lossFn,
          ...(Object.keys(config).length === 0 ? {} : { lossFnConfig: config }),
        },
        modelId: raw.modelId,
        ...(raw.seqId === 0 ? {} : { seqId: raw.seqId }),
        forwardOnly: raw.forwardOnly,
      };
    },
    (problem, cause) => new InvalidInputError("ForwardBackwardRequest", problem, { cause }),
  );
}

/** Model and sequence number of a training request that a server rejects: the number must be marked as used. */
export function peekForwardBackwardRequest(bytes: Uint8Array): { modelId: string; seqId: number } | undefined {
  try {
    const reader = new Reader(bytes);
    let modelId = "";
    let seqId = 0;
    for (let tag = reader.tag(); tag !== 0 && (modelId === "" || seqId === 0); tag = reader.tag()) {
      if (tag === 10) modelId = reader.string();
      else if (tag === 16) seqId = reader.int32();
      else reader.skip(tag);
    }
    return modelId === "" || seqId === 0 ? undefined : { modelId, seqId };
  } catch (error) {
    if (error instanceof WireFormatError) return undefined;
    throw error;
  }
}

function datumFromProto(datum: gen.Datum, field: string): Datum {
  const chunks = datum.modelInput.map((chunk, i) => chunkFromProto(chunk, `${field}.model_input[${i}]`));
  const lossFnInputs = Object.fromEntries(
    Array.from(datum.lossFnInputs, ([key, tensor]) => [key, tensorFromProto(tensor, `${field}.loss_fn_inputs.${key}`)]),
  );
  const traced = datum.modelInputSpans.length + datum.lossFnInputSpans.length > 0;
  const spans = {
    modelInputSpans: datum.modelInputSpans.map(spanFromProto),
    lossFnInputSpans: datum.lossFnInputSpans.map(spanFromProto),
  };
  return new Datum({ modelInput: new ModelInput(chunks), lossFnInputs, ...(traced ? spans : {}) });
}

function chunkFromProto(chunk: gen.Chunk, field: string): ModelInputChunk {
  if (chunk.encodedText !== undefined) {
    return { type: "encoded_text", tokens: elements(Int32Array, chunk.encodedText.tokens, `${field}.tokens`) };
  }
  if (chunk.image !== undefined) {
    const { data, format, expectedTokens } = chunk.image;
    if (format !== "png" && format !== "jpeg") throw new WireFormatError(`${field}.format: ${describe(format)}`);
    return { type: "image", data, format, ...omitUndefined({ expectedTokens }) };
  }
  if (chunk.dmel !== undefined) return { type: "dmel", dmel: chunk.dmel.dmel };
  throw new WireFormatError(`${field}: unknown kind of chunk`);
}

function tensorFromProto(tensor: gen.Tensor, field: string): TensorData {
  const shape = tensor.shape.length === 0 ? undefined : dimensions(tensor.shape, `${field}.shape`);
  const sparse = tensor.sparseCsr;
  const { dtype, values } = widened(tensor.dtype, sparse?.values ?? tensor.dense ?? new Uint8Array(0), field);
  return TensorData.ofParts(
    sparse === undefined
      ? { dtype, values, shape: shape ?? [values.length] }
      : {
          dtype,
          values,
          shape,
          sparseCrowIndices: elements(BigInt64Array, sparse.crowIndices, `${field}.crow_indices`),
          sparseColIndices: elements(BigInt64Array, sparse.colIndices, `${field}.col_indices`),
        },
    field,
  );
}

/** Converts wire elements to the API's types: int32 and int64 to int64, bfloat16 and float32 to float32. */
function widened(
  dtype: number,
  bytes: Uint8Array,
  field: string,
): { dtype: "float32" | "int64"; values: Float32Array | BigInt64Array } {
  switch (dtype) {
    case gen.DType.DTYPE_FLOAT32:
      return { dtype: "float32", values: elements(Float32Array, bytes, field) };
    case gen.DType.DTYPE_INT64:
      return { dtype: "int64", values: elements(BigInt64Array, bytes, field) };
    case gen.DType.DTYPE_INT32: {
      const values = elements(Int32Array, bytes, field);
      return { dtype: "int64", values: TensorData.from(values).values as BigInt64Array };
    }
    case gen.DType.DTYPE_BFLOAT16: {
      const halves = elements(Uint16Array, bytes, field);
      const values = new Float32Array(halves.length);
      const words = new Uint32Array(values.buffer);
      for (let i = 0; i < halves.length; i++) words[i] = halves[i]! << 16; // bfloat16 is the upper half of a float32
      return { dtype: "float32", values };
    }
    default:
      throw new WireFormatError(`${field}: element type ${dtype} is not known`);
  }
}

// ---- ForwardBackwardOutput --------------------------------------------------------------------------------------

const wireElementSizes: Readonly<Record<number, number>> = {
  [gen.DType.DTYPE_FLOAT32]: 4,
  [gen.DType.DTYPE_INT64]: 8,
  [gen.DType.DTYPE_INT32]: 4,
  [gen.DType.DTYPE_BFLOAT16]: 2,
};

/** Decodes the result of a pass. @throws {@link ResponseValidationError} when the bytes are invalid. */
export function decodeForwardBackwardOutput(bytes: Uint8Array): ForwardBackwardOutput {
  return decoding(() => {
    const raw = gen.readForwardBackwardOutput(new Reader(bytes));
    const told = raw.lossFnOutputType;
    const names = new Set(raw.lossFnOutputs.flatMap((record) => [...record.fields.keys()]));
    return new ForwardBackwardOutput({
      // as in the official client: the class name without its module if there are records, else the received string
      lossFnOutputType: raw.lossFnOutputs.length > 0 ? told.slice(told.lastIndexOf(":") + 1) : told || "ArrayRecord",
      lossFnOutputs: raw.lossFnOutputs.flatMap((record, i) => recordDatums(record, names, `loss_fn_outputs[${i}]`)),
      metrics: Object.fromEntries(raw.metrics),
    });
  }, badAnswer("ForwardBackwardOutput"));
}

/** A record has the same fields for several data; the values of each field are concatenated. */
function recordDatums(record: gen.ArrayRecord, names: ReadonlySet<string>, field: string): LossFnOutput[] {
  const columns = Array.from(record.fields, ([name, batched]) => ({
    name,
    tensors: splitBatched(batched, `${field}.${name}`),
  }));
  const told = Number(record.numDatums);
  if (told < 0) throw new WireFormatError(`${field}.num_datums: ${told}`);
  const count = told > 0 ? told : (columns[0]?.tensors.length ?? 0);
  for (const name of names) {
    if (count > 0 && !record.fields.has(name)) throw new WireFormatError(`${field}.${name}: is missing in this record`);
  }
  if (columns.length === 0 && count > 1e7) throw new WireFormatError(`${field}: ${count} data without fields`);
  for (const { name, tensors } of columns) {
    if (tensors.length !== count) {
      throw new WireFormatError(`${field}.${name}: covers ${tensors.length} of ${count} data`);
    }
  }
  return Array.from({ length: count }, (_, i) =>
    Object.fromEntries(columns.map(({ name, tensors }) => [name, tensors[i] as TensorData])),
  );
}

function splitBatched(batched: gen.BatchedTensor, field: string): TensorData[] {
  const size = wireElementSizes[batched.dtype];
  if (size === undefined) throw new WireFormatError(`${field}: element type ${batched.dtype} is not known`);
  const offsets = elements(BigInt64Array, batched.offsets, `${field}.offsets`);
  const trailing = dimensions(batched.trailingShape, `${field}.trailing_shape`);
  const row = trailing.reduce((a, b) => a * b, 1);
  const tensors: TensorData[] = [];
  for (let i = 0; i + 1 < offsets.length; i++) {
    const [start, end] = [Number(offsets[i]), Number(offsets[i + 1])]; // offsets in bytes, in the wire's element type
    if (!(start >= 0 && start <= end && end <= batched.data.byteLength)) {
      throw new WireFormatError(`${field}.offsets: ${start} to ${end} is outside ${batched.data.byteLength} bytes`);
    }
    const { dtype, values } = widened(batched.dtype, batched.data.subarray(start, end), field);
    if (row > 0 && values.length % row !== 0) {
      throw new WireFormatError(`${field}: ${values.length} elements do not fill rows of ${row}`);
    }
    tensors.push(
      TensorData.ofParts({ dtype, values, shape: [row === 0 ? 0 : values.length / row, ...trailing] }, field),
    );
  }
  return tensors;
}

/** Encodes the result of a pass (for servers). */
export function encodeForwardBackwardOutput(output: ForwardBackwardOutput): Uint8Array {
  return encodeMessage(
    {
      lossFnOutputType: output.lossFnOutputType,
      lossFnOutputs: rectangularRuns(output.lossFnOutputs).map((run) => recordToProto(run, output.lossFnOutputType)),
      metrics: new Map(Object.entries(output.metrics)),
    },
    gen.sizeForwardBackwardOutput,
    gen.writeForwardBackwardOutput,
  );
}

/** Splits data into runs with the same field names, types and trailing shapes, as a record requires. */
function rectangularRuns(outputs: readonly LossFnOutput[]): LossFnOutput[][] {
  const runs: LossFnOutput[][] = [];
  let previous: string | undefined;
  for (const output of outputs) {
    const signature = JSON.stringify(
      Object.entries(output)
        .map(([name, tensor]) => [name, tensor.dtype, (tensor.shape ?? [0]).slice(1)])
        .sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1)),
    );
    if (signature === previous) runs.at(-1)!.push(output);
    else runs.push([output]);
    previous = signature;
  }
  return runs;
}

function recordToProto(run: readonly LossFnOutput[], typeTag: string): gen.ArrayRecord {
  const fields = new Map<string, gen.BatchedTensor>();
  for (const name of Object.keys(run[0] ?? {})) {
    const tensors = run.map((output) => output[name]!.toDense());
    const data = new Uint8Array(tensors.reduce((sum, tensor) => sum + tensor.values.byteLength, 0));
    const offsets = new BigInt64Array(tensors.length + 1);
    let position = 0;
    for (const [i, tensor] of tensors.entries()) {
      data.set(bytesOf(tensor.values), position);
      position += tensor.values.byteLength;
      offsets[i + 1] = BigInt(position);
    }
    fields.set(name, {
      data,
      offsets: bytesOf(offsets),
      dtype: tensors[0]!.dtype === "float32" ? gen.DType.DTYPE_FLOAT32 : gen.DType.DTYPE_INT64,
      trailingShape: (tensors[0]!.shape ?? [0]).slice(1),
    });
  }
  return { typeTag, fields, numDatums: run.length };
}

// ---- SampleResponse ---------------------------------------------------------------------------------------------

const stopReasons: readonly StopReason[] = ["stop", "length"];

/** Decodes the result of sampling; arrays are views of `bytes`. @throws {@link ResponseValidationError}. */
export function decodeSampleResponse(bytes: Uint8Array): SampleResponse {
  return decoding(() => {
    const raw = gen.readSampleResponse(new Reader(bytes));
    return new SampleResponse({
      sequences: raw.sequences.map(
        (sequence, i) =>
          new SampledSequence({
            stopReason: stopReasons[sequence.stopReason] ?? `unknown:${sequence.stopReason}`,
            tokens: elements(Int32Array, sequence.tokens, `sequences[${i}].tokens`),
            logprobs: optionalFloats(sequence.logprobs, `sequences[${i}].logprobs`),
            topkSampledLogprobs: topkFromProto(sequence.topkSampledLogprobs, `sequences[${i}].topk_sampled_logprobs`),
          }),
      ),
      promptLogprobs: optionalFloats(raw.promptLogprobs, "prompt_logprobs"),
      topkPromptLogprobs: topkFromProto(raw.topkPromptLogprobs, "topk_prompt_logprobs"),
      targetPromptLogprobs:
        raw.targetPromptLogprobs && tensorFromProto(raw.targetPromptLogprobs, "target_prompt_logprobs"),
      promptAltTokens: altTokensFromProto(raw.promptAltTokens, "prompt_alt_tokens"),
      promptCacheHitTokens: raw.promptCacheHitTokens,
    });
  }, badAnswer("SampleResponse"));
}

/** An absent and an empty array both mean that nothing was computed. */
function optionalFloats(bytes: Uint8Array | undefined, field: string): Float32Array | undefined {
  return bytes === undefined || bytes.byteLength === 0 ? undefined : elements(Float32Array, bytes, field);
}

function topkFromProto(topk: gen.TopkLogprobs | undefined, field: string): TopkLogprobs | undefined {
  if (topk === undefined || topk.k === 0 || topk.length === 0) return undefined;
  const tokenIds = elements(Int32Array, topk.tokenIds, `${field}.token_ids`);
  const logprobs = elements(Float32Array, topk.logprobs, `${field}.logprobs`);
  if (tokenIds.length !== topk.k * topk.length || logprobs.length !== tokenIds.length) {
    throw new WireFormatError(
      `${field}: ${tokenIds.length} and ${logprobs.length} cells for ${topk.length} × ${topk.k}`,
    );
  }
  return { tokenIds, logprobs, k: topk.k, length: topk.length };
}

function altTokensFromProto(alt: gen.PromptAltTokens | undefined, field: string): PromptAltTokens | undefined {
  if (alt === undefined) return undefined;
  const { tokens, logprobs } = alt;
  if (tokens === undefined || logprobs === undefined) throw new WireFormatError(`${field}: lacks one of its tensors`);
  return {
    tokens: tensorFromProto(tokens, `${field}.tokens`),
    logprobs: tensorFromProto(logprobs, `${field}.logprobs`),
  };
}

/** Encodes the result of sampling (for servers). */
export function encodeSampleResponse(response: SampleResponse): Uint8Array {
  const topk = (table: TopkLogprobs | undefined): gen.TopkLogprobs | undefined =>
    table && {
      tokenIds: bytesOf(table.tokenIds),
      logprobs: bytesOf(table.logprobs),
      k: table.k,
      length: table.length,
    };
  return encodeMessage(
    {
      sequences: response.sequences.map((sequence) => ({
        stopReason: stopReasonNumber(sequence.stopReason),
        tokens: bytesOf(sequence.tokenArray),
        logprobs: sequence.logprobArray && bytesOf(sequence.logprobArray),
        topkSampledLogprobs: topk(sequence.topkSampledLogprobs),
      })),
      promptLogprobs: response.promptLogprobArray && bytesOf(response.promptLogprobArray),
      topkPromptLogprobs: topk(response.topkPromptLogprobTable),
      promptCacheHitTokens: response.promptCacheHitTokens,
      targetPromptLogprobs: response.targetPromptLogprobs && tensorToProto(response.targetPromptLogprobs),
      promptAltTokens: response.promptAltTokens && {
        tokens: tensorToProto(response.promptAltTokens.tokens),
        logprobs: tensorToProto(response.promptAltTokens.logprobs),
      },
    },
    gen.sizeSampleResponse,
    gen.writeSampleResponse,
  );
}

function stopReasonNumber(reason: StopReason): number {
  const known = stopReasons.indexOf(reason);
  if (known >= 0) return known;
  const kept = /^unknown:(-?\d+)$/.exec(reason);
  if (kept === null) throw new InvalidInputError("stopReason", `${describe(reason)} has no protobuf enum value`);
  return Number(kept[1]);
}
