// Generated from otlp.proto by `npm run proto`. Do not edit.
/* eslint-disable */
import { delimitedSize, int32Size, int64Size, type Int64, type Reader, type Sizer, type Writer } from "../binary.ts";

const emptyBytes = new Uint8Array(0);

export interface AnyValue {
  stringValue?: string | undefined;
  boolValue?: boolean | undefined;
  intValue?: Int64 | undefined;
  doubleValue?: number | undefined;
  arrayValue?: ArrayValue | undefined;
  kvlistValue?: KeyValueList | undefined;
  bytesValue?: Uint8Array | undefined;
}

export function createAnyValue(): AnyValue {
  return {
  };
}

export function sizeAnyValue(message: AnyValue, sizer: Sizer): number {
  let size = 0;
  if (message.stringValue !== undefined) {
    const value = message.stringValue;
    size += 1 + sizer.text(value);
  }
  if (message.boolValue !== undefined) {
    const value = message.boolValue;
    size += 1 + 1;
  }
  if (message.intValue !== undefined) {
    const value = message.intValue;
    size += 1 + int64Size(value);
  }
  if (message.doubleValue !== undefined) {
    const value = message.doubleValue;
    size += 1 + 8;
  }
  if (message.arrayValue !== undefined) {
    const value = message.arrayValue;
    size += 1 + sizer.close(sizer.open(), sizeArrayValue(value, sizer));
  }
  if (message.kvlistValue !== undefined) {
    const value = message.kvlistValue;
    size += 1 + sizer.close(sizer.open(), sizeKeyValueList(value, sizer));
  }
  if (message.bytesValue !== undefined) {
    const value = message.bytesValue;
    size += 1 + delimitedSize(value.byteLength);
  }
  return size;
}

export function writeAnyValue(message: AnyValue, writer: Writer): void {
  if (message.stringValue !== undefined) {
    writer.uint32(10);
    writer.text();
  }
  if (message.boolValue !== undefined) {
    writer.uint32(16);
    writer.uint32(message.boolValue ? 1 : 0);
  }
  if (message.intValue !== undefined) {
    writer.uint32(24);
    writer.int64(message.intValue);
  }
  if (message.doubleValue !== undefined) {
    writer.uint32(33);
    writer.double(message.doubleValue);
  }
  if (message.arrayValue !== undefined) {
    writer.uint32(42);
    writer.nestedSize(); writeArrayValue(message.arrayValue, writer);
  }
  if (message.kvlistValue !== undefined) {
    writer.uint32(50);
    writer.nestedSize(); writeKeyValueList(message.kvlistValue, writer);
  }
  if (message.bytesValue !== undefined) {
    writer.uint32(58);
    writer.byteArray(message.bytesValue);
  }
}

