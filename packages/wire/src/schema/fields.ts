/**
 * The field codecs of messages: each converts one API value to its wire value and back, and has a description, which the parity test
 * compares with the official SDK's schemas. Decoding is as lenient as the official client (`"5"` for an integer, `0` for a boolean);
 * encoding is strict.
 */
import { describe, isPlainObject } from "../describe.ts";
import type { JsonValue } from "./json.ts";

/** The type of a field, for the comparison of schemas. */
export type Shape =
  | { readonly type: "string" | "integer" | "number" | "boolean" | "bytes" | "datetime" | "json" }
  | { readonly type: "literal"; readonly value: string | number }
  | { readonly type: "enum"; readonly values: readonly (string | number)[]; readonly open: boolean }
  | { readonly type: "array"; readonly items: Shape }
  | { readonly type: "map"; readonly values: Shape }
  | { readonly type: "message"; readonly name: string }
  | { readonly type: "union"; readonly options: readonly Shape[] }
  | { readonly type: "nullable"; readonly of: Shape };

/** A required field. */
export interface Field<T> {
  readonly presence: "required";
  readonly shape: Shape;
  /** API value → wire value. Throws {@link FieldProblem}. */
  readonly toWire: (value: T) => unknown;
  /** Wire value → API value. Throws {@link FieldProblem}. */
  readonly fromWire: (wire: unknown) => T;
}
/** An optional field: omitted if undefined; null on the wire means absent. */
export interface OptionalField<T> {
  readonly presence: "optional";
  readonly of: Field<T>;
}
/** A field with a default, which is sent if the caller gives no value, and used if the field is missing in an answer. */
export interface DefaultField<T> {
  readonly presence: "default";
  readonly of: Field<T>;
  readonly value: T;
}

/** Thrown by field codecs, with the path of the field; the message's codec converts it to a typed error. */
export class FieldProblem extends Error {
  readonly path: (string | number)[] = [];
  readonly hint: string | undefined;
  constructor(problem: string, hint?: string) {
    super(problem);
    this.hint = hint;
  }
}

/** Runs `body`; adds `key()` at the start of the path of a {@link FieldProblem}. */
export function at<T>(key: () => string | number, body: () => T): T {
  try {
    return body();
  } catch (error) {
    throw within(key(), error);
  }
}

/** The error, with the key at the start of its path if it has one. */
export function within(key: string | number, error: unknown): unknown {
  if (error instanceof FieldProblem) error.path.unshift(key);
  return error;
}

export function problem(expected: string, value: unknown): FieldProblem {
  return new FieldProblem(`must be ${expected}, not ${describe(value)}`);
}

function field<T>(
  shape: Shape,
  fromWire: (wire: unknown) => T,
  toWire: (value: T) => unknown = fromWire as unknown as (value: T) => unknown,
): Field<T> {
  return { presence: "required", shape, toWire, fromWire };
}

/** Makes a field optional. */
export const optional = <T>(of: Field<T>): OptionalField<T> => ({ presence: "optional", of });
/** Adds a default to a field; it is sent like any other value. */
export const withDefault = <T>(of: Field<T>, value: T): DefaultField<T> => ({ presence: "default", of, value });

/** A field with its own codec, for values that are instances of a class. */
export const custom = field;

export const string = (): Field<string> =>
  field(
    { type: "string" },
    (wire) => {
      if (typeof wire !== "string") throw problem("a string", wire);
      return wire;
    },
    (value) => {
      if (typeof value !== "string") throw problem("a string", value);
      return wellFormed(value);
    },
  );

/** Whether a string contains a lone surrogate. */
export const hasLoneSurrogate = (text: string): boolean => /\p{Surrogate}/u.test(text);

/** Rejects lone surrogates: UTF-8 cannot encode them, so the server would receive another string. */
function wellFormed(text: string): string {
  if (hasLoneSurrogate(text)) throw new FieldProblem("contains a lone surrogate, which UTF-8 cannot encode");
  return text;
}

const integerText = /^\s*[+-]?\d+\s*$/;

/** An integer that a double holds exactly. */
export const int = (): Field<number> =>
  field(
    { type: "integer" },
    (wire) => {
      const value = typeof wire === "string" && integerText.test(wire) ? Number(wire) : wire;
      if (typeof value === "boolean") return Number(value);
      if (!Number.isSafeInteger(value)) throw problem("an integer", wire);
      return value as number;
    },
    (value) => {
      if (!Number.isSafeInteger(value)) throw problem("an integer", value);
      return value;
    },
  );

/** An integer of 64 bits, signed or unsigned: a number up to 2^53, a `bigint` beyond. */
export const long = (): Field<number | bigint> =>
  field(
    { type: "integer" },
    (wire) => {
      const value = typeof wire === "string" && integerText.test(wire) ? BigInt(wire.trim()) : wire;
      return checkLong(value, wire);
    },
    (value) => checkLong(value, value),
  );

function checkLong(value: unknown, given: unknown): number | bigint {
  if (typeof value === "bigint") {
    if (value < -(2n ** 63n) || value >= 2n ** 64n) throw problem("an integer of at most 64 bits", given);
    return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
  }
  if (!Number.isSafeInteger(value)) throw problem("an integer (a bigint beyond 2^53)", given);
  return value as number;
}

const floatText = /^\s*[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|infinity|nan)\s*$/i;

/** A number: finite when encoded; decoding also accepts what Python's parser accepts (`"0.5"`, `"NaN"`). */
export const float = (): Field<number> =>
  field(
    { type: "number" },
    (wire) => {
      if (typeof wire === "number") return wire;
      if (typeof wire === "bigint" || typeof wire === "boolean") return Number(wire);
      if (typeof wire === "string" && floatText.test(wire)) return readFloatText(wire.trim().toLowerCase());
      throw problem("a number", wire);
    },
    (value) => {
      if (typeof value !== "number" || !Number.isFinite(value)) throw problem("a finite number", value);
      return value;
    },
  );

