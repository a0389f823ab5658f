// Generated from tinker_public.proto by `npm run proto`. Do not edit.
/* eslint-disable */
import { delimitedSize, int32Size, int64Size, varintSize, type Int64, type Reader, type Sizer, type Writer } from "../binary.ts";

const emptyBytes = new Uint8Array(0);

export const StopReason = {"STOP_REASON_STOP":0,"STOP_REASON_LENGTH":1} as const;

export const DType = {"DTYPE_UNSPECIFIED":0,"DTYPE_FLOAT32":1,"DTYPE_INT64":2,"DTYPE_INT32":3,"DTYPE_BFLOAT16":4} as const;

export interface SampleResponse {
  sequences: SampledSequence[];
  promptLogprobs?: Uint8Array | undefined;
  topkPromptLogprobs?: TopkLogprobs | undefined;
  promptCacheHitTokens: number;
  targetPromptLogprobs?: Tensor | undefined;
  promptAltTokens?: PromptAltTokens | undefined;
}

export function createSampleResponse(): SampleResponse {
  return {
    sequences: [],
    promptCacheHitTokens: 0,
  };
}

export function sizeSampleResponse(message: SampleResponse, sizer: Sizer): number {
  let size = 0;
  for (const item of message.sequences) size += 1 + sizer.close(sizer.open(), sizeSampledSequence(item, sizer));
  if (message.promptLogprobs !== undefined) {
    const value = message.promptLogprobs;
    size += 1 + delimitedSize(value.byteLength);
  }
  if (message.topkPromptLogprobs !== undefined) {
    const value = message.topkPromptLogprobs;
    size += 1 + sizer.close(sizer.open(), sizeTopkLogprobs(value, sizer));
  }
  if (!(message.promptCacheHitTokens === 0)) size += 1 + int32Size(message.promptCacheHitTokens);
  if (message.targetPromptLogprobs !== undefined) {
    const value = message.targetPromptLogprobs;
    size += 1 + sizer.close(sizer.open(), sizeTensor(value, sizer));
  }
  if (message.promptAltTokens !== undefined) {
    const value = message.promptAltTokens;
    size += 1 + sizer.close(sizer.open(), sizePromptAltTokens(value, sizer));
  }
  return size;
}

export function writeSampleResponse(message: SampleResponse, writer: Writer): void {
  for (const item of message.sequences) {
    writer.uint32(10);
    writer.nestedSize(); writeSampledSequence(item, writer);
  }
  if (message.promptLogprobs !== undefined) {
    writer.uint32(18);
    writer.byteArray(message.promptLogprobs);
  }
  if (message.topkPromptLogprobs !== undefined) {
    writer.uint32(26);
    writer.nestedSize(); writeTopkLogprobs(message.topkPromptLogprobs, writer);
  }
  if (!(message.promptCacheHitTokens === 0)) {
    writer.uint32(32);
    writer.int32(message.promptCacheHitTokens);
  }
  if (message.targetPromptLogprobs !== undefined) {
    writer.uint32(42);
    writer.nestedSize(); writeTensor(message.targetPromptLogprobs, writer);
  }
  if (message.promptAltTokens !== undefined) {
    writer.uint32(50);
    writer.nestedSize(); writePromptAltTokens(message.promptAltTokens, writer);
  }
}

