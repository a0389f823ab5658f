/**
 * The JSON form of OTLP: ids are hex, 64-bit integers may be strings, bytes are base64, and names are in lowerCamelCase. Converts it to the
 * messages of the binary form, so that everything after it handles one form. Unknown fields are ignored, as the protocol requires.
 */
import type { AnyValue, KeyValue, ResourceSpans, Span, SpanEvent, TraceRequest } from "@tinklet/wire/otlp";
import { BadExport } from "./trace-bounds.ts";

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown, where: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw new BadExport(`${where} must be an object, got ${kindOf(value)}`);
}

const kindOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;

function listOf(value: unknown, where: string): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value as unknown[];
  throw new BadExport(`${where} must be an array, got ${kindOf(value)}`);
}

function textOf(value: unknown, where: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  throw new BadExport(`${where} must be a string, got ${kindOf(value)}`);
}

function integerOf(value: unknown, where: string): number | bigint {
  if (value === undefined || value === null) return 0;
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  if (typeof value === "bigint") return value;
  if (typeof value === "string" && /^-?\d{1,20}$/.test(value)) return BigInt(value);
  throw new BadExport(`${where} must be a 64-bit integer, got ${String(value).slice(0, 40)}`);
}

/** An id in hex. One that is not hex becomes an empty id, which is refused with its span. */
function idOf(value: unknown, where: string): Uint8Array {
  const text = textOf(value, where);
  return /^([0-9a-fA-F]{2}){1,64}$/.test(text) ? new Uint8Array(Buffer.from(text, "hex")) : new Uint8Array(0);
}

export function traceRequestOfJson(json: unknown): TraceRequest {
  const resources = listOf(fieldsOf(json, "body")["resourceSpans"], "resourceSpans");
  return { resourceSpans: resources.map((one, i) => resourceSpansOf(one, `resourceSpans[${i}]`)) };
}

function resourceSpansOf(value: unknown, where: string): ResourceSpans {
  const { resource, scopeSpans } = fieldsOf(value, where);
  return {
    resource: {
      attributes: resource === undefined || resource === null ? [] : attributesOf(resource, `${where}.resource`),
    },
    scopeSpans: listOf(scopeSpans, `${where}.scopeSpans`).map((scope, i) => ({
      spans: listOf(fieldsOf(scope, `${where}.scopeSpans[${i}]`)["spans"], `${where}.scopeSpans[${i}].spans`).map(
        (span, at) => spanOf(span, `${where}.scopeSpans[${i}].spans[${at}]`),
      ),
    })),
  };
}

function spanOf(value: unknown, where: string): Span {
  const span = fieldsOf(value, where);
  const { status } = span;
  const { code, message } = status === undefined || status === null ? {} : fieldsOf(status, `${where}.status`);
  return {
    traceId: idOf(span["traceId"], `${where}.traceId`),
    spanId: idOf(span["spanId"], `${where}.spanId`),
    parentSpanId: idOf(span["parentSpanId"], `${where}.parentSpanId`),
    name: textOf(span["name"], `${where}.name`),
    startTimeUnixNano: integerOf(span["startTimeUnixNano"], `${where}.startTimeUnixNano`),
    endTimeUnixNano: integerOf(span["endTimeUnixNano"], `${where}.endTimeUnixNano`),
    attributes: attributesOf(span, where),
    events: listOf(span["events"], `${where}.events`).map((event, i): SpanEvent => {
      const at = `${where}.events[${i}]`;
      return { name: textOf(fieldsOf(event, at)["name"], `${at}.name`), attributes: attributesOf(event, at) };
    }),
    status: {
      // The protocol has numbers; some exporters send the names.
      code: code === "STATUS_CODE_ERROR" || code === 2 ? 2 : 0,
      message: textOf(message, `${where}.status.message`),
    },
  };
}

const attributesOf = (value: unknown, where: string): KeyValue[] =>
  listOf(fieldsOf(value, where)["attributes"], `${where}.attributes`).map((one, i) =>
    keyValueOf(one, `${where}.attributes[${i}]`),
  );

function keyValueOf(value: unknown, where: string): KeyValue {
  const { key, value: sent } = fieldsOf(value, where);
  return {
    key: textOf(key, `${where}.key`),
    value: sent === undefined || sent === null ? undefined : anyValueOf(sent, `${where}.value`),
  };
}

/** Recursion is bounded: the JSON has at most `jsonDepth` levels. */
function anyValueOf(value: unknown, where: string): AnyValue {
  const any = fieldsOf(value, where);
  if ("stringValue" in any) return { stringValue: textOf(any["stringValue"], where) };
  if ("boolValue" in any) return { boolValue: any["boolValue"] === true };
  if ("intValue" in any) return { intValue: integerOf(any["intValue"], where) };
  if ("doubleValue" in any) return { doubleValue: Number(any["doubleValue"]) };
  if ("arrayValue" in any) {
    const values = listOf(fieldsOf(any["arrayValue"], where)["values"], where);
    return { arrayValue: { values: values.map((one, i) => anyValueOf(one, `${where}[${i}]`)) } };
  }
  if ("kvlistValue" in any) {
    const values = listOf(fieldsOf(any["kvlistValue"], where)["values"], where);
    return { kvlistValue: { values: values.map((one, i) => keyValueOf(one, `${where}[${i}]`)) } };
  }
  if ("bytesValue" in any) return { bytesValue: Buffer.from(textOf(any["bytesValue"], where), "base64") };
  return {};
}
