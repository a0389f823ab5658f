/**
 * The values of nodes of a custom loss. A tensor always has a rank, and has numbers only while the loss runs: the check at creation runs
 * the same operations with ranks only.
 */
import type { Var } from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";

/** The dtypes that a loss can distinguish; all numbers are stored as doubles. */
export type Dtype = "bool" | "int64" | "float32";

export class Tensor {
  readonly dtype: Dtype;
  readonly rank: number;
  readonly #numbers: Var | undefined;
  constructor(dtype: Dtype, rank: number, numbers?: Var) {
    this.dtype = dtype;
    this.rank = rank;
    this.#numbers = numbers;
  }
  /** The numbers. @throws Error while ranks are checked. */
  get numbers(): Var {
    if (this.#numbers === undefined) throw new Error("a tensor has no numbers while ranks are checked");
    return this.#numbers;
  }
}

/** A size that is known only when the loss runs. */
export interface LaterSize {
  readonly kind: "size";
}
export const laterSize: LaterSize = { kind: "size" };
export type Num = number | LaterSize;

export interface Slice {
  readonly kind: "slice";
  readonly parts: readonly [Value, Value, Value];
}
export interface DtypeValue {
  readonly kind: "dtype";
  readonly dtype: Dtype;
}
/** `...` of an index, and settings without an effect here: device, layout, memory format. */
export interface Marker {
  readonly kind: "ellipsis" | "setting";
}
export interface Dictionary {
  readonly kind: "dict";
  readonly entries: ReadonlyMap<string, Value>;
}
export type Value =
  | Tensor
  | Num
  | boolean
  | string
  | null
  | Slice
  | DtypeValue
  | Marker
  | Dictionary
  | readonly Value[];

export const isNum = (value: Value): value is Num => typeof value === "number" || value === laterSize;
export const isTuple = (value: Value): value is readonly Value[] => Array.isArray(value);
export const hasKind = <K extends string>(value: Value, kind: K): value is Extract<Value, { kind: K }> =>
  typeof value === "object" && value !== null && "kind" in value && value.kind === kind;

/** Describes a value in error messages. */
export function describeValue(value: Value): string {
  if (value instanceof Tensor) return `a tensor of rank ${value.rank}`;
  if (value === laterSize) return "a size";
  if (isTuple(value)) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null) return `a ${value.kind}`;
  return JSON.stringify(value);
}

/** Asserts an integer; a later size is returned unchanged. */
export function wholeNumber(value: Value, name: string): Num {
  if (value === laterSize) return laterSize;
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw new CustomLossError(`${name} must be an integer, not ${describeValue(value)}`);
}

/** Asserts an integer that is known at creation, because a rank depends on it. */
export function knownNumber(value: Value, name: string): number {
  const number = wholeNumber(value, name);
  if (typeof number === "number") return number;
  throw new CustomLossError(`${name} must be a constant, not a size of a tensor`);
}

/** An axis; negative numbers count from the end. */
export function axisOf(value: Value, rank: number, name = "dim"): number {
  const number = knownNumber(value, name);
  const axis = number < 0 ? number + rank : number;
  // Axis 0 of a scalar is accepted, as in PyTorch.
  if (axis < 0 || axis >= Math.max(rank, 1))
    throw new CustomLossError(`${name} ${number} is out of range for rank ${rank}`);
  return axis;
}

/** One or several axes; `null` and the empty list mean all axes. */
export function axesOf(value: Value, rank: number): number[] {
  if (value === null || (isTuple(value) && value.length === 0)) return Array.from({ length: rank }, (_, i) => i);
  const list = isTuple(value) ? value : [value];
  const axes = list.map((axis) => axisOf(axis, rank));
  if (new Set(axes).size !== axes.length) throw new CustomLossError("dim contains an axis twice");
  return axes.filter((axis) => axis < rank);
}

/** Asserts a boolean. */
export function flag(value: Value, name: string): boolean {
  if (typeof value === "boolean") return value;
  throw new CustomLossError(`${name} must be true or false, not ${describeValue(value)}`);
}