export function readSampleResponse(reader: Reader, into: SampleResponse = createSampleResponse()): SampleResponse {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.sequences.push(reader.nested((r) => readSampledSequence(r)));
        break;
      case 18:
        into.promptLogprobs = reader.byteArray();
        break;
      case 26: {
        const before = into.topkPromptLogprobs;
        into.topkPromptLogprobs = reader.nested((r) => readTopkLogprobs(r, before));
        break;
      }
      case 32:
        into.promptCacheHitTokens = reader.int32();
        break;
      case 42: {
        const before = into.targetPromptLogprobs;
        into.targetPromptLogprobs = reader.nested((r) => readTensor(r, before));
        break;
      }
      case 50: {
        const before = into.promptAltTokens;
        into.promptAltTokens = reader.nested((r) => readPromptAltTokens(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface PromptAltTokens {
  tokens?: Tensor | undefined;
  logprobs?: Tensor | undefined;
}

export function createPromptAltTokens(): PromptAltTokens {
  return {
  };
}

export function sizePromptAltTokens(message: PromptAltTokens, sizer: Sizer): number {
  let size = 0;
  if (message.tokens !== undefined) {
    const value = message.tokens;
    size += 1 + sizer.close(sizer.open(), sizeTensor(value, sizer));
  }
  if (message.logprobs !== undefined) {
    const value = message.logprobs;
    size += 1 + sizer.close(sizer.open(), sizeTensor(value, sizer));
  }
  return size;
}

export function writePromptAltTokens(message: PromptAltTokens, writer: Writer): void {
  if (message.tokens !== undefined) {
    writer.uint32(10);
    writer.nestedSize(); writeTensor(message.tokens, writer);
  }
  if (message.logprobs !== undefined) {
    writer.uint32(18);
    writer.nestedSize(); writeTensor(message.logprobs, writer);
  }
}

export function readPromptAltTokens(reader: Reader, into: PromptAltTokens = createPromptAltTokens()): PromptAltTokens {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10: {
        const before = into.tokens;
        into.tokens = reader.nested((r) => readTensor(r, before));
        break;
      }
      case 18: {
        const before = into.logprobs;
        into.logprobs = reader.nested((r) => readTensor(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface SampledSequence {
  stopReason: number;
  tokens: Uint8Array;
  logprobs?: Uint8Array | undefined;
  topkSampledLogprobs?: TopkLogprobs | undefined;
}

export function createSampledSequence(): SampledSequence {
  return {
    stopReason: 0,
    tokens: emptyBytes,
  };
}

export function sizeSampledSequence(message: SampledSequence, sizer: Sizer): number {
  let size = 0;
  if (!(message.stopReason === 0)) size += 1 + int32Size(message.stopReason);
  if (!(message.tokens.byteLength === 0)) size += 1 + delimitedSize(message.tokens.byteLength);
  if (message.logprobs !== undefined) {
    const value = message.logprobs;
    size += 1 + delimitedSize(value.byteLength);
  }
  if (message.topkSampledLogprobs !== undefined) {
    const value = message.topkSampledLogprobs;
    size += 1 + sizer.close(sizer.open(), sizeTopkLogprobs(value, sizer));
  }
  return size;
}

export function writeSampledSequence(message: SampledSequence, writer: Writer): void {
  if (!(message.stopReason === 0)) {
    writer.uint32(8);
    writer.int32(message.stopReason);
  }
  if (!(message.tokens.byteLength === 0)) {
    writer.uint32(18);
    writer.byteArray(message.tokens);
  }
  if (message.logprobs !== undefined) {
    writer.uint32(26);
    writer.byteArray(message.logprobs);
  }
  if (message.topkSampledLogprobs !== undefined) {
    writer.uint32(34);
    writer.nestedSize(); writeTopkLogprobs(message.topkSampledLogprobs, writer);
  }
}

export function readSampledSequence(reader: Reader, into: SampledSequence = createSampledSequence()): SampledSequence {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 8:
        into.stopReason = reader.int32();
        break;
      case 18:
        into.tokens = reader.byteArray();
        break;
      case 26:
        into.logprobs = reader.byteArray();
        break;
      case 34: {
        const before = into.topkSampledLogprobs;
        into.topkSampledLogprobs = reader.nested((r) => readTopkLogprobs(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface TopkLogprobs {
  tokenIds: Uint8Array;
  logprobs: Uint8Array;
  k: number;
  length: number;
}

export function createTopkLogprobs(): TopkLogprobs {
  return {
    tokenIds: emptyBytes,
    logprobs: emptyBytes,
    k: 0,
    length: 0,
  };
}

export function sizeTopkLogprobs(message: TopkLogprobs, _sizer: Sizer): number {
  let size = 0;
  if (!(message.tokenIds.byteLength === 0)) size += 1 + delimitedSize(message.tokenIds.byteLength);
  if (!(message.logprobs.byteLength === 0)) size += 1 + delimitedSize(message.logprobs.byteLength);
  if (!(message.k === 0)) size += 1 + varintSize(message.k);
  if (!(message.length === 0)) size += 1 + varintSize(message.length);
  return size;
}

export function writeTopkLogprobs(message: TopkLogprobs, writer: Writer): void {
  if (!(message.tokenIds.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.tokenIds);
  }
  if (!(message.logprobs.byteLength === 0)) {
    writer.uint32(18);
    writer.byteArray(message.logprobs);
  }
  if (!(message.k === 0)) {
    writer.uint32(24);
    writer.uint32(message.k);
  }
  if (!(message.length === 0)) {
    writer.uint32(32);
    writer.uint32(message.length);
  }
}

export function readTopkLogprobs(reader: Reader, into: TopkLogprobs = createTopkLogprobs()): TopkLogprobs {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.tokenIds = reader.byteArray();
        break;
      case 18:
        into.logprobs = reader.byteArray();
        break;
      case 24:
        into.k = reader.uint32();
        break;
      case 32:
        into.length = reader.uint32();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface SparseCsr {
  values: Uint8Array;
  crowIndices: Uint8Array;
  colIndices: Uint8Array;
}

export function createSparseCsr(): SparseCsr {
  return {
    values: emptyBytes,
    crowIndices: emptyBytes,
    colIndices: emptyBytes,
  };
}

export function sizeSparseCsr(message: SparseCsr, _sizer: Sizer): number {
  let size = 0;
  if (!(message.values.byteLength === 0)) size += 1 + delimitedSize(message.values.byteLength);
  if (!(message.crowIndices.byteLength === 0)) size += 1 + delimitedSize(message.crowIndices.byteLength);
  if (!(message.colIndices.byteLength === 0)) size += 1 + delimitedSize(message.colIndices.byteLength);
  return size;
}

export function writeSparseCsr(message: SparseCsr, writer: Writer): void {
  if (!(message.values.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.values);
  }
  if (!(message.crowIndices.byteLength === 0)) {
    writer.uint32(18);
    writer.byteArray(message.crowIndices);
  }
  if (!(message.colIndices.byteLength === 0)) {
    writer.uint32(26);
    writer.byteArray(message.colIndices);
  }
}

export function readSparseCsr(reader: Reader, into: SparseCsr = createSparseCsr()): SparseCsr {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.values = reader.byteArray();
        break;
      case 18:
        into.crowIndices = reader.byteArray();
        break;
      case 26:
        into.colIndices = reader.byteArray();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Tensor {
  dense?: Uint8Array | undefined;
  sparseCsr?: SparseCsr | undefined;
  dtype: number;
  shape: Int64[];
}

export function createTensor(): Tensor {
  return {
    dtype: 0,
    shape: [],
  };
}

export function sizeTensor(message: Tensor, sizer: Sizer): number {
  let size = 0;
  if (message.dense !== undefined) {
    const value = message.dense;
    size += 1 + delimitedSize(value.byteLength);
  }
  if (message.sparseCsr !== undefined) {
    const value = message.sparseCsr;
    size += 1 + sizer.close(sizer.open(), sizeSparseCsr(value, sizer));
  }
  if (!(message.dtype === 0)) size += 1 + int32Size(message.dtype);
  if (message.shape.length > 0) {
    let packed = 0;
    for (const item of message.shape) packed += int64Size(item);
    size += 1 + delimitedSize(packed);
  }
  return size;
}

export function writeTensor(message: Tensor, writer: Writer): void {
  if (message.dense !== undefined) {
    writer.uint32(10);
    writer.byteArray(message.dense);
  }
  if (message.sparseCsr !== undefined) {
    writer.uint32(18);
    writer.nestedSize(); writeSparseCsr(message.sparseCsr, writer);
  }
  if (!(message.dtype === 0)) {
    writer.uint32(24);
    writer.int32(message.dtype);
  }
  if (message.shape.length > 0) {
    let packed = 0;
    for (const item of message.shape) packed += int64Size(item);
    writer.uint32(34);
    writer.uint32(packed);
    for (const item of message.shape) writer.int64(item);
  }
}

export function readTensor(reader: Reader, into: Tensor = createTensor()): Tensor {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.sparseCsr = undefined; into.dense = reader.byteArray();
        break;
      case 18: {
        into.dense = undefined; const before = into.sparseCsr;
        into.sparseCsr = reader.nested((r) => readSparseCsr(r, before));
        break;
      }
      case 24:
        into.dtype = reader.int32();
        break;
      case 34:
      case 32:
        reader.repeated(tag, (r) => r.int64(), into.shape);
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface BatchedTensor {
  data: Uint8Array;
  offsets: Uint8Array;
  dtype: number;
  trailingShape: Int64[];
}

export function createBatchedTensor(): BatchedTensor {
  return {
    data: emptyBytes,
    offsets: emptyBytes,
    dtype: 0,
    trailingShape: [],
  };
}

export function sizeBatchedTensor(message: BatchedTensor, _sizer: Sizer): number {
  let size = 0;
  if (!(message.data.byteLength === 0)) size += 1 + delimitedSize(message.data.byteLength);
  if (!(message.offsets.byteLength === 0)) size += 1 + delimitedSize(message.offsets.byteLength);
  if (!(message.dtype === 0)) size += 1 + int32Size(message.dtype);
  if (message.trailingShape.length > 0) {
    let packed = 0;
    for (const item of message.trailingShape) packed += int64Size(item);
    size += 1 + delimitedSize(packed);
  }
  return size;
}

export function writeBatchedTensor(message: BatchedTensor, writer: Writer): void {
  if (!(message.data.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.data);
  }
  if (!(message.offsets.byteLength === 0)) {
    writer.uint32(18);
    writer.byteArray(message.offsets);
  }
  if (!(message.dtype === 0)) {
    writer.uint32(24);
    writer.int32(message.dtype);
  }
  if (message.trailingShape.length > 0) {
    let packed = 0;
    for (const item of message.trailingShape) packed += int64Size(item);
    writer.uint32(34);
    writer.uint32(packed);
    for (const item of message.trailingShape) writer.int64(item);
  }
}

export function readBatchedTensor(reader: Reader, into: BatchedTensor = createBatchedTensor()): BatchedTensor {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.data = reader.byteArray();
        break;
      case 18:
        into.offsets = reader.byteArray();
        break;
      case 24:
        into.dtype = reader.int32();
        break;
      case 34:
      case 32:
        reader.repeated(tag, (r) => r.int64(), into.trailingShape);
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ArrayRecord {
  typeTag: string;
  fields: Map<string, BatchedTensor>;
  numDatums: Int64;
}

export function createArrayRecord(): ArrayRecord {
  return {
    typeTag: "",
    fields: new Map(),
    numDatums: 0,
  };
}

export function sizeArrayRecord(message: ArrayRecord, sizer: Sizer): number {
  let size = 0;
  if (!(message.typeTag === "")) size += 1 + sizer.text(message.typeTag);
  for (const [key, value] of message.fields) {
    size += 1 + sizer.close(sizer.open(), 2 + sizer.text(key) + sizer.close(sizer.open(), sizeBatchedTensor(value, sizer)));
  }
  if (!(message.numDatums == 0)) size += 1 + int64Size(message.numDatums);
  return size;
}

export function writeArrayRecord(message: ArrayRecord, writer: Writer): void {
  if (!(message.typeTag === "")) {
    writer.uint32(10);
    writer.text();
  }
  for (const [, value] of message.fields) {
    writer.uint32(18);
    writer.nestedSize();
    writer.uint32(10);
    writer.text();
    writer.uint32(18);
    writer.nestedSize(); writeBatchedTensor(value, writer);
  }
  if (!(message.numDatums == 0)) {
    writer.uint32(24);
    writer.int64(message.numDatums);
  }
}

export function readArrayRecord(reader: Reader, into: ArrayRecord = createArrayRecord()): ArrayRecord {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.typeTag = reader.string();
        break;
      case 18:
        reader.nested((entry) => {
          let key = "";
          let value: BatchedTensor = createBatchedTensor();
          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {
            if (inner === 10) key = entry.string();
            else if (inner === 18) value = entry.nested((r) => readBatchedTensor(r));
            else entry.skip(inner);
          }
          into.fields.set(key, value);
        });
        break;
      case 24:
        into.numDatums = reader.int64();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ForwardBackwardOutput {
  lossFnOutputType: string;
  lossFnOutputs: ArrayRecord[];
  metrics: Map<string, number>;
}

export function createForwardBackwardOutput(): ForwardBackwardOutput {
  return {
    lossFnOutputType: "",
    lossFnOutputs: [],
    metrics: new Map(),
  };
}

export function sizeForwardBackwardOutput(message: ForwardBackwardOutput, sizer: Sizer): number {
  let size = 0;
  if (!(message.lossFnOutputType === "")) size += 1 + sizer.text(message.lossFnOutputType);
  for (const item of message.lossFnOutputs) size += 1 + sizer.close(sizer.open(), sizeArrayRecord(item, sizer));
  for (const [key, value] of message.metrics) {
    size += 1 + sizer.close(sizer.open(), 2 + sizer.text(key) + 8);
  }
  return size;
}

export function writeForwardBackwardOutput(message: ForwardBackwardOutput, writer: Writer): void {
  if (!(message.lossFnOutputType === "")) {
    writer.uint32(10);
    writer.text();
  }
  for (const item of message.lossFnOutputs) {
    writer.uint32(18);
    writer.nestedSize(); writeArrayRecord(item, writer);
  }
  for (const [, value] of message.metrics) {
    writer.uint32(26);
    writer.nestedSize();
    writer.uint32(10);
    writer.text();
    writer.uint32(17);
    writer.double(value);
  }
}

export function readForwardBackwardOutput(reader: Reader, into: ForwardBackwardOutput = createForwardBackwardOutput()): ForwardBackwardOutput {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.lossFnOutputType = reader.string();
        break;
      case 18:
        into.lossFnOutputs.push(reader.nested((r) => readArrayRecord(r)));
        break;
      case 26:
        reader.nested((entry) => {
          let key = "";
          let value: number = 0;
          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {
            if (inner === 10) key = entry.string();
            else if (inner === 17) value = entry.double();
            else entry.skip(inner);
          }
          into.metrics.set(key, value);
        });
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ForwardBackwardRequest {
  modelId: string;
  seqId: number;
  data: Datum[];
  lossFn: string;
  lossFnConfig: Map<string, number>;
  forwardOnly: boolean;
  lossFnConfigV2: Map<string, LossConfigValue>;
}

export function createForwardBackwardRequest(): ForwardBackwardRequest {
  return {
    modelId: "",
    seqId: 0,
    data: [],
    lossFn: "",
    lossFnConfig: new Map(),
    forwardOnly: false,
    lossFnConfigV2: new Map(),
  };
}

export function sizeForwardBackwardRequest(message: ForwardBackwardRequest, sizer: Sizer): number {
  let size = 0;
  if (!(message.modelId === "")) size += 1 + sizer.text(message.modelId);
  if (!(message.seqId === 0)) size += 1 + int32Size(message.seqId);
  for (const item of message.data) size += 1 + sizer.close(sizer.open(), sizeDatum(item, sizer));
  if (!(message.lossFn === "")) size += 1 + sizer.text(message.lossFn);
  for (const [key, value] of message.lossFnConfig) {
    size += 1 + sizer.close(sizer.open(), 2 + sizer.text(key) + 8);
  }
  if (!(!message.forwardOnly)) size += 1 + 1;
  for (const [key, value] of message.lossFnConfigV2) {
    size += 1 + sizer.close(sizer.open(), 2 + sizer.text(key) + sizer.close(sizer.open(), sizeLossConfigValue(value, sizer)));
  }
  return size;
}

export function writeForwardBackwardRequest(message: ForwardBackwardRequest, writer: Writer): void {
  if (!(message.modelId === "")) {
    writer.uint32(10);
    writer.text();
  }
  if (!(message.seqId === 0)) {
    writer.uint32(16);
    writer.int32(message.seqId);
  }
  for (const item of message.data) {
    writer.uint32(26);
    writer.nestedSize(); writeDatum(item, writer);
  }
  if (!(message.lossFn === "")) {
    writer.uint32(34);
    writer.text();
  }
  for (const [, value] of message.lossFnConfig) {
    writer.uint32(42);
    writer.nestedSize();
    writer.uint32(10);
    writer.text();
    writer.uint32(17);
    writer.double(value);
  }
  if (!(!message.forwardOnly)) {
    writer.uint32(48);
    writer.uint32(message.forwardOnly ? 1 : 0);
  }
  for (const [, value] of message.lossFnConfigV2) {
    writer.uint32(58);
    writer.nestedSize();
    writer.uint32(10);
    writer.text();
    writer.uint32(18);
    writer.nestedSize(); writeLossConfigValue(value, writer);
  }
}

export function readForwardBackwardRequest(reader: Reader, into: ForwardBackwardRequest = createForwardBackwardRequest()): ForwardBackwardRequest {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.modelId = reader.string();
        break;
      case 16:
        into.seqId = reader.int32();
        break;
      case 26:
        into.data.push(reader.nested((r) => readDatum(r)));
        break;
      case 34:
        into.lossFn = reader.string();
        break;
      case 42:
        reader.nested((entry) => {
          let key = "";
          let value: number = 0;
          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {
            if (inner === 10) key = entry.string();
            else if (inner === 17) value = entry.double();
            else entry.skip(inner);
          }
          into.lossFnConfig.set(key, value);
        });
        break;
      case 48:
        into.forwardOnly = reader.bool();
        break;
      case 58:
        reader.nested((entry) => {
          let key = "";
          let value: LossConfigValue = createLossConfigValue();
          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {
            if (inner === 10) key = entry.string();
            else if (inner === 18) value = entry.nested((r) => readLossConfigValue(r));
            else entry.skip(inner);
          }
          into.lossFnConfigV2.set(key, value);
        });
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface LossConfigValue {
  number?: number | undefined;
  text?: string | undefined;
}

export function createLossConfigValue(): LossConfigValue {
  return {
  };
}

export function sizeLossConfigValue(message: LossConfigValue, sizer: Sizer): number {
  let size = 0;
  if (message.number !== undefined) {
    const value = message.number;
    size += 1 + 8;
  }
  if (message.text !== undefined) {
    const value = message.text;
    size += 1 + sizer.text(value);
  }
  return size;
}

export function writeLossConfigValue(message: LossConfigValue, writer: Writer): void {
  if (message.number !== undefined) {
    writer.uint32(9);
    writer.double(message.number);
  }
  if (message.text !== undefined) {
    writer.uint32(18);
    writer.text();
  }
}

export function readLossConfigValue(reader: Reader, into: LossConfigValue = createLossConfigValue()): LossConfigValue {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 9:
        into.text = undefined; into.number = reader.double();
        break;
      case 18:
        into.number = undefined; into.text = reader.string();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Datum {
  modelInput: Chunk[];
  lossFnInputs: Map<string, Tensor>;
  modelInputSpans: ProvenanceSpan[];
  lossFnInputSpans: ProvenanceSpan[];
}

export function createDatum(): Datum {
  return {
    modelInput: [],
    lossFnInputs: new Map(),
    modelInputSpans: [],
    lossFnInputSpans: [],
  };
}

export function sizeDatum(message: Datum, sizer: Sizer): number {
  let size = 0;
  for (const item of message.modelInput) size += 1 + sizer.close(sizer.open(), sizeChunk(item, sizer));
  for (const [key, value] of message.lossFnInputs) {
    size += 1 + sizer.close(sizer.open(), 2 + sizer.text(key) + sizer.close(sizer.open(), sizeTensor(value, sizer)));
  }
  for (const item of message.modelInputSpans) size += 1 + sizer.close(sizer.open(), sizeProvenanceSpan(item, sizer));
  for (const item of message.lossFnInputSpans) size += 1 + sizer.close(sizer.open(), sizeProvenanceSpan(item, sizer));
  return size;
}

export function writeDatum(message: Datum, writer: Writer): void {
  for (const item of message.modelInput) {
    writer.uint32(10);
    writer.nestedSize(); writeChunk(item, writer);
  }
  for (const [, value] of message.lossFnInputs) {
    writer.uint32(18);
    writer.nestedSize();
    writer.uint32(10);
    writer.text();
    writer.uint32(18);
    writer.nestedSize(); writeTensor(value, writer);
  }
  for (const item of message.modelInputSpans) {
    writer.uint32(26);
    writer.nestedSize(); writeProvenanceSpan(item, writer);
  }
  for (const item of message.lossFnInputSpans) {
    writer.uint32(34);
    writer.nestedSize(); writeProvenanceSpan(item, writer);
  }
}

export function readDatum(reader: Reader, into: Datum = createDatum()): Datum {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.modelInput.push(reader.nested((r) => readChunk(r)));
        break;
      case 18:
        reader.nested((entry) => {
          let key = "";
          let value: Tensor = createTensor();
          for (let inner = entry.tag(); inner !== 0; inner = entry.tag()) {
            if (inner === 10) key = entry.string();
            else if (inner === 18) value = entry.nested((r) => readTensor(r));
            else entry.skip(inner);
          }
          into.lossFnInputs.set(key, value);
        });
        break;
      case 26:
        into.modelInputSpans.push(reader.nested((r) => readProvenanceSpan(r)));
        break;
      case 34:
        into.lossFnInputSpans.push(reader.nested((r) => readProvenanceSpan(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ProvenanceSpan {
  promptTokens?: TokenSpan | undefined;
  sampledTokens?: TokenSpan | undefined;
}

export function createProvenanceSpan(): ProvenanceSpan {
  return {
  };
}

export function sizeProvenanceSpan(message: ProvenanceSpan, sizer: Sizer): number {
  let size = 0;
  if (message.promptTokens !== undefined) {
    const value = message.promptTokens;
    size += 1 + sizer.close(sizer.open(), sizeTokenSpan(value, sizer));
  }
  if (message.sampledTokens !== undefined) {
    const value = message.sampledTokens;
    size += 1 + sizer.close(sizer.open(), sizeTokenSpan(value, sizer));
  }
  return size;
}

export function writeProvenanceSpan(message: ProvenanceSpan, writer: Writer): void {
  if (message.promptTokens !== undefined) {
    writer.uint32(10);
    writer.nestedSize(); writeTokenSpan(message.promptTokens, writer);
  }
  if (message.sampledTokens !== undefined) {
    writer.uint32(18);
    writer.nestedSize(); writeTokenSpan(message.sampledTokens, writer);
  }
}

export function readProvenanceSpan(reader: Reader, into: ProvenanceSpan = createProvenanceSpan()): ProvenanceSpan {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10: {
        into.sampledTokens = undefined; const before = into.promptTokens;
        into.promptTokens = reader.nested((r) => readTokenSpan(r, before));
        break;
      }
      case 18: {
        into.promptTokens = undefined; const before = into.sampledTokens;
        into.sampledTokens = reader.nested((r) => readTokenSpan(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface TokenSpan {
  sequenceId: string;
  offset: Int64;
  length: Int64;
}

export function createTokenSpan(): TokenSpan {
  return {
    sequenceId: "",
    offset: 0,
    length: 0,
  };
}

export function sizeTokenSpan(message: TokenSpan, sizer: Sizer): number {
  let size = 0;
  if (!(message.sequenceId === "")) size += 1 + sizer.text(message.sequenceId);
  if (!(message.offset == 0)) size += 1 + int64Size(message.offset);
  if (!(message.length == 0)) size += 1 + int64Size(message.length);
  return size;
}

export function writeTokenSpan(message: TokenSpan, writer: Writer): void {
  if (!(message.sequenceId === "")) {
    writer.uint32(10);
    writer.text();
  }
  if (!(message.offset == 0)) {
    writer.uint32(16);
    writer.int64(message.offset);
  }
  if (!(message.length == 0)) {
    writer.uint32(24);
    writer.int64(message.length);
  }
}

export function readTokenSpan(reader: Reader, into: TokenSpan = createTokenSpan()): TokenSpan {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.sequenceId = reader.string();
        break;
      case 16:
        into.offset = reader.int64();
        break;
      case 24:
        into.length = reader.int64();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Chunk {
  encodedText?: EncodedTextChunk | undefined;
  image?: ImageChunk | undefined;
  dmel?: DmelChunk | undefined;
}

export function createChunk(): Chunk {
  return {
  };
}

export function sizeChunk(message: Chunk, sizer: Sizer): number {
  let size = 0;
  if (message.encodedText !== undefined) {
    const value = message.encodedText;
    size += 1 + sizer.close(sizer.open(), sizeEncodedTextChunk(value, sizer));
  }
  if (message.image !== undefined) {
    const value = message.image;
    size += 1 + sizer.close(sizer.open(), sizeImageChunk(value, sizer));
  }
  if (message.dmel !== undefined) {
    const value = message.dmel;
    size += 1 + sizer.close(sizer.open(), sizeDmelChunk(value, sizer));
  }
  return size;
}

export function writeChunk(message: Chunk, writer: Writer): void {
  if (message.encodedText !== undefined) {
    writer.uint32(10);
    writer.nestedSize(); writeEncodedTextChunk(message.encodedText, writer);
  }
  if (message.image !== undefined) {
    writer.uint32(18);
    writer.nestedSize(); writeImageChunk(message.image, writer);
  }
  if (message.dmel !== undefined) {
    writer.uint32(26);
    writer.nestedSize(); writeDmelChunk(message.dmel, writer);
  }
}

export function readChunk(reader: Reader, into: Chunk = createChunk()): Chunk {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10: {
        into.image = undefined; into.dmel = undefined; const before = into.encodedText;
        into.encodedText = reader.nested((r) => readEncodedTextChunk(r, before));
        break;
      }
      case 18: {
        into.encodedText = undefined; into.dmel = undefined; const before = into.image;
        into.image = reader.nested((r) => readImageChunk(r, before));
        break;
      }
      case 26: {
        into.encodedText = undefined; into.image = undefined; const before = into.dmel;
        into.dmel = reader.nested((r) => readDmelChunk(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface EncodedTextChunk {
  tokens: Uint8Array;
}

export function createEncodedTextChunk(): EncodedTextChunk {
  return {
    tokens: emptyBytes,
  };
}

export function sizeEncodedTextChunk(message: EncodedTextChunk, _sizer: Sizer): number {
  let size = 0;
  if (!(message.tokens.byteLength === 0)) size += 1 + delimitedSize(message.tokens.byteLength);
  return size;
}

export function writeEncodedTextChunk(message: EncodedTextChunk, writer: Writer): void {
  if (!(message.tokens.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.tokens);
  }
}

export function readEncodedTextChunk(reader: Reader, into: EncodedTextChunk = createEncodedTextChunk()): EncodedTextChunk {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.tokens = reader.byteArray();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ImageChunk {
  data: Uint8Array;
  format: string;
  expectedTokens?: number | undefined;
  overrideDimensions?: ImageDimensions | undefined;
}

export function createImageChunk(): ImageChunk {
  return {
    data: emptyBytes,
    format: "",
  };
}

export function sizeImageChunk(message: ImageChunk, sizer: Sizer): number {
  let size = 0;
  if (!(message.data.byteLength === 0)) size += 1 + delimitedSize(message.data.byteLength);
  if (!(message.format === "")) size += 1 + sizer.text(message.format);
  if (message.expectedTokens !== undefined) {
    const value = message.expectedTokens;
    size += 1 + int32Size(value);
  }
  if (message.overrideDimensions !== undefined) {
    const value = message.overrideDimensions;
    size += 1 + sizer.close(sizer.open(), sizeImageDimensions(value, sizer));
  }
  return size;
}

export function writeImageChunk(message: ImageChunk, writer: Writer): void {
  if (!(message.data.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.data);
  }
  if (!(message.format === "")) {
    writer.uint32(18);
    writer.text();
  }
  if (message.expectedTokens !== undefined) {
    writer.uint32(24);
    writer.int32(message.expectedTokens);
  }
  if (message.overrideDimensions !== undefined) {
    writer.uint32(34);
    writer.nestedSize(); writeImageDimensions(message.overrideDimensions, writer);
  }
}

export function readImageChunk(reader: Reader, into: ImageChunk = createImageChunk()): ImageChunk {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.data = reader.byteArray();
        break;
      case 18:
        into.format = reader.string();
        break;
      case 24:
        into.expectedTokens = reader.int32();
        break;
      case 34: {
        const before = into.overrideDimensions;
        into.overrideDimensions = reader.nested((r) => readImageDimensions(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ImageDimensions {
  width: number;
  height: number;
}

export function createImageDimensions(): ImageDimensions {
  return {
    width: 0,
    height: 0,
  };
}

export function sizeImageDimensions(message: ImageDimensions, _sizer: Sizer): number {
  let size = 0;
  if (!(message.width === 0)) size += 1 + varintSize(message.width);
  if (!(message.height === 0)) size += 1 + varintSize(message.height);
  return size;
}

export function writeImageDimensions(message: ImageDimensions, writer: Writer): void {
  if (!(message.width === 0)) {
    writer.uint32(8);
    writer.uint32(message.width);
  }
  if (!(message.height === 0)) {
    writer.uint32(16);
    writer.uint32(message.height);
  }
}

export function readImageDimensions(reader: Reader, into: ImageDimensions = createImageDimensions()): ImageDimensions {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 8:
        into.width = reader.uint32();
        break;
      case 16:
        into.height = reader.uint32();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface DmelChunk {
  dmel: Uint8Array;
}

export function createDmelChunk(): DmelChunk {
  return {
    dmel: emptyBytes,
  };
}

export function sizeDmelChunk(message: DmelChunk, _sizer: Sizer): number {
  let size = 0;
  if (!(message.dmel.byteLength === 0)) size += 1 + delimitedSize(message.dmel.byteLength);
  return size;
}

export function writeDmelChunk(message: DmelChunk, writer: Writer): void {
  if (!(message.dmel.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.dmel);
  }
}

export function readDmelChunk(reader: Reader, into: DmelChunk = createDmelChunk()): DmelChunk {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.dmel = reader.byteArray();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface SamplingParams {
  maxTokens?: number | undefined;
  seed?: Int64 | undefined;
  temperature?: number | undefined;
  topK?: number | undefined;
  topP?: number | undefined;
  stopStrs?: StopStrings | undefined;
  stopTokens?: StopTokens | undefined;
}

export function createSamplingParams(): SamplingParams {
  return {
  };
}

export function sizeSamplingParams(message: SamplingParams, sizer: Sizer): number {
  let size = 0;
  if (message.maxTokens !== undefined) {
    const value = message.maxTokens;
    size += 1 + int32Size(value);
  }
  if (message.seed !== undefined) {
    const value = message.seed;
    size += 1 + int64Size(value);
  }
  if (message.temperature !== undefined) {
    const value = message.temperature;
    size += 1 + 4;
  }
  if (message.topK !== undefined) {
    const value = message.topK;
    size += 1 + int32Size(value);
  }
  if (message.topP !== undefined) {
    const value = message.topP;
    size += 1 + 4;
  }
  if (message.stopStrs !== undefined) {
    const value = message.stopStrs;
    size += 1 + sizer.close(sizer.open(), sizeStopStrings(value, sizer));
  }
  if (message.stopTokens !== undefined) {
    const value = message.stopTokens;
    size += 1 + sizer.close(sizer.open(), sizeStopTokens(value, sizer));
  }
  return size;
}

export function writeSamplingParams(message: SamplingParams, writer: Writer): void {
  if (message.maxTokens !== undefined) {
    writer.uint32(8);
    writer.int32(message.maxTokens);
  }
  if (message.seed !== undefined) {
    writer.uint32(16);
    writer.int64(message.seed);
  }
  if (message.temperature !== undefined) {
    writer.uint32(29);
    writer.float(message.temperature);
  }
  if (message.topK !== undefined) {
    writer.uint32(32);
    writer.int32(message.topK);
  }
  if (message.topP !== undefined) {
    writer.uint32(45);
    writer.float(message.topP);
  }
  if (message.stopStrs !== undefined) {
    writer.uint32(50);
    writer.nestedSize(); writeStopStrings(message.stopStrs, writer);
  }
  if (message.stopTokens !== undefined) {
    writer.uint32(58);
    writer.nestedSize(); writeStopTokens(message.stopTokens, writer);
  }
}

export function readSamplingParams(reader: Reader, into: SamplingParams = createSamplingParams()): SamplingParams {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 8:
        into.maxTokens = reader.int32();
        break;
      case 16:
        into.seed = reader.uint64();
        break;
      case 29:
        into.temperature = reader.float();
        break;
      case 32:
        into.topK = reader.int32();
        break;
      case 45:
        into.topP = reader.float();
        break;
      case 50: {
        into.stopTokens = undefined; const before = into.stopStrs;
        into.stopStrs = reader.nested((r) => readStopStrings(r, before));
        break;
      }
      case 58: {
        into.stopStrs = undefined; const before = into.stopTokens;
        into.stopTokens = reader.nested((r) => readStopTokens(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface StopStrings {
  values: string[];
}

export function createStopStrings(): StopStrings {
  return {
    values: [],
  };
}

export function sizeStopStrings(message: StopStrings, sizer: Sizer): number {
  let size = 0;
  for (const item of message.values) size += 1 + sizer.text(item);
  return size;
}

export function writeStopStrings(message: StopStrings, writer: Writer): void {
  for (const _item of message.values) {
    writer.uint32(10);
    writer.text();
  }
}

export function readStopStrings(reader: Reader, into: StopStrings = createStopStrings()): StopStrings {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.values.push(reader.string());
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface StopTokens {
  values: number[];
}

export function createStopTokens(): StopTokens {
  return {
    values: [],
  };
}

export function sizeStopTokens(message: StopTokens, _sizer: Sizer): number {
  let size = 0;
  if (message.values.length > 0) {
    let packed = 0;
    for (const item of message.values) packed += int32Size(item);
    size += 1 + delimitedSize(packed);
  }
  return size;
}

export function writeStopTokens(message: StopTokens, writer: Writer): void {
  if (message.values.length > 0) {
    let packed = 0;
    for (const item of message.values) packed += int32Size(item);
    writer.uint32(10);
    writer.uint32(packed);
    for (const item of message.values) writer.int32(item);
  }
}

export function readStopTokens(reader: Reader, into: StopTokens = createStopTokens()): StopTokens {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
      case 8:
        reader.repeated(tag, (r) => r.int32(), into.values);
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}
