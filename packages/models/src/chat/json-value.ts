/**
 * JSON inside a reply: finds the end of a value while it streams, and extracts tool calls. Arguments keep the model's original text, so
 * that large numbers keep all their digits.
 */
import type { ToolCall } from "./types.ts";

/** Maximum nesting depth. No real tool needs more, and recursive serializers would overflow the stack on deeper values. */
const maxDepth = 64;

/** Collects one JSON object or array from a stream. Tracks only brackets and strings; the value is parsed once it is complete. */
export interface JsonCollector {
  /** Adds a chunk. Once the value is complete, `rest` is the text after it. */
  push(piece: string): { readonly done: boolean; readonly rest: string };
  /** The text collected so far. */
  readonly text: string;
}

export function createJsonCollector(): JsonCollector {
  const pieces: string[] = [];
  let depth = 0;
  let inString = false;
  let escaped = false;
  return {
    push(piece) {
      for (let at = 0; at < piece.length; at++) {
        const character = piece[at];
        if (inString) {
          if (escaped) escaped = false;
          else if (character === "\\") escaped = true;
          else if (character === '"') inString = false;
        } else if (character === '"') inString = true;
        else if (character === "{" || character === "[") depth++;
        else if ((character === "}" || character === "]") && --depth === 0) {
          pieces.push(piece.slice(0, at + 1));
          return { done: true, rest: piece.slice(at + 1) };
        }
      }
      pieces.push(piece);
      return { done: false, rest: "" };
    },
    get text() {
      return pieces.join("");
    },
  };
}

/** The parsed value, or undefined if `text` is not JSON or is nested too deeply. */
export function parseJsonValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return depthOf(text) > maxDepth ? undefined : value;
  } catch {
    return undefined;
  }
}

function depthOf(json: string): number {
  let depth = 0;
  let most = 0;
  walk(json, (character) => {
    if (character === "{" || character === "[") most = Math.max(most, ++depth);
    else if (character === "}" || character === "]") depth--;
  });
  return most;
}

/** Calls `visit` for each character outside of strings. */
function walk(json: string, visit: (character: string, at: number) => void): void {
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const character = json[at]!;
    if (inString) {
      if (character === "\\") at++;
      else if (character === '"') inString = false;
    } else {
      if (character === '"') inString = true;
      visit(character, at);
    }
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The source text of each array element or object member of valid JSON. */
function parts(json: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let start = 0;
  walk(json, (character, at) => {
    if (character === "{" || character === "[") {
      if (++depth === 1) start = at + 1;
    } else if (character === "}" || character === "]") {
      if (--depth === 0 && json.slice(start, at).trim() !== "") found.push(json.slice(start, at).trim());
    } else if (character === "," && depth === 1) {
      found.push(json.slice(start, at).trim());
      start = at + 1;
    }
  });
  return found;
}

/** The source text of the last member with this name in an object of valid JSON. */
function member(json: string, name: string): string | undefined {
  let found: string | undefined;
  for (const part of parts(json)) {
    const end = endOfString(part);
    if (JSON.parse(part.slice(0, end)) === name) found = part.slice(part.indexOf(":", end) + 1).trim();
  }
  return found;
}

function endOfString(text: string): number {
  let at = 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at + 1;
}

/** The shape of a call object. */
export interface CallShape {
  /** Names of the member that holds the arguments, the most common one first. */
  readonly argumentKeys: readonly string[];
  /** Whether a name is accepted as a tool name. @defaultValue every name is accepted */
  readonly isTool?: (name: string) => boolean;
}

/**
 * Parses one call object or an array of them. Undefined if any element is not a call. Missing arguments become `{}`; arguments given as a
 * string (some models quote them) are parsed as JSON.
 */
export function callsIn(json: string, shape: CallShape): ToolCall[] | undefined {
  const value = parseJsonValue(json);
  if (value === undefined) return undefined;
  const texts = Array.isArray(value) ? parts(json) : [json];
  const calls: ToolCall[] = [];
  for (const [index, text] of texts.entries()) {
    const call = callOf(Array.isArray(value) ? value[index] : value, text, shape);
    if (call === undefined) return undefined;
    calls.push(call);
  }
  return calls.length === 0 ? undefined : calls;
}

/** The source text of an object's member that holds a list of calls. */
export function listIn(json: string, name: string): string | undefined {
  const value = parseJsonValue(json);
  return isObject(value) && Array.isArray(value[name]) ? member(json, name) : undefined;
}

function callOf(value: unknown, json: string, shape: CallShape): ToolCall | undefined {
  if (!isObject(value)) return undefined;
  const inner = value["function"];
  if (isObject(inner) && value["name"] === undefined) return callOf(inner, member(json, "function")!, shape);
  const name = value["name"];
  if (typeof name !== "string" || name === "" || shape.isTool?.(name) === false) return undefined;
  const key = shape.argumentKeys.find((each) => Object.hasOwn(value, each));
  const callArguments = key === undefined ? {} : value[key];
  if (callArguments === null || key === undefined) return { name, arguments: "{}" };
  if (isObject(callArguments)) return { name, arguments: member(json, key)! };
  if (typeof callArguments === "string" && isObject(parseJsonValue(callArguments)))
    return { name, arguments: callArguments };
  return undefined;
}
