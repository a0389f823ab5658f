/**
 * JSON inside of a reply: finds where a value ends while it is being written, and takes calls of tools out of it. Arguments keep the
 * text that the model wrote, so that no number loses a digit.
 */
import type { ToolCall } from "./types.ts";

/** Deeper values are no arguments of any tool, and would only cost stack wherever they are written again. */
const deepest = 64;

/** Collects one JSON object or array from a stream. Only brackets and strings are looked at: parsing comes when it is complete. */
export interface JsonCollector {
  /** Takes a piece; returns what stands behind the value once that is complete. */
  push(piece: string): { readonly done: boolean; readonly rest: string };
  /** What was collected. */
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

/** The parsed value, or undefined for what is not JSON, or too deep. */
export function parseJsonValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return depthOf(text) > deepest ? undefined : value;
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

/** The elements of an array, or the members of an object, of valid JSON: each as the text that it is. */
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

/** The last member of this name in an object of valid JSON, as the text that it is. */
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

/** How a family writes calls. */
export interface CallShape {
  /** Names of the member that holds the arguments, the usual one first. */
  readonly argumentKeys: readonly string[];
  /** Whether a name can be that of a tool. @defaultValue any can */
  readonly isTool?: (name: string) => boolean;
}

/**
 * The calls that a JSON text is: one object, or an array of them. Undefined when any of it is not a call. Arguments that are left out
 * are none; arguments that are a text (some models quote them) are read as JSON.
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

/** The member of an object that holds a list of calls, as the text that it is. */
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
  const given = key === undefined ? {} : value[key];
  if (given === null || key === undefined) return { name, arguments: "{}" };
  if (isObject(given)) return { name, arguments: member(json, key)! };
  if (typeof given === "string" && isObject(parseJsonValue(given))) return { name, arguments: given };
  return undefined;
}
