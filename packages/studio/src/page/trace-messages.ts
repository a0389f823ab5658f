/** Messages of traces, read from OpenAI's chat format. Fields of the wrong type are skipped: they come from other programs. */
import type { JsonValue, TraceConversation, TraceRating, TraceSummary } from "@tinklet/wire";

/** A call of a tool. */
export interface TraceToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** One message of a conversation, for display. */
export interface TraceMessage {
  readonly role: string;
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly TraceToolCall[];
  /** The call that this message is the result of. */
  readonly callId: string | undefined;
}

type JsonObject = { readonly [key: string]: JsonValue };

const objectOf = (value: JsonValue | undefined): JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};

const textOf = (value: JsonValue | undefined): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);

export function messageOf(value: JsonValue): TraceMessage {
  const { role, content, reasoning_content, tool_calls, tool_call_id } = objectOf(value);
  const calls: readonly JsonValue[] = Array.isArray(tool_calls) ? tool_calls : [];
  return {
    role: textOf(role),
    content: textOf(content),
    reasoning: textOf(reasoning_content),
    calls: calls.map((call) => {
      const { id, function: called } = objectOf(call);
      const { name, arguments: values } = objectOf(called);
      return { id: textOf(id), name: textOf(name), arguments: readable(textOf(values)) };
    }),
    callId: typeof tool_call_id === "string" ? tool_call_id : undefined,
  };
}

/** JSON up to this length is indented. */
const indentedLength = 20_000;

/** JSON with indentation; any other text as it is. */
export function readable(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > indentedLength) return text;
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}

/** Conversations in which an answer has another rating. An answer can be in several: branches share their beginning. */
export const withRating = (
  conversations: readonly TraceConversation[],
  spanId: string,
  rating: TraceRating | undefined,
): readonly TraceConversation[] =>
  conversations.map((one) => ({
    ...one,
    turns: one.turns.map((turn) => {
      if (turn.spanId !== spanId) return turn;
      const { rating: _, ...rest } = turn;
      return rating === undefined ? rest : { ...rest, rating };
    }),
  }));

/** A row of the list with the rating that was given last, as the server has it. */
export function rerated(row: TraceSummary, conversations: readonly TraceConversation[]): TraceSummary {
  const ratings = conversations.flatMap(({ turns }) => turns.flatMap((turn) => turn.rating ?? []));
  const last = ratings.sort((a, b) => Number(a.ratedAt) - Number(b.ratedAt)).at(-1);
  const { rating: _, ...rest } = row;
  return { ...rest, rated: last !== undefined, ...(last?.rating ? { rating: last.rating } : {}) };
}
