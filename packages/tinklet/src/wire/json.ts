/**
 * JSON text ⇄ values, with integers beyond 2^53 kept exact as `bigint`. Some clients number their sampling requests up
 * to 1e18, and `JSON.parse` would silently round neighbouring numbers into one. Text without such integers, which is
 * nearly all of it, goes straight through the built-in parser. Refuses what JSON cannot say (NaN, Infinity).
 */
import { InvalidInputError, ResponseValidationError } from "../errors.ts";

/** Any JSON value; integers that a double cannot hold are `bigint`. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

// A string, or a whole number token: matching strings keeps digits inside them untouched.
const stringsAndNumbers = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;
const longInteger = /^-?[1-9]\d{15,}$/;

/**
 * Parses JSON text.
 *
 * @throws {@link ResponseValidationError} when the text is not JSON.
 */
export function parseJson(text: string): JsonValue {
  try {
    if (!/\d{16}/.test(text)) return JSON.parse(text) as JsonValue;
    return parseWithLongIntegers(text);
  } catch (cause) {
    throw new ResponseValidationError("", `not valid JSON (${(cause as Error).message})`, { cause });
  }
}

function parseWithLongIntegers(text: string): JsonValue {
  // Each long integer becomes a marked string, and the reviver turns it into a bigint. The mark occurs nowhere in the
  // text, and a "\u" escape cannot spell it either as long as the text has no escaped form of its first character.
  const mark = unusedMark(text);
  const marked = text.replace(stringsAndNumbers, (token) =>
    longInteger.test(token) && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token,
  );
  return JSON.parse(marked, (_key, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as JsonValue;
}

function unusedMark(text: string): string {
  // Private-use characters: start from one that appears neither literally nor as an escape.
  for (let code = 0xe000; ; code++) {
    const mark = String.fromCharCode(code);
    if (!text.includes(mark) && !new RegExp(`\\\\u${code.toString(16)}`, "i").test(text)) return mark;
  }
}

/**
 * Writes compact JSON; `bigint` becomes a plain integer.
 *
 * @throws {@link InvalidInputError} for NaN, Infinity and anything else JSON has no word for.
 */
export function stringifyJson(value: unknown): string {
  let longIntegers = false;
  const text = JSON.stringify(value, (key, item: unknown) => {
    if (isLong(item)) {
      longIntegers = true;
      return 0;
    }
    if (typeof item === "number" && !Number.isFinite(item)) throw notJson(key, String(item));
    if (typeof item === "function" || typeof item === "symbol") throw notJson(key, `a ${typeof item}`);
    return item;
  });
  if (text === undefined) throw notJson("", typeof value);
  if (!longIntegers) return text;
  // JSON.stringify cannot write a bigint: write marked strings, then take quotes and mark away. The mark is a character
  // that the text (escapes included) does not hold, so no string of the caller's can be mistaken for a number.
  const mark = unusedMark(text);
  return JSON.stringify(value, (_key, item: unknown) => (isLong(item) ? `${mark}${BigInt(item)}` : item)).replace(
    new RegExp(`"${mark}(-?\\d+)"`, "g"),
    "$1",
  );
}

/**
 * A bigint, or a double beyond 2^53 that would be written as digits: its shortest text (`32965805720171070`) is not the
 * integer it holds (`32965805720171072`), and a reader that keeps integers exact would tell the two apart.
 */
function isLong(item: unknown): item is bigint | number {
  if (typeof item !== "number") return typeof item === "bigint";
  return Number.isInteger(item) && !Number.isSafeInteger(item) && Math.abs(item) < 1e21;
}

function notJson(key: string, what: string): InvalidInputError {
  return new InvalidInputError(key, `is ${what}, which JSON cannot say`);
}
