/** Exports of traces for tests: model calls in OpenTelemetry's conventions, as JSON objects of OTLP. */
import { randomHex } from "@tinklet/wire/entropy";

export const randomTraceId = (): string => randomHex(16);
export const randomSpanId = (): string => randomHex(8);

export interface ChatSpan {
  readonly traceId?: string;
  readonly spanId?: string;
  /** The user's message, or all messages in OpenTelemetry's form. */
  readonly prompt: string | readonly object[];
  readonly answer?: string | readonly object[];
  readonly model?: string;
  readonly tools?: readonly object[];
  readonly error?: string;
  /** Seconds since the epoch. */
  readonly at?: number;
  readonly attributes?: Readonly<Record<string, unknown>>;
}

/** A value in OTLP's JSON form. */
export function anyValue(value: unknown): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number") return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } };
  return { kvlistValue: { values: keyValues(value as object) } };
}

export const keyValues = (attributes: object): object[] =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: anyValue(value) }));

/** Text parts of a message. */
export const said = (role: string, content: string): object => ({ role, parts: [{ type: "text", content }] });

export const chatSpan = (span: ChatSpan): object => {
  const {
    traceId = randomTraceId(),
    spanId = randomSpanId(),
    prompt,
    answer = "yes",
    model = "m",
    at = 1_760_000_000,
  } = span;
  const messages = typeof prompt === "string" ? [said("user", prompt)] : prompt;
  const output = typeof answer === "string" ? [{ ...said("assistant", answer), finish_reason: "stop" }] : answer;
  return {
    traceId,
    spanId,
    name: `chat ${model}`,
    startTimeUnixNano: `${at}000000000`,
    endTimeUnixNano: `${at + 1}000000000`,
    attributes: keyValues({
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": model,
      "gen_ai.usage.input_tokens": 7,
      "gen_ai.usage.output_tokens": 3,
      "gen_ai.input.messages": JSON.stringify(messages),
      ...(span.error === undefined ? { "gen_ai.output.messages": JSON.stringify(output) } : {}),
      ...(span.tools === undefined ? {} : { "gen_ai.tool.definitions": JSON.stringify(span.tools) }),
      ...span.attributes,
    }),
    ...(span.error === undefined ? {} : { status: { code: 2, message: span.error } }),
  };
};

/** An export of spans. */
export const exportOf = (spans: readonly object[], service = "shop"): object => ({
  resourceSpans: [{ resource: { attributes: keyValues({ "service.name": service }) }, scopeSpans: [{ spans }] }],
});

export const chatExport = (spans: readonly ChatSpan[]): object => exportOf(spans.map(chatSpan));
