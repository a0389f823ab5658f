/**
 * Parses and writes JSON with exact integers: beyond 2^53 they are `bigint`. Some clients use sequence numbers up to 1e18, which
 * `JSON.parse` would round, so that neighbouring numbers become equal. Text without such integers goes to the built-in parser directly.
 * NaN and Infinity are errors; for answers, `nonFinite` reads the words that Python writes for them.
 */
import { entropy } from "../entropy.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";

/** Any JSON value; integers that a double cannot hold are `bigint`. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/** Up to 1,000 digits: no field accepts longer numbers, and their exact conversion takes more than linear time. */
const longInteger = /^-?[1-9]\d{15,999}$/;

/** Options of {@link parseJson}. */
export interface ParseJsonOptions {
  /**
   * Reads the words `NaN`, `Infinity` and `-Infinity`, which Python's `json` writes, as those numbers. For answers: one
   * non-finite number must not make the whole message unreadable. @defaultValue false
   */
  readonly nonFinite?: boolean;
}

/**
 * Parses JSON text, in time linear in its length.
 *
 * @throws {@link ResponseValidationError} when the text is not JSON.
 */
export function parseJson(text: string, { nonFinite = false }: ParseJsonOptions = {}): JsonValue {
  try {
    if (/\d{16}/.test(text)) return parseMarked(text, nonFinite);
    return JSON.parse(text) as JsonValue;
  } catch (cause) {
    if (nonFinite && cause instanceof SyntaxError && /NaN|Infinity/.test(text)) {
      try {
        return parseMarked(text, nonFinite);
      } catch {
        // The error of the first attempt is more precise.
      }
    }
    throw new ResponseValidationError("", `not valid JSON (${(cause as Error).message})`, { cause });
  }
}

/**
 * Replaces each number that `JSON.parse` would round by a marked string, which the reviver converts. The mark is random for each call,
 * so that no input can contain it.
 */
function parseMarked(text: string, nonFinite: boolean): JsonValue {
  const mark = entropy.uuid();
  const marked = markNumbers(text, mark, nonFinite);
  return JSON.parse(marked, (_key, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? readMarked(value.slice(mark.length)) : value,
  ) as JsonValue;
}

const readMarked = (token: string): bigint | number => (/\d/.test(token) ? BigInt(token) : Number(token));

/** Scans the text once, from string to string; the text between two strings contains no quotes. */
function markNumbers(text: string, mark: string, nonFinite: boolean): string {
  // A run of at least 16 characters of a number: short numbers, which are the most common, do not match.
  const numbers = "(?<![-+.\\deE])[-+.\\deE]{16,1100}(?![-+.\\deE])";
  const tokens = new RegExp(nonFinite ? `${numbers}|NaN|-?Infinity` : numbers, "g");
  const markToken = (token: string) =>
    (longInteger.test(token) && !Number.isSafeInteger(Number(token))) || /^(NaN|-?Infinity)$/.test(token)
      ? `"${mark}${token}"`
      : token;
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const open = text.indexOf('"', at);
    const between = text.slice(at, open === -1 ? text.length : open);
    parts.push(between.replace(tokens, markToken));
    if (open === -1) break;
    at = endOfString(text, open);
    parts.push(text.slice(open, at));
  }
  return parts.join("");
}

/** End of the string that starts at `open`; the end of the text if the string is not closed. */
function endOfString(text: string, open: number): number {
  for (let at = open + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote === -1) return text.length;
    let first = quote;
    while (first > at && text[first - 1] === "\\") first--;
    at = quote + 1;
    if ((quote - first) % 2 === 0) return at; // a quote after an odd number of backslashes is escaped
  }
}

/**
 * Writes compact JSON; `bigint` becomes a plain integer.
 *
 * @throws {@link InvalidInputError} for NaN, Infinity and other values that JSON does not have.
 */
export function stringifyJson(value: unknown): string {
  if (isPlainJson(value)) return JSON.stringify(value);
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
  // JSON.stringify cannot write a bigint: write marked strings, then remove quotes and mark. The mark is random for each call, so
  // that no string of the caller can contain it.
  const mark = entropy.uuid();
  return JSON.stringify(value, (_key, item: unknown) => (isLong(item) ? `${mark}${BigInt(item)}` : item)).replace(
    new RegExp(`"${mark}(-?\\d+)"`, "g"),
    "$1",
  );
}

/**
 * Whether `JSON.stringify` alone writes the value: several times as fast as with a function that sees every number. False for values that
 * it would not write or not exactly, for objects of a class, and for nested values deeper than any message.
 */
function isPlainJson(value: unknown, depth = 0): boolean {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isSafeInteger(value) || (Number.isFinite(value) && !isLong(value));
    case "undefined":
      return depth > 0; // omitted in an object, null in an array
    case "object":
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth > deepestPlain) return false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isPlainJson(value[i], depth + 1)) return false;
    return true;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype || "toJSON" in value) return false;
  for (const key in value) if (!isPlainJson((value as Record<string, unknown>)[key], depth + 1)) return false;
  return true;
}

/** Messages nest less; a value that contains itself ends here. */
const deepestPlain = 32;

/**
 * A bigint, or a double beyond 2^53 that JavaScript writes without an exponent: its shortest representation (`32965805720171070`) differs
 * from its exact value (`32965805720171072`), and a reader with exact integers would get another number.
 */
function isLong(item: unknown): item is bigint | number {
  if (typeof item !== "number") return typeof item === "bigint";
  return Number.isInteger(item) && !Number.isSafeInteger(item) && Math.abs(item) < 1e21;
}

function notJson(key: string, what: string): InvalidInputError {
  return new InvalidInputError(key, `is ${what}, which JSON cannot represent`);
}