function readFloatText(text: string): number {
  if (/nan$/.test(text)) return Number.NaN;
  if (/inf(inity)?$/.test(text)) return text.startsWith("-") ? -Infinity : Infinity;
  return Number(text);
}

const trueWords = new Set<unknown>(["true", "t", "yes", "y", "on", "1", 1, true]);
const falseWords = new Set<unknown>(["false", "f", "no", "n", "off", "0", 0, false]);

export const bool = (): Field<boolean> =>
  field(
    { type: "boolean" },
    (wire) => {
      const word = typeof wire === "string" ? wire.toLowerCase() : wire;
      if (trueWords.has(word)) return true;
      if (falseWords.has(word)) return false;
      throw problem("true or false", wire);
    },
    (value) => {
      if (typeof value !== "boolean") throw problem("true or false", value);
      return value;
    },
  );

/** A constant, for example the `type` of a request: a field with that value as its default. */
export const literal = <const T extends string | number>(word: T): DefaultField<T> =>
  withDefault(
    field({ type: "literal", value: word }, (value) => {
      if (value !== word) throw problem(JSON.stringify(word), value);
      return word;
    }),
    word,
  );

/** One of several values. Any other value is an error in both directions. */
export const oneOf = <const T extends string | number>(...values: readonly T[]): Field<T> =>
  field({ type: "enum", values, open: false }, (value) => {
    if (!values.includes(value as T)) throw problem(`one of ${values.map((v) => JSON.stringify(v)).join(", ")}`, value);
    return value as T;
  });

/** A string from a set that newer servers may extend: unknown values are kept unchanged. */
export const openWord = <const T extends string>(...values: readonly T[]): Field<T | (string & {})> =>
  field({ type: "enum", values, open: true }, (value) => {
    if (typeof value !== "string") throw problem(`a string such as ${JSON.stringify(values[0])}`, value);
    return value;
  });

/** Binary data: base64 on the wire, bytes in the API. */
export const bytes = (): Field<Uint8Array> =>
  field(
    { type: "bytes" },
    (wire) => {
      if (typeof wire !== "string") throw problem("a base64 string", wire);
      return decodeBase64(wire);
    },
    (value) => {
      if (!(value instanceof Uint8Array)) throw problem("a Uint8Array", value);
      return encodeBase64(value);
    },
  );

/** Bytes → standard base64 with padding. */
export function encodeBase64(value: Uint8Array): string {
  let binary = "";
  // The arguments of String.fromCharCode are on the stack: 32 kB at a time fits in every runtime.
  for (let i = 0; i < value.length; i += 0x8000) binary += String.fromCharCode(...value.subarray(i, i + 0x8000));
  return btoa(binary);
}

/** Base64 (standard or URL-safe) → bytes. */
export function decodeBase64(text: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    throw new FieldProblem("must be a base64 string");
  }
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

export const list = <T>(of: Field<T>): Field<readonly T[]> => {
  const each = (value: unknown, convert: (item: never) => unknown): unknown[] => {
    if (!Array.isArray(value)) throw problem("an array", value);
    let i = 0;
    return at(
      () => i,
      () => {
        const out: unknown[] = new Array(value.length);
        for (i = 0; i < value.length; i++) out[i] = convert(value[i] as never);
        return out;
      },
    );
  };
  return field<readonly T[]>(
    { type: "array", items: of.shape },
    (wire) => each(wire, of.fromWire) as T[],
    (value) => each(value, of.toWire),
  );
};

/** An object whose keys are data: they are never renamed. */
export const map = <T>(of: Field<T>): Field<Readonly<Record<string, T>>> => {
  const each = (value: unknown, convert: (item: never) => unknown): Record<string, unknown> => {
    if (!isPlainObject(value)) throw problem("an object", value);
    // Object.fromEntries defines properties, so that the key "__proto__" is an ordinary key
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [
        key,
        at(
          () => key,
          () => {
            wellFormed(key);
            return convert(item as never);
          },
        ),
      ]),
    );
  };
  return field<Readonly<Record<string, T>>>(
    { type: "map", values: of.shape },
    (wire) => each(wire, of.fromWire) as Record<string, T>,
    (value) => each(value, of.toWire),
  );
};

/** Free-form JSON, passed through unchanged, including nulls. */
export const json = (): Field<JsonValue> =>
  field(
    { type: "json" },
    (wire) => wire as JsonValue,
    (value) => {
      checkJson(value, new Set());
      return value;
    },
  );

function checkJson(value: unknown, parents: Set<unknown>): void {
  if (value === null || typeof value === "boolean" || typeof value === "bigint") return;
  if (typeof value === "string") {
    wellFormed(value);
    return;
  }
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw problem("a JSON value", value);
    return;
  }
  if (typeof value !== "object") throw problem("a JSON value", value);
  if (parents.has(value)) throw new FieldProblem("must not contain itself");
  if (!Array.isArray(value) && !isPlainObject(value)) throw problem("a JSON value", value);
  parents.add(value);
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined && !Array.isArray(value)) continue; // JSON.stringify omits it
    at(
      () => (Array.isArray(value) ? Number(key) : key),
      () => {
        wellFormed(key);
        checkJson(item, parents);
      },
    );
  }
  parents.delete(value);
}

/** A value that may be null; null is sent explicitly. */
export const nullable = <T>(of: Field<T>): Field<T | null> =>
  field<T | null>(
    { type: "nullable", of: of.shape },
    (wire) => (wire === null || wire === undefined ? null : of.fromWire(wire)),
    (value) => (value === null ? null : of.toWire(value)),
  );
