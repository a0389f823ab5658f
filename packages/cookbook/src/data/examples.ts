/**
 * What a line of training data may be: a conversation, a prompt with its completion, or a plain text. Reads and checks;
 * turning an example into tokens is `render.ts`.
 */
import type { ChatMessage } from "@tinklet/sdk";
import { DataError } from "./data-error.ts";
import { type ReadDataOptions, readData } from "./read-data.ts";

/** File and line of an example, for error messages. */
export interface Place {
  readonly file: string;
  readonly line: number;
}

/** One training example, checked. Told apart by `kind`. */
export type Example = Place &
  (
    | { readonly kind: "chat"; readonly messages: readonly ChatMessage[] }
    | { readonly kind: "completion"; readonly prompt: string; readonly completion: string }
    | { readonly kind: "text"; readonly text: string }
  );

const shapes = `Each line is {"messages": [...]}, {"prompt": "...", "completion": "..."} or {"text": "..."}.`;

/**
 * Reads training examples. `prompt` and `completion` may also be lists of messages, which makes a conversation.
 *
 * @param source - a file (`.jsonl`, `.csv`, `.tsv`, `.parquet`) or a dataset of the Hub, as {@link readData} has it. In a CSV file `messages`
 *   is JSON in a cell.
 * @throws {@link DataError} naming file and line.
 *
 * @example
 * ```ts
 * const examples = await readExamples("data.jsonl");
 * ```
 */
export async function readExamples(source: string, options: ReadDataOptions = {}): Promise<Example[]> {
  const examples: Example[] = [];
  for await (const { value, file, line } of readData(source, options)) examples.push(toExample(value, { file, line }));
  if (examples.length === 0) throw new DataError({ file: source }, "has no examples", { hint: shapes });
  return examples;
}

/** Checks one value. @throws {@link DataError} saying what is wrong with it. */
export function toExample(value: unknown, place: Place): Example {
  const fail = (problem: string): never => {
    throw new DataError(place, problem, { hint: shapes });
  };
  if (typeof value !== "object" || value === null || Array.isArray(value))
    fail(`must be an object, not ${kindOf(value)}`);
  const { messages: given, prompt, completion, text } = value as Record<string, unknown>;
  const messages = typeof given === "string" && given.trimStart().startsWith("[") ? parsed(given, fail) : given;
  if (messages !== undefined) return { kind: "chat", messages: checkedMessages("messages", messages, fail), ...place };
  if (Array.isArray(prompt) && Array.isArray(completion)) {
    const both = [...checkedMessages("prompt", prompt, fail), ...checkedMessages("completion", completion, fail)];
    return { kind: "chat", messages: both, ...place };
  }
  if (prompt !== undefined || completion !== undefined) {
    if (typeof prompt !== "string") fail(`prompt must be a text, not ${kindOf(prompt)}`);
    if (typeof completion !== "string" || completion === "")
      fail(`completion must be a text, not ${kindOf(completion)}`);
    return { kind: "completion", prompt: prompt as string, completion: completion as string, ...place };
  }
  if (typeof text === "string" && text !== "") return { kind: "text", text, ...place };
  return fail(
    `has none of messages, prompt and completion, or text (its keys: ${Object.keys(value as object).join(", ") || "none"})`,
  );
}

/** A list that stands in a text, as in a CSV file. */
function parsed(text: string, fail: (problem: string) => never): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return fail("messages must be a list of messages, and is a text that is not JSON");
  }
}

function checkedMessages(field: string, value: unknown, fail: (problem: string) => never): ChatMessage[] {
  if (!Array.isArray(value) || value.length === 0) fail(`${field} must be a list of messages, not ${kindOf(value)}`);
  return (value as unknown[]).map((message, at) => {
    const { role, content } = (typeof message === "object" && message !== null ? message : {}) as Record<
      string,
      unknown
    >;
    if (typeof role !== "string") fail(`${field}[${at}].role must be a text, not ${kindOf(role)}`);
    if (typeof content !== "string" && !Array.isArray(content)) {
      fail(`${field}[${at}].content must be a text, not ${kindOf(content)}`);
    }
    return message as ChatMessage;
  });
}

function kindOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (value === "") return "empty";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