export function readAnyValue(reader: Reader, into: AnyValue = createAnyValue()): AnyValue {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.boolValue = undefined; into.intValue = undefined; into.doubleValue = undefined; into.arrayValue = undefined; into.kvlistValue = undefined; into.bytesValue = undefined; into.stringValue = reader.string();
        break;
      case 16:
        into.stringValue = undefined; into.intValue = undefined; into.doubleValue = undefined; into.arrayValue = undefined; into.kvlistValue = undefined; into.bytesValue = undefined; into.boolValue = reader.bool();
        break;
      case 24:
        into.stringValue = undefined; into.boolValue = undefined; into.doubleValue = undefined; into.arrayValue = undefined; into.kvlistValue = undefined; into.bytesValue = undefined; into.intValue = reader.int64();
        break;
      case 33:
        into.stringValue = undefined; into.boolValue = undefined; into.intValue = undefined; into.arrayValue = undefined; into.kvlistValue = undefined; into.bytesValue = undefined; into.doubleValue = reader.double();
        break;
      case 42: {
        into.stringValue = undefined; into.boolValue = undefined; into.intValue = undefined; into.doubleValue = undefined; into.kvlistValue = undefined; into.bytesValue = undefined; const before = into.arrayValue;
        into.arrayValue = reader.nested((r) => readArrayValue(r, before));
        break;
      }
      case 50: {
        into.stringValue = undefined; into.boolValue = undefined; into.intValue = undefined; into.doubleValue = undefined; into.arrayValue = undefined; into.bytesValue = undefined; const before = into.kvlistValue;
        into.kvlistValue = reader.nested((r) => readKeyValueList(r, before));
        break;
      }
      case 58:
        into.stringValue = undefined; into.boolValue = undefined; into.intValue = undefined; into.doubleValue = undefined; into.arrayValue = undefined; into.kvlistValue = undefined; into.bytesValue = reader.byteArray();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ArrayValue {
  values: AnyValue[];
}

export function createArrayValue(): ArrayValue {
  return {
    values: [],
  };
}

export function sizeArrayValue(message: ArrayValue, sizer: Sizer): number {
  let size = 0;
  for (const item of message.values) size += 1 + sizer.close(sizer.open(), sizeAnyValue(item, sizer));
  return size;
}

export function writeArrayValue(message: ArrayValue, writer: Writer): void {
  for (const item of message.values) {
    writer.uint32(10);
    writer.nestedSize(); writeAnyValue(item, writer);
  }
}

export function readArrayValue(reader: Reader, into: ArrayValue = createArrayValue()): ArrayValue {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.values.push(reader.nested((r) => readAnyValue(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface KeyValueList {
  values: KeyValue[];
}

export function createKeyValueList(): KeyValueList {
  return {
    values: [],
  };
}

export function sizeKeyValueList(message: KeyValueList, sizer: Sizer): number {
  let size = 0;
  for (const item of message.values) size += 1 + sizer.close(sizer.open(), sizeKeyValue(item, sizer));
  return size;
}

export function writeKeyValueList(message: KeyValueList, writer: Writer): void {
  for (const item of message.values) {
    writer.uint32(10);
    writer.nestedSize(); writeKeyValue(item, writer);
  }
}

export function readKeyValueList(reader: Reader, into: KeyValueList = createKeyValueList()): KeyValueList {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.values.push(reader.nested((r) => readKeyValue(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface KeyValue {
  key: string;
  value?: AnyValue | undefined;
}

export function createKeyValue(): KeyValue {
  return {
    key: "",
  };
}

export function sizeKeyValue(message: KeyValue, sizer: Sizer): number {
  let size = 0;
  if (!(message.key === "")) size += 1 + sizer.text(message.key);
  if (message.value !== undefined) {
    const value = message.value;
    size += 1 + sizer.close(sizer.open(), sizeAnyValue(value, sizer));
  }
  return size;
}

export function writeKeyValue(message: KeyValue, writer: Writer): void {
  if (!(message.key === "")) {
    writer.uint32(10);
    writer.text();
  }
  if (message.value !== undefined) {
    writer.uint32(18);
    writer.nestedSize(); writeAnyValue(message.value, writer);
  }
}

export function readKeyValue(reader: Reader, into: KeyValue = createKeyValue()): KeyValue {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.key = reader.string();
        break;
      case 18: {
        const before = into.value;
        into.value = reader.nested((r) => readAnyValue(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface SpanEvent {
  name: string;
  attributes: KeyValue[];
}

export function createSpanEvent(): SpanEvent {
  return {
    name: "",
    attributes: [],
  };
}

export function sizeSpanEvent(message: SpanEvent, sizer: Sizer): number {
  let size = 0;
  if (!(message.name === "")) size += 1 + sizer.text(message.name);
  for (const item of message.attributes) size += 1 + sizer.close(sizer.open(), sizeKeyValue(item, sizer));
  return size;
}

export function writeSpanEvent(message: SpanEvent, writer: Writer): void {
  if (!(message.name === "")) {
    writer.uint32(18);
    writer.text();
  }
  for (const item of message.attributes) {
    writer.uint32(26);
    writer.nestedSize(); writeKeyValue(item, writer);
  }
}

export function readSpanEvent(reader: Reader, into: SpanEvent = createSpanEvent()): SpanEvent {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 18:
        into.name = reader.string();
        break;
      case 26:
        into.attributes.push(reader.nested((r) => readKeyValue(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface SpanStatus {
  message: string;
  code: number;
}

export function createSpanStatus(): SpanStatus {
  return {
    message: "",
    code: 0,
  };
}

export function sizeSpanStatus(message: SpanStatus, sizer: Sizer): number {
  let size = 0;
  if (!(message.message === "")) size += 1 + sizer.text(message.message);
  if (!(message.code === 0)) size += 1 + int32Size(message.code);
  return size;
}

export function writeSpanStatus(message: SpanStatus, writer: Writer): void {
  if (!(message.message === "")) {
    writer.uint32(18);
    writer.text();
  }
  if (!(message.code === 0)) {
    writer.uint32(24);
    writer.int32(message.code);
  }
}

export function readSpanStatus(reader: Reader, into: SpanStatus = createSpanStatus()): SpanStatus {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 18:
        into.message = reader.string();
        break;
      case 24:
        into.code = reader.int32();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Span {
  traceId: Uint8Array;
  spanId: Uint8Array;
  parentSpanId: Uint8Array;
  name: string;
  startTimeUnixNano: Int64;
  endTimeUnixNano: Int64;
  attributes: KeyValue[];
  events: SpanEvent[];
  status?: SpanStatus | undefined;
}

export function createSpan(): Span {
  return {
    traceId: emptyBytes,
    spanId: emptyBytes,
    parentSpanId: emptyBytes,
    name: "",
    startTimeUnixNano: 0,
    endTimeUnixNano: 0,
    attributes: [],
    events: [],
  };
}

export function sizeSpan(message: Span, sizer: Sizer): number {
  let size = 0;
  if (!(message.traceId.byteLength === 0)) size += 1 + delimitedSize(message.traceId.byteLength);
  if (!(message.spanId.byteLength === 0)) size += 1 + delimitedSize(message.spanId.byteLength);
  if (!(message.parentSpanId.byteLength === 0)) size += 1 + delimitedSize(message.parentSpanId.byteLength);
  if (!(message.name === "")) size += 1 + sizer.text(message.name);
  if (!(message.startTimeUnixNano == 0)) size += 1 + 8;
  if (!(message.endTimeUnixNano == 0)) size += 1 + 8;
  for (const item of message.attributes) size += 1 + sizer.close(sizer.open(), sizeKeyValue(item, sizer));
  for (const item of message.events) size += 1 + sizer.close(sizer.open(), sizeSpanEvent(item, sizer));
  if (message.status !== undefined) {
    const value = message.status;
    size += 1 + sizer.close(sizer.open(), sizeSpanStatus(value, sizer));
  }
  return size;
}

export function writeSpan(message: Span, writer: Writer): void {
  if (!(message.traceId.byteLength === 0)) {
    writer.uint32(10);
    writer.byteArray(message.traceId);
  }
  if (!(message.spanId.byteLength === 0)) {
    writer.uint32(18);
    writer.byteArray(message.spanId);
  }
  if (!(message.parentSpanId.byteLength === 0)) {
    writer.uint32(34);
    writer.byteArray(message.parentSpanId);
  }
  if (!(message.name === "")) {
    writer.uint32(42);
    writer.text();
  }
  if (!(message.startTimeUnixNano == 0)) {
    writer.uint32(57);
    writer.fixed64(message.startTimeUnixNano);
  }
  if (!(message.endTimeUnixNano == 0)) {
    writer.uint32(65);
    writer.fixed64(message.endTimeUnixNano);
  }
  for (const item of message.attributes) {
    writer.uint32(74);
    writer.nestedSize(); writeKeyValue(item, writer);
  }
  for (const item of message.events) {
    writer.uint32(90);
    writer.nestedSize(); writeSpanEvent(item, writer);
  }
  if (message.status !== undefined) {
    writer.uint32(122);
    writer.nestedSize(); writeSpanStatus(message.status, writer);
  }
}

export function readSpan(reader: Reader, into: Span = createSpan()): Span {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.traceId = reader.byteArray();
        break;
      case 18:
        into.spanId = reader.byteArray();
        break;
      case 34:
        into.parentSpanId = reader.byteArray();
        break;
      case 42:
        into.name = reader.string();
        break;
      case 57:
        into.startTimeUnixNano = reader.fixed64();
        break;
      case 65:
        into.endTimeUnixNano = reader.fixed64();
        break;
      case 74:
        into.attributes.push(reader.nested((r) => readKeyValue(r)));
        break;
      case 90:
        into.events.push(reader.nested((r) => readSpanEvent(r)));
        break;
      case 122: {
        const before = into.status;
        into.status = reader.nested((r) => readSpanStatus(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Resource {
  attributes: KeyValue[];
}

export function createResource(): Resource {
  return {
    attributes: [],
  };
}

export function sizeResource(message: Resource, sizer: Sizer): number {
  let size = 0;
  for (const item of message.attributes) size += 1 + sizer.close(sizer.open(), sizeKeyValue(item, sizer));
  return size;
}

export function writeResource(message: Resource, writer: Writer): void {
  for (const item of message.attributes) {
    writer.uint32(10);
    writer.nestedSize(); writeKeyValue(item, writer);
  }
}

export function readResource(reader: Reader, into: Resource = createResource()): Resource {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.attributes.push(reader.nested((r) => readKeyValue(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ScopeSpans {
  spans: Span[];
}

export function createScopeSpans(): ScopeSpans {
  return {
    spans: [],
  };
}

export function sizeScopeSpans(message: ScopeSpans, sizer: Sizer): number {
  let size = 0;
  for (const item of message.spans) size += 1 + sizer.close(sizer.open(), sizeSpan(item, sizer));
  return size;
}

export function writeScopeSpans(message: ScopeSpans, writer: Writer): void {
  for (const item of message.spans) {
    writer.uint32(18);
    writer.nestedSize(); writeSpan(item, writer);
  }
}

export function readScopeSpans(reader: Reader, into: ScopeSpans = createScopeSpans()): ScopeSpans {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 18:
        into.spans.push(reader.nested((r) => readSpan(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface ResourceSpans {
  resource?: Resource | undefined;
  scopeSpans: ScopeSpans[];
}

export function createResourceSpans(): ResourceSpans {
  return {
    scopeSpans: [],
  };
}

export function sizeResourceSpans(message: ResourceSpans, sizer: Sizer): number {
  let size = 0;
  if (message.resource !== undefined) {
    const value = message.resource;
    size += 1 + sizer.close(sizer.open(), sizeResource(value, sizer));
  }
  for (const item of message.scopeSpans) size += 1 + sizer.close(sizer.open(), sizeScopeSpans(item, sizer));
  return size;
}

export function writeResourceSpans(message: ResourceSpans, writer: Writer): void {
  if (message.resource !== undefined) {
    writer.uint32(10);
    writer.nestedSize(); writeResource(message.resource, writer);
  }
  for (const item of message.scopeSpans) {
    writer.uint32(18);
    writer.nestedSize(); writeScopeSpans(item, writer);
  }
}

export function readResourceSpans(reader: Reader, into: ResourceSpans = createResourceSpans()): ResourceSpans {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10: {
        const before = into.resource;
        into.resource = reader.nested((r) => readResource(r, before));
        break;
      }
      case 18:
        into.scopeSpans.push(reader.nested((r) => readScopeSpans(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface TraceRequest {
  resourceSpans: ResourceSpans[];
}

export function createTraceRequest(): TraceRequest {
  return {
    resourceSpans: [],
  };
}

export function sizeTraceRequest(message: TraceRequest, sizer: Sizer): number {
  let size = 0;
  for (const item of message.resourceSpans) size += 1 + sizer.close(sizer.open(), sizeResourceSpans(item, sizer));
  return size;
}

export function writeTraceRequest(message: TraceRequest, writer: Writer): void {
  for (const item of message.resourceSpans) {
    writer.uint32(10);
    writer.nestedSize(); writeResourceSpans(item, writer);
  }
}

export function readTraceRequest(reader: Reader, into: TraceRequest = createTraceRequest()): TraceRequest {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10:
        into.resourceSpans.push(reader.nested((r) => readResourceSpans(r)));
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface PartialSuccess {
  rejectedSpans: Int64;
  errorMessage: string;
}

export function createPartialSuccess(): PartialSuccess {
  return {
    rejectedSpans: 0,
    errorMessage: "",
  };
}

export function sizePartialSuccess(message: PartialSuccess, sizer: Sizer): number {
  let size = 0;
  if (!(message.rejectedSpans == 0)) size += 1 + int64Size(message.rejectedSpans);
  if (!(message.errorMessage === "")) size += 1 + sizer.text(message.errorMessage);
  return size;
}

export function writePartialSuccess(message: PartialSuccess, writer: Writer): void {
  if (!(message.rejectedSpans == 0)) {
    writer.uint32(8);
    writer.int64(message.rejectedSpans);
  }
  if (!(message.errorMessage === "")) {
    writer.uint32(18);
    writer.text();
  }
}

export function readPartialSuccess(reader: Reader, into: PartialSuccess = createPartialSuccess()): PartialSuccess {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 8:
        into.rejectedSpans = reader.int64();
        break;
      case 18:
        into.errorMessage = reader.string();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface TraceResponse {
  partialSuccess?: PartialSuccess | undefined;
}

export function createTraceResponse(): TraceResponse {
  return {
  };
}

export function sizeTraceResponse(message: TraceResponse, sizer: Sizer): number {
  let size = 0;
  if (message.partialSuccess !== undefined) {
    const value = message.partialSuccess;
    size += 1 + sizer.close(sizer.open(), sizePartialSuccess(value, sizer));
  }
  return size;
}

export function writeTraceResponse(message: TraceResponse, writer: Writer): void {
  if (message.partialSuccess !== undefined) {
    writer.uint32(10);
    writer.nestedSize(); writePartialSuccess(message.partialSuccess, writer);
  }
}

export function readTraceResponse(reader: Reader, into: TraceResponse = createTraceResponse()): TraceResponse {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 10: {
        const before = into.partialSuccess;
        into.partialSuccess = reader.nested((r) => readPartialSuccess(r, before));
        break;
      }
      default:
        reader.skip(tag);
    }
  }
  return into;
}

export interface Status {
  code: number;
  message: string;
}

export function createStatus(): Status {
  return {
    code: 0,
    message: "",
  };
}

export function sizeStatus(message: Status, sizer: Sizer): number {
  let size = 0;
  if (!(message.code === 0)) size += 1 + int32Size(message.code);
  if (!(message.message === "")) size += 1 + sizer.text(message.message);
  return size;
}

export function writeStatus(message: Status, writer: Writer): void {
  if (!(message.code === 0)) {
    writer.uint32(8);
    writer.int32(message.code);
  }
  if (!(message.message === "")) {
    writer.uint32(18);
    writer.text();
  }
}

export function readStatus(reader: Reader, into: Status = createStatus()): Status {
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 8:
        into.code = reader.int32();
        break;
      case 18:
        into.message = reader.string();
        break;
      default:
        reader.skip(tag);
    }
  }
  return into;
}
