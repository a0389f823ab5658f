/**
 * An argument as the wire writes it, read into something that cannot surprise: scalars and texts stand for themselves, lists
 * for lists, and everything else is an object with one key of a fixed set. What is none of these is refused.
 */
import { bounds } from "./bounds.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import type { Dtype, Value } from "./values.ts";

/** A reference to the value of an earlier node. */
export interface Reference {
  readonly kind: "ref";
  readonly node: number;
}
export interface ArgumentTuple {
  readonly kind: "tuple";
  readonly items: readonly Argument[];
}
export interface ArgumentSlice {
  readonly kind: "slices";
  readonly parts: readonly [Argument, Argument, Argument];
}
/** An argument with places for what earlier nodes will hold. */
export type Argument = Reference | ArgumentTuple | ArgumentSlice | { readonly kind: "value"; readonly value: Value };

const dtypes: ReadonlyMap<string, Dtype> = new Map<string, Dtype>([
  ["float32", "float32"],
  ["float", "float32"],
  ["float64", "float32"],
  ["double", "float32"],
  ["int64", "int64"],
  ["long", "int64"],
  ["int32", "int64"],
  ["int", "int64"],
  ["bool", "bool"],
]);

const value = (given: Value): Argument => ({ kind: "value", value: given });

/**
 * Reads one argument.
 *
 * @param nodeOf - the place of an earlier node by name; absent for a name that is unknown or not yet there.
 */
export function readArgument(wire: unknown, nodeOf: (name: string) => number | undefined, depth = 0): Argument {
  if (depth > bounds.depth) throw new CustomLossError(`an argument is nested deeper than ${bounds.depth}`);
  const list = (items: readonly unknown[]): readonly Argument[] => {
    if (items.length > bounds.items) throw new CustomLossError(`a list has more than ${bounds.items} entries`);
    return items.map((item) => readArgument(item, nodeOf, depth + 1));
  };
  if (wire === null || typeof wire === "boolean") return value(wire);
  if (typeof wire === "number") return value(wire);
  if (typeof wire === "bigint") throw new CustomLossError(`the number ${wire} is too large`);
  if (typeof wire === "string") return value(text(wire));
  if (Array.isArray(wire)) return { kind: "tuple", items: list(wire) };
  if (typeof wire !== "object") throw new CustomLossError(`an argument is a ${typeof wire}`);
  const entries = Object.entries(wire as object);
  const [entry] = entries;
  if (entries.length !== 1 || entry === undefined) throw new CustomLossError("an argument's object has one key");
  const [key, content] = entry as [string, unknown];
  switch (key) {
    case "ref": {
      const node = typeof content === "string" ? nodeOf(content) : undefined;
      if (node !== undefined) return { kind: "ref", node };
      throw new CustomLossError(`${quoted(content)} is no node before this one`);
    }
    case "tuple":
      if (Array.isArray(content)) return { kind: "tuple", items: list(content) };
      break;
    case "slice":
      if (Array.isArray(content) && content.length === 3) {
        const parts = list(content);
        if (parts.every((part) => part.kind === "ref" || part.kind === "value")) {
          return { kind: "slices", parts: parts as unknown as ArgumentSlice["parts"] };
        }
      }
      break;
    case "ellipsis":
      if (content === true) return value({ kind: "ellipsis" });
      break;
    case "float":
      if (content === "inf") return value(Infinity);
      if (content === "-inf") return value(-Infinity);
      if (content === "nan") return value(Number.NaN);
      break;
    case "dtype": {
      const dtype = typeof content === "string" ? dtypes.get(content) : undefined;
      if (dtype !== undefined) return value({ kind: "dtype", dtype });
      throw new CustomLossError(`the dtype ${quoted(content)} is not there`);
    }
    case "device":
    case "layout":
    case "memory_format":
      if (typeof content === "string" && /^[a-z_]{1,30}(:\d{1,3})?$/.test(content)) return value({ kind: "setting" });
      break;
    default:
      throw new CustomLossError(`${quoted(key)} is no kind of argument`);
  }
  throw new CustomLossError(`an argument's ${key} is not what it should be`);
}

/** An argument with the values of the nodes it refers to. */
export function resolve(argument: Argument, values: readonly Value[]): Value {
  switch (argument.kind) {
    case "value":
      return argument.value;
    case "ref":
      return values[argument.node] as Value;
    case "tuple":
      return argument.items.map((item) => resolve(item, values));
    case "slices":
      return { kind: "slice", parts: argument.parts.map((part) => resolve(part, values)) as [Value, Value, Value] };
  }
}

function text(given: string): string {
  if (given.length > bounds.text) throw new CustomLossError(`a text is longer than ${bounds.text} characters`);
  return given;
}

/** Something from outside in a message: cut, and as JSON writes it; integers too long for a number as their digits. */
export const quoted = (given: unknown): string => {
  const shown =
    JSON.stringify(given, (_, item: unknown) => (typeof item === "bigint" ? `${item}` : item)) ?? typeof given;
  return shown.length > 80 ? `${shown.slice(0, 80)}…` : shown;
};
