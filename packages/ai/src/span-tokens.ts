/**
 * Records the tokens of a call on the AI SDK's span of it (`experimental_telemetry`), so that a trace of the call can be trained on:
 * `tinklet.prompt_token_ids`, `tinklet.token_ids`, `tinklet.logprobs` and `tinklet.sampler` as JSON, and `tinklet.stop_reason`. Through the
 * optional peer `@opentelemetry/api`; without it, or without telemetry, this does nothing.
 */
import type { TokenRecord } from "./token-record.ts";

/** The part of a span that is used. Spans of OpenTelemetry's SDK show their attributes. */
interface RecordingSpan {
  readonly attributes?: Readonly<Record<string, unknown>>;
  isRecording(): boolean;
  setAttributes(attributes: Record<string, string>): unknown;
}

interface TraceApi {
  readonly trace: { getActiveSpan(): RecordingSpan | undefined };
}

/** Records the tokens when they are known. */
export type RecordTokens = (record: TokenRecord) => void;

const load = (): Promise<TraceApi | undefined> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ "@opentelemetry/api").then(
    (api) => api as unknown as TraceApi,
    () => undefined,
  );
let api: Promise<TraceApi | undefined> | undefined;

/**
 * Finds the span of the call, which must be active. Another active span (of the application's HTTP server, when the call has no telemetry)
 * is not the call's. With `recordInputs: false` the AI SDK leaves the prompt out, and tokens decode to it: then nothing is recorded.
 */
export async function spanTokens(): Promise<RecordTokens> {
  api ??= load();
  const span = (await api)?.trace.getActiveSpan();
  const { "ai.operationId": operation, "ai.prompt.messages": prompt } = span?.attributes ?? {};
  const isCall = typeof operation === "string" && /\.do(Generate|Stream)$/.test(operation);
  if (span === undefined || !isCall || prompt === undefined || !span.isRecording()) return () => {};
  return ({ promptTokenIds, tokenIds, logprobs, stopReason, sampler }) => {
    span.setAttributes({
      "tinklet.prompt_token_ids": JSON.stringify(promptTokenIds),
      "tinklet.token_ids": JSON.stringify(tokenIds),
      ...(logprobs === undefined ? {} : { "tinklet.logprobs": JSON.stringify(logprobs) }),
      "tinklet.stop_reason": stopReason,
      "tinklet.sampler": JSON.stringify(sampler),
    });
  };
}
