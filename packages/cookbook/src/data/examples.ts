/**
 * What a line of training data may be: a conversation, a prompt with its completion, or a plain text. Reads and checks;
 * turning an example into tokens is `render.ts`.
 */
import type { ChatTool } from "@tinklet/models/chat";
import type { ChatMessage } from "@tinklet/sdk";
import { DataError, InvalidLines } from "./data-error.ts";
import { type ReadDataOptions, readRows } from "./read-data.ts";

/** File and line of an example, for error messages. Examples that a program makes have none. */
export interface Place {
  readonly file?: string;
  readonly line?: number;
}

/** One training example, checked. Discriminated by `kind`. */
export type Example = Place &
  (
    | {
        readonly kind: "chat";
        readonly messages: readonly ChatMessage[];
        /** Tools that the model could call, which the prompt lists as it does in sampling. */
        readonly tools?: readonly ChatTool[];
      }
    | { readonly kind: "completion"; readonly prompt: string; readonly completion: string }
    | { readonly kind: "text"; readonly text: string }
  );

const shapes = `Each line is {"messages": [...]}, {"prompt": "...", "completion": "..."} or {"text": "..."}.`;

/**
 * Reads training examples. `prompt` and `completion` may also be lists of messages, which makes a conversation.
 *
 * @param source - a file (`.jsonl`, `.csv`, `.tsv`, `.parquet`) or a dataset of the Hub, as {@link readData} has it. In a CSV file `messages`
 *   is JSON in a cell.
 * @throws {@link DataError} with all invalid lines, grouped by problem, at most 20 of them listed
 *
 * @example
 * ```ts
 * const examples = await readExamples("data.jsonl");
 * ```
 */
export async function readExamples(source: string, options: ReadDataOptions = {}): Promise<Example[]> {
  const examples: Example[] = [];
  const invalid = new InvalidLines();
  for await (const { value, file, line } of readRows(source, options, (error) => invalid.add(error))) {
    try {
      examples.push(toExample(value, { file, line }));
    } catch (error) {
      invalid.add(error);
    }
  }
  invalid.throwIfAny();
  if (examples.length === 0) throw new DataError({ file: source }, "has no examples", { hint: shapes });
  return examples;
}

/**
 * Checks one value.
 *
 * @param place - where it is from; only for error messages
 * @throws {@link DataError} naming the field.
 *
 * @example
 * ```ts
 * const example = toExample({ messages: [{ role: "user", content: "Hi" }, { role: "assistant", content: "Hello!" }] });
 * ```
 */
export function toExample(value: unknown, place: Place = {}): Example {
  const fail: Fail = (problem) => {
    throw new DataError(place, problem, { hint: shapes });
  };
  if (typeof value !== "object" || value === null || Array.isArray(value))
    fail(`must be an object, not ${kindOf(value)}`);
  const { messages, prompt, completion, text, tools } = value as Record<string, unknown>;
  if (messages !== undefined) {
    const both = { messages: checkedMessages("messages", fromCell("messages", messages, fail), fail) };
    return { kind: "chat", ...both, ...checkedTools(tools, fail), ...place };
  }
  if (Array.isArray(prompt) && Array.isArray(completion)) {
    const both = [...checkedMessages("prompt", prompt, fail), ...checkedMessages("completion", completion, fail)];
    return { kind: "chat", messages: both, ...checkedTools(tools, fail), ...place };
  }
  if (prompt !== undefined || completion !== undefined) {
    if (typeof prompt !== "string") fail(`prompt must be a string, not ${kindOf(prompt)}`);
    if (typeof completion !== "string" || completion === "")
      fail(`completion must be a string, not ${kindOf(completion)}`);
    return { kind: "completion", prompt: prompt as string, completion: completion as string, ...place };
  }
  if (typeof text === "string" && text !== "") return { kind: "text", text, ...place };
  return fail(
    `has none of messages, prompt and completion, or text (its keys: ${Object.keys(value as object).join(", ") || "none"})`,
  );
}

type Fail = (problem: string) => never;

/** A list, also as JSON in a string: a cell of a CSV file. */
function fromCell(field: string, value: unknown, fail: Fail): unknown {
  if (typeof value !== "string" || !value.trimStart().startsWith("[")) return value;
  try {
    return JSON.parse(value);
  } catch {
    return fail(`${field} must be a list; this string begins like one and is not JSON`);
  }
}

function checkedMessages(field: string, value: unknown, fail: Fail): ChatMessage[] {
  if (!Array.isArray(value) || value.length === 0) fail(`${field} must be a list of messages, not ${kindOf(value)}`);
  return (value as unknown[]).map((message, at) => {
    const { role, content, tool_calls: calls } = fieldsOf(message);
    if (typeof role !== "string") fail(`${field}[${at}].role must be a string, not ${kindOf(role)}`);
    const hasCalls = checkCalls(`${field}[${at}].tool_calls`, calls, fail);
    // As in OpenAI's format: a message that only calls tools may have content null, or none.
    if (hasCalls && (content === null || content === undefined)) return { ...(message as ChatMessage), content: "" };
    if (typeof content !== "string" && !Array.isArray(content)) {
      fail(`${field}[${at}].content must be a string, not ${kindOf(content)}`);
    }
    return message as ChatMessage;
  });
}

/** Checks the calls of a message. @returns whether it has any */
function checkCalls(field: string, calls: unknown, fail: Fail): boolean {
  if (calls === undefined || calls === null) return false;
  if (!Array.isArray(calls)) fail(`${field} must be a list of calls, not ${kindOf(calls)}`);
  for (const [at, call] of (calls as unknown[]).entries()) {
    const { name, arguments: given } = fieldsOf(fieldsOf(call)["function"]);
    if (typeof name !== "string") fail(`${field}[${at}].function.name must be a string, not ${kindOf(name)}`);
    if (!isArguments(given))
      fail(`${field}[${at}].function.arguments must be an object or a JSON object in a string, not ${kindOf(given)}`);
  }
  return (calls as unknown[]).length > 0;
}

function checkedTools(value: unknown, fail: Fail): { readonly tools?: readonly ChatTool[] } {
  const tools = fromCell("tools", value, fail);
  if (tools === undefined || tools === null) return {};
  if (!Array.isArray(tools)) fail(`tools must be a list of tools, not ${kindOf(tools)}`);
  for (const [at, tool] of (tools as unknown[]).entries()) {
    const { name } = fieldsOf(fieldsOf(tool)["function"]);
    if (typeof name !== "string") fail(`tools[${at}].function.name must be a string, not ${kindOf(name)}`);
  }
  return (tools as unknown[]).length === 0 ? {} : { tools: tools as ChatTool[] };
}

/** The fields of an object; none for any other value. */
const fieldsOf = (value: unknown) =>
  (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Arguments of a call: an object, or one as JSON in a string; none are an empty object. */
function isArguments(value: unknown): boolean {
  if (typeof value !== "string") return value === undefined || value === null || isObject(value);
  try {
    return value === "" || isObject(JSON.parse(value));
  } catch {
    return false;
  }
}

function kindOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (value === "") return "empty";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
