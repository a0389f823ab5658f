/**
 * Rebuilds conversations from the model calls of one trace. A call whose messages begin with the whole transcript of an earlier call
 * continues it; so an agent's loop, which is one call for each step, is one conversation. Calls that continue the same one in different
 * ways are branches, each a conversation of its own.
 */
import { createHash } from "node:crypto";
import { bodyOf } from "./stored-span.ts";
import type { SpanBody, TraceMessage, TraceTool } from "./trace-span.ts";

/** A row that conversations are built from. */
export interface SpanRow {
  readonly span_id: string;
  readonly kind: string;
  readonly model: string | null;
  readonly error: string | null;
  readonly body: string;
}

/** A message of a conversation. */
export interface Turn {
  readonly message: TraceMessage;
  /** The call that produced it; absent for messages that were only sent. */
  readonly spanId?: string;
  /** Whether its tokens were recorded. */
  readonly hasTokens?: boolean;
}

export interface Conversation {
  /** The id of its last call. */
  readonly id: string;
  /** Its calls, in order. */
  readonly spanIds: readonly string[];
  readonly turns: readonly Turn[];
  readonly tools: readonly TraceTool[];
  readonly model: string | null;
  /** The error of its last call. */
  readonly error: string | null;
  /** Whether content was left out that the model received. */
  readonly isIncomplete: boolean;
}

interface Call {
  readonly row: SpanRow;
  readonly body: SpanBody;
  /** Hashes of the first n messages, from 0 to all of the input. */
  readonly inputKeys: readonly string[];
  /** Hash of the input and the reply. */
  readonly transcriptKey: string | undefined;
  parent?: Call;
  isContinued: boolean;
}

/** @param rows - the spans of one trace, by their start */
export function conversationsOf(rows: readonly SpanRow[]): Conversation[] {
  const calls = rows.filter(({ kind }) => kind === "model").map(callOf);
  /** The last call with a transcript: the first call of two equal ones is a retry. */
  const byTranscript = new Map<string, Call>();
  for (const call of calls) {
    // From the longest prefix, so that a call continues the latest call that it contains.
    for (let length = call.inputKeys.length - 1; length > 0 && call.parent === undefined; length--) {
      const parent = byTranscript.get(call.inputKeys[length] as string);
      if (parent === undefined) continue;
      call.parent = parent;
      parent.isContinued = true;
    }
    if (call.transcriptKey !== undefined) byTranscript.set(call.transcriptKey, call);
  }
  return calls.filter(({ isContinued }) => !isContinued).map(conversationOf);
}

function callOf(row: SpanRow): Call {
  const body = bodyOf(row.body);
  const inputKeys = [""];
  for (const message of body.input ?? []) inputKeys.push(nextKey(inputKeys.at(-1) as string, message));
  const last = inputKeys.at(-1) as string;
  return {
    row,
    body,
    inputKeys,
    transcriptKey: body.output === undefined ? undefined : nextKey(last, body.output),
    isContinued: false,
  };
}

/**
 * The key of a list of messages and one more. Reasoning and ids of calls are left out, because some programs do not send them back;
 * arguments are compared as values, because schemas reorder them.
 */
function nextKey(before: string, { role, content, tool_calls: calls = [] }: TraceMessage): string {
  const called = calls.map((call) => [call.function.name, sortedJson(call.function.arguments)]);
  return createHash("sha256")
    .update(JSON.stringify([before, role, content.trim(), called]))
    .digest("base64");
}

function sortedJson(text: string): string {
  try {
    return JSON.stringify(sorted(JSON.parse(text)));
  } catch {
    return text;
  }
}

/** Recursion is bounded: values deeper than this are compared in the order in which they are. */
const sorted = (value: unknown, depth = 0): unknown => {
  if (typeof value !== "object" || value === null || depth > 32) return depth > 32 ? null : value;
  if (Array.isArray(value)) return value.map((one) => sorted(one, depth + 1));
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, one]) => [key, sorted(one, depth + 1)]);
};

function conversationOf(last: Call): Conversation {
  const chain: Call[] = [];
  for (let call: Call | undefined = last; call !== undefined; call = call.parent) chain.unshift(call);
  const { input = [], output } = last.body;
  const turns: Turn[] = input.map((message) => ({ message }));
  for (const { row, body } of chain.slice(0, -1)) {
    const at = (body.input ?? []).length;
    const sent = turns[at];
    // The reply as it was produced: what was sent back may lack its reasoning.
    if (sent !== undefined) turns[at] = answerOf(row, body, body.output ?? sent.message);
  }
  if (output !== undefined) turns.push(answerOf(last.row, last.body, output));
  return {
    id: last.row.span_id,
    spanIds: chain.map(({ row }) => row.span_id),
    turns,
    tools: last.body.tools ?? [],
    model: last.row.model,
    error: last.row.error,
    isIncomplete: chain.some(({ body }) => (body.omitted ?? []).length > 0),
  };
}

const answerOf = (row: SpanRow, { tokens }: SpanBody, message: TraceMessage): Turn => ({
  message,
  spanId: row.span_id,
  hasTokens: tokens !== undefined,
});

/** Identifies the prompt of a call: replies to equal prompts can be compared. */
export function promptKey({ input = [], tools = [] }: SpanBody): string {
  const names = tools.map((tool) => tool.function.name).sort();
  return nextKey(input.reduce(nextKey, ""), { role: "system", content: names.join("\n") });
}
