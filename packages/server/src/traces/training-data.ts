/**
 * Converts conversations to lines of training data: conversations with tools for supervised fine-tuning, pairs of a preferred and another
 * answer for DPO, and recorded tokens for reinforcement learning. Redacts secrets unless that is switched off; tokens of turns whose text
 * was redacted are dropped, because they decode to it.
 */
import { type Conversation, conversationsOf, type SpanRow, type Turn } from "./conversations.ts";
import { redactJson, redactText } from "./redact.ts";
import { bodyOf } from "./stored-span.ts";
import type { TraceMessage, TraceTokens, TraceTool } from "./trace-span.ts";

export type ExportFormat = "sft" | "tokens";

/** A rating of an answer. */
export interface RatingRow {
  readonly span_id: string;
  /** 1, -1, or null for an edited answer without a rating. */
  readonly rating: number | null;
  readonly comment: string | null;
  /** The edited answer. */
  readonly answer: string | null;
  readonly prompt_key: string;
  readonly rated_at: number;
}

/** One trace to export. */
export interface ExportedTrace {
  readonly traceId: string;
  readonly spans: readonly SpanRow[];
  readonly ratings: readonly RatingRow[];
}

export interface TrainingDataRequest {
  readonly format: ExportFormat;
  readonly redact: boolean;
  readonly traces: readonly ExportedTrace[];
}

/** Lines, the reasons of conversations that gave none with their number, and the number of changed messages. */
export interface TrainingData {
  readonly lines: readonly object[];
  readonly skipped: Readonly<Record<string, number>>;
  readonly redacted: number;
}

class Writer {
  readonly lines: object[] = [];
  readonly skipped: Record<string, number> = {};
  redacted = 0;
  readonly #redacts: boolean;

  constructor(redacts: boolean) {
    this.#redacts = redacts;
  }

  skip(reason: string): undefined {
    this.skipped[reason] = (this.skipped[reason] ?? 0) + 1;
    return undefined;
  }

