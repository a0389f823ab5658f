/**
 * A GenAI span as it is stored: a call of a model, a call of a tool, or a run of an agent. Messages have OpenAI's chat format, which the
 * training data has too.
 */
import type { JsonValue } from "@tinklet/wire";

export interface TraceCall {
  readonly id?: string;
  readonly type: "function";
  readonly function: {
    readonly name: string;
    /** JSON text, as the model wrote it where that is known. */
    readonly arguments: string;
  };
}

export interface TraceMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly TraceCall[];
  readonly tool_call_id?: string;
}

export interface TraceTool {
  readonly type: "function";
  readonly function: { readonly name: string; readonly description?: string; readonly parameters: JsonValue };
}

/** The tokens of a call of one of our models, which `@tinklet/ai` records. */
export interface TraceTokens {
  readonly prompt_token_ids: readonly number[];
  readonly token_ids: readonly number[];
  readonly logprobs?: readonly number[];
  readonly stop_reason?: string;
  readonly sampler?: JsonValue;
}

export type SpanKind = "model" | "tool" | "agent";

/** What is stored of a span as JSON; the other columns are for filters. */
export interface SpanBody {
  /** A model's: the messages that it received, system instructions first. */
  readonly input?: readonly TraceMessage[];
  /** A model's: its reply. */
  readonly output?: TraceMessage;
  readonly tools?: readonly TraceTool[];
  readonly usage?: { readonly input_tokens?: number; readonly output_tokens?: number };
  readonly finish_reason?: string;
  readonly provider?: string;
  readonly tokens?: TraceTokens;
  /** A tool's call. */
  readonly call?: {
    readonly id?: string;
    readonly name: string;
    readonly arguments?: string;
    readonly result?: string;
  };
  /** Kinds of content that messages had and that are not stored, such as `image`. Such a conversation is not exported. */
  readonly omitted?: readonly string[];
}

/** A span to store. */
export interface TraceSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly kind: SpanKind;
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly service?: string;
  readonly model?: string;
  readonly error?: string;
  readonly body: SpanBody;
}
