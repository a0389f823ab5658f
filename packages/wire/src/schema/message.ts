/**
 * The object codec: a documented interface plus `message<T>("Name", { … })`, which does not compile when a field is missing, extra or
 * has the wrong type. Converts between camelCase and snake_case by the schema, so that the keys of free-form maps are not changed.
 */

import { closest } from "../closest.ts";
import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";
import { type DefaultField, type Field, FieldProblem, type OptionalField, type Shape, within } from "./fields.ts";
import type { JsonObject } from "./json.ts";

type AnyField = Field<never> | OptionalField<never> | DefaultField<never>;
type IsOptional<T, K extends keyof T> = object extends Pick<T, K> ? true : false;

/** The codecs of the fields of `T`; `D` are the fields with a default. */
type FieldsOf<T, D extends keyof T> = {
  readonly [K in keyof T]-?: K extends D
    ? DefaultField<T[K]>
    : IsOptional<T, K> extends true
      ? OptionalField<Exclude<T[K], undefined>>
      : Field<T[K]>;
};

/** The input from which a `T` is made, if the fields `D` have defaults. */
export type InputOf<T, D extends keyof T> = Undefinable<Omit<T, D>> & { readonly [K in D]?: T[K] | undefined };

/** The same type, with `undefined` allowed for optional fields. */
type Undefinable<T> = { [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] };

/** Description of a field, for the parity test. */
export interface FieldDescription {
  /** Name on the wire. */
  readonly name: string;
  readonly presence: "required" | "optional" | "default";
  readonly shape: Shape;
  /** The default in wire form. */
  readonly default?: unknown;
}

/** A wire message: its name, its codec and its schema. */
export interface Message<T, Input = T> {
  readonly name: string;
  /** API value → JSON object. @throws {@link InvalidInputError} naming the field in API spelling. */
  encode(input: Input): JsonObject;
  /** JSON value → API value. @throws {@link ResponseValidationError} naming the field in wire spelling. */
  decode(wire: unknown): T;
  /** This message as a field of another one. */
  readonly field: Field<T>;
  readonly fields: readonly FieldDescription[];
}

/** The API type of a message. */
export type TypeOf<M> = M extends Message<infer T, infer _> ? T : never;
/** The input type of a message's `encode`. */
export type InputTypeOf<M> = M extends Message<infer _, infer Input> ? Input : never;

const wireObjects = new WeakMap<object, Readonly<Record<string, unknown>>>();

/**
 * The JSON object from which a message was decoded. It has the fields that this version does not know, and timestamps with
 * microseconds, which a `Date` does not have.
 *
 * @returns `undefined` for an object that was not decoded.
 */
export function wireOf(value: object): Readonly<Record<string, unknown>> | undefined {
  return wireObjects.get(value);
}

interface Slot {
  readonly key: string;
  readonly wire: string;
  readonly field: AnyField;
  /** The codec of its values. */
  readonly of: Field<unknown>;
}

/** Options of {@link message}. */
export interface MessageOptions<T> {
  /** Checks the whole value when it is encoded and when it is decoded; throws with `fail`. */
  readonly check?: (value: T, fail: (key: keyof T & string, problem: string, hint?: string) => never) => void;
  /** Converts a wire value that is not an object, for example a string from an older server. */
  readonly fromScalar?: (wire: unknown) => unknown;
}

