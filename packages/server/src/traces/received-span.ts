/** Spans as they arrive: ids, times and attributes checked, values as JSON. What they mean is not decided here. */
import type { JsonValue } from "@tinklet/wire";
import type { AnyValue, KeyValue, Span, TraceRequest } from "@tinklet/wire/otlp";
import { BadSpan, ExportTooLarge, type TraceBounds } from "./trace-bounds.ts";

export type Attributes = Readonly<Record<string, JsonValue>>;

export interface ReceivedSpan {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  readonly parentId?: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Attributes;
  readonly events: readonly { readonly name: string; readonly attributes: Attributes }[];
  readonly error?: string;
  /** `service.name` of the program that sent it. */
  readonly service?: string;
}

/** What an export contains. */
export interface ReceivedSpans {
  readonly spans: readonly ReceivedSpan[];
  readonly rejected: Rejected;
}

/** Spans that were not stored, with the reason of the first one. */
export interface Rejected {
  readonly count: number;
  readonly reason?: string;
}

/** @throws {@link ExportTooLarge} above the number of spans, before any of them is converted */
export function receiveSpans(request: TraceRequest, bounds: TraceBounds): ReceivedSpans {
  const scopes = request.resourceSpans.flatMap(({ scopeSpans, resource }) =>
    scopeSpans.map(({ spans }) => ({ spans, resource })),
  );
  const total = scopes.reduce((sum, { spans }) => sum + spans.length, 0);
  if (total > bounds.spans)
    throw new ExportTooLarge(`The export has ${total} spans; the limit is ${bounds.spans}. Send smaller batches.`);
  const spans: ReceivedSpan[] = [];
  let count = 0;
  let reason: string | undefined;
  for (const { spans: sent, resource } of scopes) {
    const service = serviceOf(resource?.attributes ?? []);
    for (const span of sent) {
      try {
        spans.push(receiveSpan(span, service, bounds));
      } catch (error) {
        if (!(error instanceof BadSpan)) throw error;
        count++;
        reason ??= error.message;
      }
    }
  }
  return { spans, rejected: { count, ...(reason === undefined ? {} : { reason }) } };
}

const longestService = 200;

/** Text that every reader of JSON and of the database accepts: without lone surrogates and without NUL. */
const cleaned = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: SQLite ends a text at NUL
  /[\p{Surrogate}\u0000]/u.test(text) ? text.replace(/[\p{Surrogate}\u0000]/gu, "\uFFFD") : text;

function serviceOf(attributes: readonly KeyValue[]): string | undefined {
  const found = attributes.find(({ key }) => key === "service.name")?.value?.stringValue;
  return found === undefined || found === "" || found.startsWith("unknown_service")
    ? undefined
    : cleaned(found.slice(0, longestService));
}

/** Longest name of a span that is kept. */
const longestName = 500;
/** Longest text of an error that is kept. */
const longestError = 4000;

function receiveSpan(span: Span, service: string | undefined, bounds: TraceBounds): ReceivedSpan {
  const traceId = hexOf(span.traceId, 16, "trace_id");
  const spanId = hexOf(span.spanId, 8, "span_id");
  const parentId = span.parentSpanId.length === 0 ? undefined : hexOf(span.parentSpanId, 8, "parent_span_id");
  const attributeCount =
    span.attributes.length + span.events.reduce((sum, { attributes }) => sum + attributes.length, 0);
  if (attributeCount > bounds.attributes)
    throw new BadSpan(`span ${spanId}: it has ${attributeCount} attributes; the limit is ${bounds.attributes}`);
  const read = (attributes: readonly KeyValue[]) => attributesOf(attributes, `span ${spanId}`, bounds);
  const startedAt = millisecondsOf(span.startTimeUnixNano);
  const events = span.events.map(({ name, attributes }) => ({
    name: cleaned(name.slice(0, longestName)),
    attributes: read(attributes),
  }));
  const error = span.status?.code === 2 ? errorOf(span.status.message, events) : undefined;
  return {
    traceId,
    spanId,
    name: cleaned(span.name.slice(0, longestName)),
    startedAt,
    endedAt: Math.max(startedAt, millisecondsOf(span.endTimeUnixNano)),
    attributes: read(span.attributes),
    events,
    ...(parentId === undefined ? {} : { parentId }),
    ...(error === undefined ? {} : { error }),
    ...(service === undefined ? {} : { service }),
  };
}

/** The status message or, if it is empty, the recorded exception. */
function errorOf(message: string, events: ReceivedSpan["events"]): string {
  const exception = events.find(({ name }) => name === "exception")?.attributes["exception.message"];
  const text = message !== "" ? message : typeof exception === "string" ? exception : "";
  return text === "" ? "error" : cleaned(text.slice(0, longestError));
}

/** An id of all zeros is invalid in OpenTelemetry. */
function hexOf(bytes: Uint8Array, length: number, field: string): string {
  if (bytes.byteLength !== length || bytes.every((byte) => byte === 0))
    throw new BadSpan(`${field} must be ${length} bytes that are not all zero, got ${bytes.byteLength} bytes`);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** The latest time that a Date can represent. */
const latest = 8.64e15;

const millisecondsOf = (nanoseconds: number | bigint): number =>
  Math.min(
    typeof nanoseconds === "bigint" ? Number(nanoseconds / 1_000_000n) : Math.floor(nanoseconds / 1_000_000),
    latest,
  );

function attributesOf(list: readonly KeyValue[], where: string, bounds: TraceBounds): Attributes {
  const attributes = Object.create(null) as Record<string, JsonValue>;
  for (const { key, value } of list) {
    if (key.length > longestName) throw new BadSpan(`${where}: the name of an attribute is longer than ${longestName}`);
    if (value !== undefined) attributes[cleaned(key)] = jsonOf(value, { where: `${where}, ${key}`, depth: 1, bounds });
  }
  return attributes;
}

interface Place {
  readonly where: string;
  readonly depth: number;
  readonly bounds: TraceBounds;
}

function jsonOf(value: AnyValue, place: Place): JsonValue {
  const { where, depth, bounds } = place;
  if (depth > bounds.depth) throw new BadSpan(`${where}: values are nested deeper than ${bounds.depth} levels`);
  const { stringValue: text } = value;
  if (text !== undefined) {
    if (text.length > bounds.textLength)
      throw new BadSpan(`${where}: a string has ${text.length} characters; the limit is ${bounds.textLength}`);
    return cleaned(text);
  }
  if (value.boolValue !== undefined) return value.boolValue;
  if (value.intValue !== undefined) return Number(value.intValue);
  if (value.doubleValue !== undefined) return Number.isFinite(value.doubleValue) ? value.doubleValue : null;
  const deeper = { ...place, depth: depth + 1 };
  if (value.arrayValue !== undefined) return value.arrayValue.values.map((one) => jsonOf(one, deeper));
  if (value.kvlistValue !== undefined) {
    const made = Object.create(null) as Record<string, JsonValue>;
    for (const { key, value: inner } of value.kvlistValue.values)
      if (inner !== undefined) made[cleaned(key)] = jsonOf(inner, deeper);
    return made;
  }
  return null; // bytes, or no value: no convention for GenAI spans uses them
}
