/**
 * JSON text ⇄ values, with integers beyond 2^53 kept exact as `bigint`. Some clients number their sampling requests up
 * to 1e18, and `JSON.parse` would silently round neighbouring numbers into one. Text without such integers, which is
 * nearly all of it, goes straight through the built-in parser. Refuses what JSON cannot say (NaN, Infinity), except that
 * answers may be read with the words that Python writes for it.
 */
import { entropy } from "../entropy.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";

/** Any JSON value; integers that a double cannot hold are `bigint`. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined;
}

/** Up to a thousand digits: beyond that no field takes the number, and reading it exactly would cost more than linear time. */
const longInteger = /^-?[1-9]\d{15,999}$/;

/** How {@link parseJson} reads. */
export interface ParseJsonOptions {
  /**
   * Reads the words `NaN`, `Infinity` and `-Infinity`, which Python's `json` writes, as those numbers. For answers: a
   * number that is not finite must not cost the rest of the message. @defaultValue false
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
        // The first failure tells more.
      }
    }
    throw new ResponseValidationError("", `not valid JSON (${(cause as Error).message})`, { cause });
  }
}

/**
 * Each number that `JSON.parse` cannot give back exactly becomes a marked string, which the reviver reads. The mark is drawn
 * anew for each text, so that nobody can have written it into one.
 */
function parseMarked(text: string, nonFinite: boolean): JsonValue {
  const mark = entropy.uuid();
  const marked = markNumbers(text, mark, nonFinite);
  return JSON.parse(marked, (_key, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? readMarked(value.slice(mark.length)) : value,
  ) as JsonValue;
}

const readMarked = (token: string): bigint | number => (/\d/.test(token) ? BigInt(token) : Number(token));

/** Walks the text once, from string to string; what stands between two of them has no quotes. */
function markNumbers(text: string, mark: string, nonFinite: boolean): string {
  // A run of what numbers are written with: short ones, which are nearly all, do not even match.
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

/** Where the string that begins at `open` is over; the text's end when it is not closed. */
function endOfString(text: string, open: number): number {
  for (let at = open + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote === -1) return text.length;
    let first = quote;
    while (first > at && text[first - 1] === "\\") first--;
    at = quote + 1;
    if ((quote - first) % 2 === 0) return at; // a quote behind an odd number of backslashes belongs to the string
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
  // JSON.stringify cannot write a bigint: write marked strings, then take quotes and mark away. The mark is drawn anew, so
  // that no string of the caller's can be mistaken for a number.
  const mark = entropy.uuid();
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