/** Defines a message. By convention interface and constant have the same name; see `Cursor` in `rest.ts`. */
export function message<T extends object, D extends keyof T = never>(
  name: string,
  fields: FieldsOf<T, D>,
  options: MessageOptions<T> = {},
): Message<T, InputOf<T, D>> {
  const slots: readonly Slot[] = Object.entries(fields as unknown as Record<string, AnyField>).map(([key, field]) => ({
    key,
    wire: snakeCase(key),
    field,
    of: (field.presence === "required" ? field : field.of) as unknown as Field<unknown>,
  }));
  const known = new Set(slots.map((slot) => slot.key));
  const runCheck = (value: T, spell: (key: string) => string) =>
    options.check?.(value, (key, problem, hint) => {
      const error = new FieldProblem(problem, hint);
      error.path.unshift(spell(key));
      throw error;
    });

  const toWire = (input: unknown): Record<string, unknown> => {
    if (!isPlainObject(input)) throw new FieldProblem(`must be an object, not ${describe(input)}`);
    for (const key of Object.keys(input)) if (!known.has(key)) throw unknownKey(key, known);
    const wire: Record<string, unknown> = {};
    // Every request passes here: no closures and no copy that is not read.
    const full: Record<string, unknown> | undefined = options.check === undefined ? undefined : {};
    for (const { key, wire: wireName, field, of } of slots) {
      let value = input[key];
      if (field.presence === "default" && value === undefined) value = field.value;
      if (value === undefined || (value === null && field.presence === "optional")) {
        if (field.presence === "required") throw missing(key);
        continue;
      }
      if (full !== undefined) full[key] = value;
      try {
        wire[wireName] = of.toWire(value);
      } catch (error) {
        throw within(key, error);
      }
    }
    if (full !== undefined) runCheck(full as T, (key) => key);
    return wire;
  };

  const fromWire = (given: unknown): T => {
    const raw = options.fromScalar !== undefined && !isPlainObject(given) ? options.fromScalar(given) : given;
    if (!isPlainObject(raw)) throw new FieldProblem(`must be an object, not ${describe(raw)}`);
    const value: Record<string, unknown> = {};
    for (const { key, wire, field, of } of slots) {
      const item = Object.hasOwn(raw, wire) ? raw[wire] : undefined;
      if (item === undefined || (item === null && field.presence !== "required")) {
        if (field.presence === "default") value[key] = field.value;
        else if (field.presence === "required") throw missing(wire);
        continue;
      }
      try {
        value[key] = of.fromWire(item);
      } catch (error) {
        throw within(wire, error);
      }
    }
    if (options.check !== undefined) runCheck(value as T, snakeCase);
    wireObjects.set(value, raw);
    return value as T;
  };

  return {
    name,
    encode: (input) => {
      try {
        return toWire(input) as JsonObject;
      } catch (error) {
        if (!(error instanceof FieldProblem)) throw error;
        throw new InvalidInputError(pathText(error.path) || name, error.message, hintOf(error));
      }
    },
    decode: (wire) => {
      try {
        return fromWire(wire);
      } catch (error) {
        if (!(error instanceof FieldProblem)) throw error;
        throw new ResponseValidationError(pathText(error.path) || name, error.message, hintOf(error));
      }
    },
    field: { presence: "required", shape: { type: "message", name }, toWire, fromWire },
    fields: slots.map(({ wire, field, of }) => ({
      name: wire,
      presence: field.presence,
      shape: of.shape,
      ...(field.presence === "default" ? { default: of.toWire(field.value) } : {}),
    })),
  };
}

/**
 * One of several messages, discriminated by a literal field: `type` or `state`.
 *
 * @param tag - name of the discriminating field, equal in API and wire spelling.
 * @param how.wordRequired - reject a value without the field, instead of using the first message that accepts it.
 */
export function unionOf<T extends object>(
  tag: keyof T & string,
  options: readonly { readonly name: string; readonly fields: readonly FieldDescription[]; readonly field: unknown }[],
  how: { readonly wordRequired?: boolean } = {},
): Field<T> {
  const byWord = new Map(
    options.map((option) => [option.fields.find(({ name }) => name === tag)?.default, option.field as Field<T>]),
  );
  const fields = [...byWord.values()];
  const words = [...byWord.keys()].map((word) => JSON.stringify(word)).join(", ");
  /** By the literal; without one, the first message that accepts the value, as in the official client. */
  const fieldOf = (value: unknown, fits: (field: Field<T>) => unknown): Field<T> => {
    if (!isPlainObject(value)) throw new FieldProblem(`must be an object, not ${describe(value)}`);
    const guess = value[tag] === undefined && how.wordRequired !== true;
    const found = guess ? fields.find((field) => succeeds(() => fits(field))) : byWord.get(value[tag]);
    if (found !== undefined) return found;
    const error = new FieldProblem(`must be one of ${words}, not ${describe(value[tag])}`);
    error.path.unshift(tag);
    throw error;
  };
  return {
    presence: "required",
    shape: { type: "union", options: options.map(({ name }) => ({ type: "message", name })) },
    toWire: (value) => fieldOf(value, (field) => field.toWire(value)).toWire(value),
    fromWire: (wire) => fieldOf(wire, (field) => field.fromWire(wire)).fromWire(wire),
  };
}

function succeeds(body: () => unknown): boolean {
  try {
    body();
    return true;
  } catch (error) {
    if (error instanceof FieldProblem) return false;
    throw error;
  }
}

const hintOf = (error: FieldProblem) => omitUndefined({ hint: error.hint });

function missing(key: string): FieldProblem {
  const error = new FieldProblem("is required");
  error.path.unshift(key);
  return error;
}

function unknownKey(key: string, known: ReadonlySet<string>): FieldProblem {
  const close = closest(key, known);
  const error = new FieldProblem(
    "is not a known field of the service",
    close === undefined ? `Known fields: ${[...known].join(", ")}.` : `Did you mean ${close}?`,
  );
  error.path.unshift(key);
  return error;
}

/** `learningRate` → `learning_rate`; digits are not separated from the preceding word (`beta1`). */
export function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** A path in JavaScript notation: `checkpoints[2].time`. */
export function pathText(path: readonly (string | number)[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`),
    "",
  );
}

/** Fields of a wire object that its message does not have, for logs of a server. */
export function unknownFields(schema: Message<never, never>, wire: unknown): string[] {
  if (!isPlainObject(wire)) return [];
  const names = new Set(schema.fields.map((field) => field.name));
  return Object.keys(wire).filter((name) => !names.has(name));
}
