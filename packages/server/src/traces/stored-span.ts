/** Spans as rows of the database, and the task that makes them from an export. Runs in the side thread. */
import { parseJson } from "@tinklet/wire";
import { ResponseValidationError } from "@tinklet/wire/errors";
import { decodeTraceRequest, TooManyParts, WireFormatError } from "@tinklet/wire/otlp";
import type { NewSpan } from "../store/tables/traces.ts";
import { genAiSpan } from "./gen-ai-span.ts";
import { traceRequestOfJson } from "./otlp-json.ts";
import { type Rejected, receiveSpans } from "./received-span.ts";
import { BadExport, BadSpan, ExportTooLarge, type TraceBounds } from "./trace-bounds.ts";
import type { SpanBody, SpanKind, TraceSpan } from "./trace-span.ts";

/** A span with its body as JSON of a {@link SpanBody}, and what lists and filters need. */
export interface StoredSpan extends NewSpan {
  readonly kind: SpanKind;
}

export interface ExportRequest {
  readonly bytes: Uint8Array;
  readonly isJson: boolean;
  readonly bounds: TraceBounds & { readonly spanBytes: number; readonly jsonDepth: number };
}

export interface ReadExport {
  readonly spans: readonly StoredSpan[];
  readonly rejected: Rejected;
}

/** Reads an export. @throws BadExport when it cannot be read; ExportTooLarge */
export function readExport({ bytes, isJson, bounds }: ExportRequest): ReadExport {
  const { spans: received, rejected } = receiveSpans(
    isJson ? readJsonExport(bytes, bounds) : readBinary(bytes, bounds),
    bounds,
  );
  const spans: StoredSpan[] = [];
  let { count, reason } = rejected;
  for (const span of received) {
    try {
      const read = genAiSpan(span);
      if (read !== undefined) spans.push(storedSpan(read, bounds.spanBytes));
    } catch (error) {
      if (!(error instanceof BadSpan)) throw error;
      count++;
      reason ??= error.message;
    }
  }
  return { spans, rejected: { count, ...(reason === undefined ? {} : { reason }) } };
}

function readBinary(bytes: Uint8Array, bounds: TraceBounds) {
  try {
    return decodeTraceRequest(bytes, { maxParts: bounds.parts });
  } catch (error) {
    if (error instanceof TooManyParts) throw tooManyParts(bounds);
    if (error instanceof WireFormatError)
      throw new BadExport(`body: is not a valid protobuf message: ${error.message}`);
    throw error;
  }
}

const tooManyParts = ({ parts }: TraceBounds): ExportTooLarge =>
  new ExportTooLarge(`The export has more than ${parts} values. Send smaller batches.`);

function readJsonExport(bytes: Uint8Array, bounds: ExportRequest["bounds"]) {
  checkJsonShape(bytes, bounds);
  let json: unknown;
  try {
    json = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    const problem = error instanceof ResponseValidationError ? error.message : "is not valid UTF-8";
    throw new BadExport(`body: ${problem}`);
  }
  return traceRequestOfJson(json);
}

/** Counts brackets, commas and colons outside of strings, before anything is built. */
function checkJsonShape(bytes: Uint8Array, bounds: ExportRequest["bounds"]): void {
  let depth = 0;
  let parts = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (inString) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) inString = false;
      continue;
    }
    if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      parts++;
      if (++depth > bounds.jsonDepth)
        throw new BadExport(`body: the JSON is nested deeper than ${bounds.jsonDepth} levels`);
    } else if (byte === 0x7d || byte === 0x5d) depth--;
    else if (byte === 0x2c || byte === 0x3a) parts++;
    // A value has about five of these in JSON: its object, its attribute, two keys and a comma.
    if (parts > 5 * bounds.parts) throw tooManyParts(bounds);
  }
}

/** Characters of a message that a list shows. */
const previewLength = 200;
const preview = (text: string | undefined): string | null =>
  text === undefined || text === "" ? null : text.slice(0, previewLength).replace(/\p{Surrogate}$/u, "");

const longestTool = 300;
/** Tools of one span that filters find. */
const mostTools = 100;

function storedSpan(span: TraceSpan, mostBytes: number): StoredSpan {
  const { body } = span;
  const json = JSON.stringify(body);
  const bytes = Buffer.byteLength(json) + rowBytes;
  if (bytes > mostBytes)
    throw new BadSpan(`span ${span.spanId}: its messages take ${bytes} bytes; the limit is ${mostBytes}`);
  const called =
    body.call === undefined ? (body.output?.tool_calls ?? []).map((call) => call.function.name) : [body.call.name];
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentId: span.parentId ?? null,
    kind: span.kind,
    name: span.name,
    startedAt: span.startedAt,
    endedAt: span.endedAt,
    service: span.service ?? null,
    model: span.model ?? null,
    error: span.error ?? null,
    tools: [...new Set(called.map((tool) => tool.slice(0, longestTool)))].slice(0, mostTools),
    prompt: preview(body.input?.findLast(({ role }) => role === "user")?.content),
    answer: preview(body.output?.content),
    inputTokens: body.usage?.input_tokens ?? 0,
    outputTokens: body.usage?.output_tokens ?? 0,
    body: json,
    bytes,
  };
}

/** Bytes of a row besides its body. */
const rowBytes = 400;

/** @param json - the body of a stored span */
export const bodyOf = (json: string): SpanBody => JSON.parse(json) as SpanBody;
