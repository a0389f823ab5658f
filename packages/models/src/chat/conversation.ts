/** Converts conversations from any API into the form that chat templates expect. */
import type { ReplyFormat } from "./reply-format.ts";
import type { ChatMessage } from "./types.ts";

interface CallOfMessage {
  readonly id?: unknown;
  readonly type?: unknown;
  readonly function: { readonly name: unknown; readonly arguments: unknown };
}

/**
 * Content becomes a string, because templates concatenate it. Tool call arguments become objects (most templates serialize them) or JSON
 * strings, and tool call ids are shortened, as the model family requires.
 */
export function forTemplate(
  messages: readonly ChatMessage[],
  { shortCallIds = false, textArguments = false }: Partial<ReplyFormat>,
): ChatMessage[] {
  const short = new Map<unknown, string>();
  const idOf = (id: unknown): unknown => {
    if (!shortCallIds || id === undefined) return id;
    if (!short.has(id)) short.set(id, String(short.size).padStart(9, "0"));
    return short.get(id);
  };
  return messages.map((message) => {
    const { tool_calls: calls, tool_call_id: callId, content, ...rest } = message;
    return {
      ...rest,
      role: message.role,
      content: textOf(content),
      ...(callId === undefined ? {} : { tool_call_id: idOf(callId) }),
      ...(Array.isArray(calls) && calls.length > 0
        ? { tool_calls: (calls as CallOfMessage[]).map((call) => readCall(call, idOf, textArguments)) }
        : {}),
    };
  });
}

function readCall(call: CallOfMessage, idOf: (id: unknown) => unknown, asText: boolean): object {
  const { name, arguments: callArguments } = call.function;
  const id = idOf(call.id);
  const read = readArguments(callArguments);
  const arguments_ = asText && typeof read !== "string" ? JSON.stringify(read) : read;
  return { ...(id === undefined ? {} : { id }), type: "function", function: { name, arguments: arguments_ } };
}

function readArguments(callArguments: unknown): unknown {
  if (typeof callArguments !== "string") return callArguments ?? {};
  try {
    const value: unknown = JSON.parse(callArguments === "" ? "{}" : callArguments);
    return typeof value === "object" && value !== null ? value : callArguments;
  } catch {
    return callArguments;
  }
}

/** Concatenates the text parts of a content list. */
function textOf(content: unknown): unknown {
  if (content === null || content === undefined) return "";
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown) => (part as { text?: unknown } | null)?.text ?? "").join("");
}
