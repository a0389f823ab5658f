/**
 * Parses the arguments of a node: a scalar, a string, a list, or an object with one key of a fixed set. All other JSON is rejected.
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
/** A parsed argument, which may contain references to earlier nodes. */
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

const value = (constant: Value): Argument => ({ kind: "value", value: constant });

/**
 * Parses one argument.
 *
 * @param nodeOf - the index of an earlier node by name; `undefined` for other names.
 */
export function readArgument(wire: unknown, nodeOf: (name: string) => number | undefined, depth = 0): Argument {
  if (depth > bounds.depth) throw new CustomLossError(`an argument must be nested at most ${bounds.depth} levels deep`);
  const list = (items: readonly unknown[]): readonly Argument[] => {
    if (items.length > bounds.items)
      throw new CustomLossError(`a list must have at most ${bounds.items} entries, got ${items.length}`);
    return items.map((item) => readArgument(item, nodeOf, depth + 1));
  };
  if (wire === null || typeof wire === "boolean") return value(wire);
  if (typeof wire === "number") return value(wire);
  if (typeof wire === "bigint") throw new CustomLossError(`the integer ${wire} is too large`);
  if (typeof wire === "string") return value(text(wire));
  if (Array.isArray(wire)) return { kind: "tuple", items: list(wire) };
  if (typeof wire !== "object") throw new CustomLossError(`an argument must be JSON, not ${typeof wire}`);
  const entries = Object.entries(wire as object);
  const [entry] = entries;
  if (entries.length !== 1 || entry === undefined)
    throw new CustomLossError("an argument object must have exactly one key");
  const [key, content] = entry as [string, unknown];
  switch (key) {
    case "ref": {
      const node = typeof content === "string" ? nodeOf(content) : undefined;
      if (node !== undefined) return { kind: "ref", node };
      throw new CustomLossError(`${quoted(content)} is not the name of an earlier node`);
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
      throw new CustomLossError(`the dtype ${quoted(content)} is not supported`);
    }
    case "device":
    case "layout":
    case "memory_format":
      if (typeof content === "string" && /^[a-z_]{1,30}(:\d{1,3})?$/.test(content)) return value({ kind: "setting" });
      break;
    default:
      throw new CustomLossError(`${quoted(key)} is not a type of argument`);
  }
  throw new CustomLossError(`the value of the argument type ${key} is invalid`);
}

/** Replaces the references of an argument by the values of their nodes. */
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

function text(string: string): string {
  if (string.length > bounds.text) {
    throw new CustomLossError(`a string must have at most ${bounds.text} characters, got ${string.length}`);
  }
  return string;
}

/** Formats untrusted input for a message: as truncated JSON. */
export const quoted = (input: unknown): string => {
  const shown =
    JSON.stringify(input, (_, item: unknown) => (typeof item === "bigint" ? `${item}` : item)) ?? typeof input;
  return shown.length > 80 ? `${shown.slice(0, 80)}…` : shown;
};
