/**
 * Reads messages of several conventions into one format: OpenTelemetry's `parts`, the AI SDK's content parts, and OpenAI's own. The
 * conventions name the same things differently, so one reader accepts all their names. What cannot be kept (images, files) is listed in
 * `omitted`.
 */
import type { JsonValue } from "@tinklet/wire";
import type { TraceCall, TraceMessage, TraceTool } from "./trace-span.ts";

type Fields = Readonly<Record<string, JsonValue | undefined>>;

export const fieldsOf = (value: JsonValue | undefined): Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};

export const textOf = (value: JsonValue | undefined): string | undefined =>
  typeof value === "string" ? value : undefined;

/** Deepest JSON in a string that is read; `JSON.stringify` and the clients' checks recurse. */
const deepest = 64;

/** An attribute that is JSON in a string, or a structured value. `undefined` for text that is not JSON, or too deep. */
export function jsonOf(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value !== "string") return value;
  if (isDeeperThan(value, deepest)) return undefined;
  try {
    return JSON.parse(value) as JsonValue;
  } catch {
    return undefined;
  }
}

/** Counts brackets outside of strings, so that no deep value is built. */
function isDeeperThan(json: string, most: number): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const unit = json.charCodeAt(i);
    if (inString) {
      if (unit === 0x5c) i++;
      else if (unit === 0x22) inString = false;
    } else if (unit === 0x22) inString = true;
    else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > most) return true;
    } else if (unit === 0x5d || unit === 0x7d) depth--;
  }
  return false;
}

/** Arguments and results of calls as text: JSON unless they are text already. */
export const asText = (value: JsonValue | undefined): string =>
  typeof value === "string" ? value : JSON.stringify(value ?? null);

const roles: Readonly<Record<string, TraceMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  human: "user",
  assistant: "assistant",
  ai: "assistant",
  model: "assistant",
  tool: "tool",
  function: "tool",
};

/** Messages of a list. A message with several tool results becomes one message for each. */
export function readMessages(value: JsonValue | undefined, omitted: Set<string>): TraceMessage[] {
  const list = jsonOf(value);
  if (Array.isArray(list)) return list.flatMap((one) => readMessage(one, omitted));
  return typeof list === "object" && list !== null ? readMessage(list, omitted) : [];
}

function readMessage(value: JsonValue, omitted: Set<string>): TraceMessage[] {
  const message = fieldsOf(value);
  const role = roles[textOf(message["role"]) ?? ""];
  if (role === undefined) {
    omitted.add("a message without a known role");
    return [];
  }
  const read = readParts(message["parts"] ?? message["content"], omitted);
  const calls = [...read.calls, ...readCalls(message["tool_calls"])];
  const reasoning = read.reasoning || (textOf(message["reasoning_content"]) ?? textOf(message["reasoning"]) ?? "");
  if (role === "tool" && read.results.length === 0) {
    const id = textOf(message["tool_call_id"]) ?? textOf(message["id"]);
    return [{ role, content: read.text, ...(id === undefined ? {} : { tool_call_id: id }) }];
  }
  const said =
    role !== "tool" && (read.text !== "" || calls.length > 0 || reasoning !== "" || read.results.length === 0);
  const own: TraceMessage[] = said
    ? [
        {
          role,
          content: read.text,
          ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls }),
        },
      ]
    : [];
  // Results answer the calls of the message before, so they are before the text of a user message that also has them.
  return role === "assistant" ? [...own, ...read.results] : [...read.results, ...own];
}

interface ReadParts {
  text: string;
  reasoning: string;
  readonly calls: TraceCall[];
  readonly results: TraceMessage[];
}

/** Text of system instructions: a string, or parts. */
export const instructionsText = (value: JsonValue | undefined, omitted: Set<string>): string => {
  const parts = jsonOf(value);
  return parts === undefined ? (textOf(value) ?? "") : readParts(parts, omitted).text;
};

function readParts(value: JsonValue | undefined, omitted: Set<string>): ReadParts {
  const read: ReadParts = { text: "", reasoning: "", calls: [], results: [] };
  if (value === undefined || value === null) return read;
  if (typeof value === "string") return { ...read, text: value };
  for (const one of Array.isArray(value) ? value : [value]) {
    if (typeof one === "string") read.text += one;
    else readPart(fieldsOf(one), read, omitted);
  }
  return read;
}

function readPart(part: Fields, read: ReadParts, omitted: Set<string>): void {
  const type = textOf(part["type"]) ?? "text";
  const text = textOf(part["content"]) ?? textOf(part["text"]);
  switch (type) {
    case "text":
    case "input_text":
    case "output_text":
      if (text !== undefined) read.text += text;
      return;
    case "reasoning":
    case "thinking":
      read.reasoning += text ?? textOf(part["thinking"]) ?? "";
      return;
    case "tool_call":
    case "tool-call":
    case "tool_use":
    case "function":
      read.calls.push(...readCalls([part as JsonValue]));
      return;
    case "tool_call_response":
    case "tool-result":
    case "tool_result": {
      const id = textOf(part["id"]) ?? textOf(part["toolCallId"]) ?? textOf(part["tool_use_id"]);
      const content = resultText(part);
      read.results.push({ role: "tool", content, ...(id === undefined ? {} : { tool_call_id: id }) });
      return;
    }
    default:
      omitted.add(type.slice(0, 40));
  }
}

/** The AI SDK wraps a result: `{ type: "text" | "json" | …, value }`. */
function resultText(part: Fields): string {
  const sent = part["response"] ?? part["result"] ?? part["output"] ?? part["content"];
  const { type, value } = fieldsOf(sent);
  return typeof type === "string" && value !== undefined && /^(text|json|error-text|error-json)$/.test(type)
    ? asText(value)
    : asText(sent);
}

/** Calls of tools, of a list or of JSON of one. */
export function readCalls(value: JsonValue | undefined): TraceCall[] {
  const list = jsonOf(value);
  if (!Array.isArray(list)) return [];
  return list.flatMap((one): TraceCall[] => {
    const call = { ...fieldsOf(one), ...fieldsOf(fieldsOf(one)["function"]) };
    const name = textOf(call["name"]) ?? textOf(call["toolName"]);
    if (name === undefined) return [];
    const id = textOf(call["id"]) ?? textOf(call["toolCallId"]);
    const sent = call["arguments"] ?? call["input"] ?? call["args"];
    return [
      {
        ...(id === undefined ? {} : { id }),
        type: "function",
        function: { name, arguments: sent === undefined ? "{}" : asText(sent) },
      },
    ];
  });
}

/** Definitions of tools: a list, JSON of one, or a list of JSON. */
export function readTools(value: JsonValue | undefined): TraceTool[] {
  const list = jsonOf(value);
  if (!Array.isArray(list)) return [];
  return list.flatMap((one): TraceTool[] => {
    const tool = fieldsOf(jsonOf(one));
    const inner = { ...tool, ...fieldsOf(tool["function"]) } as Fields;
    const name = textOf(inner["name"]);
    if (name === undefined) return [];
    const description = textOf(inner["description"]);
    const parameters = inner["parameters"] ?? inner["inputSchema"] ?? inner["input_schema"] ?? {};
    return [
      {
        type: "function",
        function: { name, ...(description === undefined ? {} : { description }), parameters },
      },
    ];
  });
}