  /** The message to write, and whether it differs from the one that was recorded. */
  message(message: TraceMessage): { readonly message: TraceMessage; readonly isChanged: boolean } {
    if (!this.#redacts) return { message, isChanged: false };
    const clean = redactMessage(message);
    const isChanged = JSON.stringify(clean) !== JSON.stringify(message);
    if (isChanged) this.redacted++;
    return { message: clean, isChanged };
  }

  tools(tools: readonly TraceTool[]): { readonly tools: readonly TraceTool[]; readonly isChanged: boolean } {
    if (!this.#redacts) return { tools, isChanged: false };
    const clean = redactJson(tools);
    return { tools: clean, isChanged: JSON.stringify(clean) !== JSON.stringify(tools) };
  }

  get data(): TrainingData {
    return { lines: this.lines, skipped: this.skipped, redacted: this.redacted };
  }
}

/** Arguments are JSON text: redacted within their strings, so that they stay JSON. */
function redactMessage(message: TraceMessage): TraceMessage {
  const { tool_calls: calls, ...rest } = message;
  return {
    ...redactJson(rest),
    ...(calls === undefined
      ? {}
      : {
          tool_calls: calls.map((call) => ({
            ...call,
            function: { name: call.function.name, arguments: redactArguments(call.function.arguments) },
          })),
        }),
  };
}

function redactArguments(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    const clean = redactJson(value);
    return JSON.stringify(clean) === JSON.stringify(value) ? json : JSON.stringify(clean);
  } catch {
    return redactText(json);
  }
}

/** Lines of conversations, in the order of the traces. */
export function trainingData({ format, redact, traces }: TrainingDataRequest): TrainingData {
  const writer = new Writer(redact);
  for (const { traceId, spans, ratings } of traces) {
    const bySpan = new Map(ratings.map((rating) => [rating.span_id, rating]));
    const tokens = new Map<string, TraceTokens>();
    for (const { span_id: id, body } of spans) {
      const found = bodyOf(body).tokens;
      if (found !== undefined) tokens.set(id, found);
    }
    for (const conversation of conversationsOf(spans))
      addLine({ traceId, conversation, bySpan, tokens }, format, writer);
  }
  return writer.data;
}

interface Source {
  readonly traceId: string;
  readonly conversation: Conversation;
  readonly bySpan: ReadonlyMap<string, RatingRow>;
  readonly tokens: ReadonlyMap<string, TraceTokens>;
}

function addLine(source: Source, format: ExportFormat, writer: Writer): undefined {
  const { traceId, conversation, bySpan } = source;
  const ratingOf = ({ spanId }: Turn) => (spanId === undefined ? undefined : bySpan.get(spanId));
  // An edited answer replaces the recorded one; what follows answered the recorded one.
  const editedAt =
    format === "sft" ? conversation.turns.findIndex((turn) => typeof ratingOf(turn)?.answer === "string") : -1;
  const turns = editedAt < 0 ? conversation.turns : conversation.turns.slice(0, editedAt + 1);
  const last = turns.at(-1);
  const rating = turns.map(ratingOf).findLast((found) => found !== undefined);
  if (last?.message.role !== "assistant") return writer.skip(conversation.error === null ? "no answer" : "error");
  if (conversation.isIncomplete) return writer.skip("content that is not stored");
  if (!turns.every(({ message }) => hasObjectArguments(message)))
    return writer.skip("arguments that are not a JSON object");
  if (format === "sft" && editedAt < 0 && rating?.rating === -1) return writer.skip("rated down");

  const { tools, isChanged: hasChangedTools } = writer.tools(conversation.tools);
  const written: TraceMessage[] = [];
  const recorded: object[] = [];
  let isChanged = hasChangedTools;
  for (const [at, turn] of turns.entries()) {
    const edited = at === editedAt ? (ratingOf(turn)?.answer as string) : undefined;
    const sent: TraceMessage = edited === undefined ? turn.message : { role: "assistant", content: edited };
    const clean = writer.message(sent);
    isChanged ||= clean.isChanged || edited !== undefined;
    written.push(clean.message);
    const tokens = turn.spanId === undefined || isChanged ? undefined : source.tokens.get(turn.spanId);
    if (tokens !== undefined) recorded.push({ span_id: turn.spanId, ...tokens });
  }
  const answers = turns.filter(({ spanId }) => spanId !== undefined).length;
  const place = { trace_id: traceId, span_id: conversation.id, rating: rating?.rating ?? null };
  if (format === "tokens") {
    if (recorded.length < answers || answers === 0)
      return writer.skip(isChanged ? "redacted text" : "answers without recorded tokens");
    writer.lines.push({ turns: recorded, ...place });
    return;
  }
  writer.lines.push({
    messages: written,
    ...(tools.length === 0 ? {} : { tools }),
    ...(recorded.length === 0 ? {} : { tokens: recorded }),
    ...place,
  });
}

const hasObjectArguments = ({ tool_calls: calls = [] }: TraceMessage): boolean =>
  calls.every((call) => {
    try {
      const value: unknown = JSON.parse(call.function.arguments);
      return typeof value === "object" && value !== null && !Array.isArray(value);
    } catch {
      return false;
    }
  });

/** A rated answer with the body of its span. */
export interface RatedSpan extends RatingRow {
  readonly trace_id: string;
  readonly body: string;
}

/**
 * Pairs for DPO from rated answers to the same prompt: edited answers and those rated up against those rated down and the originals of
 * edited ones. Each answer is in at least one pair if there is one to compare it with.
 */
export function preferencePairs({
  rated,
  redact,
}: {
  readonly rated: readonly RatedSpan[];
  readonly redact: boolean;
}): TrainingData {
  const writer = new Writer(redact);
  const groups = new Map<string, RatedSpan[]>();
  for (const one of rated) groups.set(one.prompt_key, [...(groups.get(one.prompt_key) ?? []), one]);
  for (const group of groups.values()) addPairs(group, writer);
  return writer.data;
}

function addPairs(group: readonly RatedSpan[], writer: Writer): undefined {
  const chosen: { message: TraceMessage; from: RatedSpan }[] = [];
  const rejected: { message: TraceMessage; from: RatedSpan }[] = [];
  for (const from of group) {
    const { output } = bodyOf(from.body);
    if (from.answer !== null) chosen.push({ message: { role: "assistant", content: from.answer }, from });
    if (output === undefined) continue;
    if (from.answer !== null || from.rating === -1) rejected.push({ message: output, from });
    else if (from.rating === 1) chosen.push({ message: output, from });
  }
  const [first] = group;
  const body = first === undefined ? undefined : bodyOf(first.body);
  if (body === undefined || chosen.length === 0 || rejected.length === 0)
    return writer.skip("no other answer to the same prompt with the opposite rating");
  if ((body.omitted ?? []).length > 0) return writer.skip("content that is not stored");
  const all = [
    ...(body.input ?? []),
    ...chosen.map(({ message }) => message),
    ...rejected.map(({ message }) => message),
  ];
  if (!all.every(hasObjectArguments)) return writer.skip("arguments that are not a JSON object");
  const prompt = (body.input ?? []).map((message) => writer.message(message).message);
  const { tools } = writer.tools(body.tools ?? []);
  for (let i = 0; i < Math.max(chosen.length, rejected.length); i++) {
    const [better, worse] = [chosen[i % chosen.length]!, rejected[i % rejected.length]!];
    writer.lines.push({
      prompt,
      chosen: [writer.message(better.message).message],
      rejected: [writer.message(worse.message).message],
      ...(tools.length === 0 ? {} : { tools }),
      trace_ids: [better.from.trace_id, worse.from.trace_id],
    });
  }
}
