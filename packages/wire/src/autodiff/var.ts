/**
 * `Var`: an array of float64 numbers with the operation that produced it. Operations are methods, so that a loss reads from left to
 * right; each returns a new `Var` with its operands and its backward function. The backward pass is in `gradient.ts`, the functions of
 * single numbers and their derivatives are in `elementwise.ts`.
 */
import { TensorData } from "../values/tensor-data.ts";
import { type Binary, binary, clamped, power, type Unary, unary } from "./elementwise.ts";
import { ShapeError } from "./errors.ts";
import { axisLoops, broadcast, type Shape, sameShape, showShape, sizeOf, stretchMap } from "./shape.ts";

/** Numbers, or nested rows of numbers. */
export type NumberRows = readonly (number | NumberRows)[];
/** The other operand of an operation; everything except a `Var` is a constant. */
export type Operand = Var | number | ArrayLike<number> | NumberRows | TensorData;

/**
 * Adds to the gradient of each operand its share of the result's gradient. `into[i]` is undefined for an operand that does not depend on
 * a leaf.
 */
export type Backward = (grad: Float64Array, into: readonly (Float64Array | undefined)[]) => void;

interface Origin {
  readonly operands: readonly Var[];
  readonly backward: Backward;
}

let nextOrder = 0;

/**
 * @internal A symbolic value records operations instead of computing them (`trace-loss.ts` of the SDK). A function of several
 * values calls the symbolic implementation when one of its operands is symbolic.
 */
export interface Symbolic {
  call(operation: string, operands: readonly Operand[]): Var;
}

const symbolicOf = (operands: readonly unknown[]): Symbolic | undefined =>
  operands.find((operand): operand is Var => operand instanceof Var && operand.symbolic !== undefined)?.symbolic;

/**
 * A differentiable array: values together with the operations that produced them.
 *
 * @example
 * ```ts
 * const ratio = logprobs.sub(samplingLogprobs).exp();
 * const loss = ratio.mul(advantages).sum().neg();
 * const [slope] = gradient(loss, [logprobs]);
 * ```
 */
export class Var {
  /** Length of each axis; `[]` for a scalar. */
  readonly shape: Shape;
  /** The values in row-major order. Do not write into it. */
  readonly data: Float64Array;
  /** Whether this value depends on a leaf. */
  readonly tracked: boolean;
  /** @internal The operation that produced it; absent for leaves and constants. */
  readonly origin: Origin | undefined;
  /** @internal Set on symbolic values. */
  readonly symbolic: Symbolic | undefined = undefined;
  /** @internal Creation number: operands always have smaller numbers than their results. */
  readonly order: number;

  /** @internal Use {@link leaf} or {@link constant}. */
  constructor(data: Float64Array, shape: Shape, kind: "leaf" | "constant" | Origin) {
    this.data = data;
    this.shape = shape;
    this.order = nextOrder++;
    this.tracked = kind === "leaf" || (kind !== "constant" && kind.operands.some((operand) => operand.tracked));
    this.origin = typeof kind === "object" && this.tracked ? kind : undefined; // a constant holds no reference to its operands
  }

  /** Number of elements. */
  get size(): number {
    return this.data.length;
  }

  /** The value of a scalar (or of an array with one element). @throws {@link ShapeError} for anything larger. */
  item(): number {
    if (this.size !== 1) throw new ShapeError("item", `${showShape(this.shape)} is not a scalar`);
    return this.data[0] as number;
  }

  // ---- arithmetic, broadcast by NumPy's rule ----------------------------------------------------------------------
  /** The sum, element by element. */
  add(other: Operand): Var {
    return combine("add", binary.add, this, other);
  }
  /** The difference, element by element. */
  sub(other: Operand): Var {
    return combine("sub", binary.sub, this, other);
  }
  /** The product, element by element. */
  mul(other: Operand): Var {
    return combine("mul", binary.mul, this, other);
  }
  /** The quotient, element by element. */
  div(other: Operand): Var {
    return combine("div", binary.div, this, other);
  }
  /** The larger of the two, element by element. */
  max(other: Operand): Var {
    return combine("max", binary.max, this, other);
  }
  /** The smaller of the two, element by element. */
  min(other: Operand): Var {
    return combine("min", binary.min, this, other);
  }

  // ---- functions of each element ----------------------------------------------------------------------------------
  /** The negative. */
  neg(): Var {
    return apply(unary.neg, this);
  }
  /** The absolute value; its derivative at 0 is 0. */
  abs(): Var {
    return apply(unary.abs, this);
  }
  /** e^x. */
  exp(): Var {
    return apply(unary.exp, this);
  }
  /** e^x - 1, exact for small x. */
  expm1(): Var {
    return apply(unary.expm1, this);
  }
  /** The natural logarithm. */
  log(): Var {
    return apply(unary.log, this);
  }
  /** log(1 + x), exact for small x. */
  log1p(): Var {
    return apply(unary.log1p, this);
  }
  /** The square root. */
  sqrt(): Var {
    return apply(unary.sqrt, this);
  }
  /** 1 / (1 + e^-x), without overflow. */
  sigmoid(): Var {
    return apply(unary.sigmoid, this);
  }
  /** log(1 + e^x), without overflow. */
  softplus(): Var {
    return apply(unary.softplus, this);
  }
  /** log(sigmoid(x)), without underflow. */
  logSigmoid(): Var {
    return apply(unary.logSigmoid, this);
  }
  /** The hyperbolic tangent. */
  tanh(): Var {
    return apply(unary.tanh, this);
  }
  /** The sine. */
  sin(): Var {
    return apply(unary.sin, this);
  }
  /** The cosine. */
  cos(): Var {
    return apply(unary.cos, this);
  }
  /** Raises to a power: one exponent, or one per element. */
  pow(exponent: Operand): Var {
    return typeof exponent === "number" ? apply(power(exponent), this) : combine("pow", binary.pow, this, exponent);
  }
  /** Clamps each element to the bounds; outside them the gradient is zero. */
  clamp(bounds: { readonly min?: number; readonly max?: number }): Var {
    return apply(clamped(bounds.min ?? -Infinity, bounds.max ?? Infinity), this);
  }

  // ---- sums -------------------------------------------------------------------------------------------------------
  /** The sum of all elements, or along one axis (negative counts from the last); that axis is removed. */
  sum(axis?: number): Var {
    if (axis === undefined) return this.reshape([this.size]).sum(0);
    const { outer, size, inner, axis: at } = axisLoops("sum", this.shape, axis);
    const data = new Float64Array(outer * inner);
    const target = (i: number) => Math.floor(i / (size * inner)) * inner + (i % inner);
    for (let i = 0; i < this.size; i++) data[target(i)]! += this.data[i] as number;
    return result(data, this.shape.toSpliced(at, 1), [this], (grad, [into]) => {
      if (into) for (let i = 0; i < into.length; i++) into[i]! += grad[target(i)] as number;
    });
  }
  /** The mean of all elements, or along one axis; NaN for an empty array. */
  mean(axis?: number): Var {
    const count = axis === undefined ? this.size : axisLoops("mean", this.shape, axis).size;
    return this.sum(axis).mul(1 / count);
  }
  /** The sum of the elements whose mask is not zero; the others count as zero even where they are not finite. */
  maskedSum(mask: Operand): Var {
    return where(mask, this, 0).sum();
  }
  /** The mean over the elements whose mask is not zero; NaN when there is none. */
  maskedMean(mask: Operand): Var {
    const kept = stretched("maskedMean", constant(mask), this.shape).data.filter((value) => value !== 0).length;
    return this.maskedSum(mask).mul(1 / kept);
  }
  /** log(sum(exp(x))) of all elements, or along one axis, without overflow. */
  logSumExp(axis?: number): Var {
    if (axis === undefined) return this.reshape([this.size]).logSumExp(0);
    const loops = axisLoops("logSumExp", this.shape, axis);
    const kept = this.shape.with(loops.axis, 1);
    const peaks = new Float64Array(loops.outer * loops.inner).fill(-Infinity);
    for (let i = 0; i < this.size; i++) {
      const at = Math.floor(i / (loops.size * loops.inner)) * loops.inner + (i % loops.inner);
      peaks[at] = Math.max(peaks[at] as number, this.data[i] as number);
    }
    // In a row of only -Infinity the maximum is -Infinity too; subtracting it would give NaN.
    const peak = new Var(
      peaks.map((value) => (Number.isFinite(value) ? value : 0)),
      kept,
      "constant",
    );
    return this.sub(peak)
      .exp()
      .sum(axis)
      .log()
      .add(peak.reshape(kept.toSpliced(loops.axis, 1)));
  }
  /** The cumulative sum along one axis (negative counts from the last). */
  cumsum(axis: number): Var {
    const { size, inner } = axisLoops("cumsum", this.shape, axis);
    const before = (i: number) => Math.floor(i / inner) % size !== 0;
    const data = this.data.slice();
    for (let i = 0; i < data.length; i++) if (before(i)) data[i]! += data[i - inner] as number;
    return result(data, this.shape, [this], (grad, [into]) => {
      if (!into) return;
      const later = grad.slice(); // the cumulative sum from the end
      for (let i = later.length - 1; i >= 0; i--) if (before(i)) later[i - inner]! += later[i] as number;
      addTo(into, later, 0);
    });
  }
  /** The dot product with another array of the same shape. */
  dot(other: Operand): Var {
    const right = constant(other);
    if (!sameShape(this.shape, right.shape)) throw mismatch("dot", this, right);
    return this.mul(right).sum();
  }

  // ---- indexing and reshaping --------------------------------------------------------------------------------------
  /** The same values in another shape. */
  reshape(shape: Shape): Var {
    if (sizeOf(shape) !== this.size) {
      throw new ShapeError(
        "reshape",
        `${showShape(this.shape)} cannot become ${showShape(shape)}: the number of elements differs`,
      );
    }
    return result(this.data, [...shape], [this], (grad, [into]) => into && addTo(into, grad, 0));
  }
  /** Rows `start` to `end` (not included) along the first axis; negative positions count from the end. */
  slice(start: number, end?: number): Var {
    const rows = this.shape[0];
    if (rows === undefined) throw new ShapeError("slice", "a scalar has no rows");
    const [from, to] = [start, end ?? rows].map((at) => Math.min(Math.max(at < 0 ? at + rows : at, 0), rows)) as [
      number,
      number,
    ];
    const [count, row] = [Math.max(to - from, 0), sizeOf(this.shape.slice(1))];
    const data = this.data.subarray(from * row, (from + count) * row);
    return result(data, this.shape.with(0, count), [this], (grad, [into]) => into && addTo(into, grad, from * row));
  }
  /** The row at `index` along the first axis: a scalar for a vector, a vector for a matrix. Negative counts from the end. */
  at(index: number): Var {
    const rows = this.shape[0] ?? 0;
    const from = index < 0 ? index + rows : index;
    if (!Number.isInteger(from) || from < 0 || from >= rows) {
      throw new ShapeError("at", `there is no row ${index} in ${showShape(this.shape)}`);
    }
    return this.slice(from, from + 1).reshape(this.shape.slice(1));
  }
  /**
   * Gathers along the last axis. Of a vector: the elements at `indices`, in that order; indices may repeat. Of a matrix with `n` rows:
   * one element per row, at `indices[row]`.
   */
  gather(indices: ArrayLike<number>): Var {
    const [rows, columns] = this.shape.length === 1 ? [0, this.size] : (this.shape as [number, number]);
    if (this.shape.length !== 1 && this.shape.length !== 2) {
      throw new ShapeError("gather", `needs a vector or a matrix, not ${showShape(this.shape)}`);
    }
    if (this.shape.length === 2 && indices.length !== rows) {
      throw new ShapeError("gather", `needs one index per row of ${showShape(this.shape)}, not ${indices.length}`);
    }
    const from = Int32Array.from({ length: indices.length }, (_, i) => {
      const index = indices[i] as number;
      if (!Number.isInteger(index) || index < 0 || index >= columns) {
        throw new ShapeError("gather", `index ${index} (number ${i}) is outside 0 to ${columns - 1}`);
      }
      return rows === 0 ? index : i * columns + index;
    });
    const data = Float64Array.from(from, (at) => this.data[at] as number);
    return result(data, [from.length], [this], (grad, [into]) => {
      if (into) for (const [i, at] of from.entries()) into[at]! += grad[i] as number;
    });
  }

  /**
   * The elements at `positions` (in row-major order; positions may repeat) in a new shape. Covers every way to select, repeat or
   * rearrange elements.
   */
  pick(positions: ArrayLike<number>, shape: Shape): Var {
    if (sizeOf(shape) !== positions.length) {
      throw new ShapeError("pick", `${positions.length} positions do not fill ${showShape(shape)}`);
    }
    const from = Int32Array.from(positions);
    const data = Float64Array.from(from, (at, i) => {
      if (at === positions[i] && at >= 0 && at < this.size) return this.data[at] as number;
      throw new ShapeError("pick", `position ${positions[i]} (number ${i}) is outside 0 to ${this.size - 1}`);
    });
    return result(data, [...shape], [this], (grad, [into]) => {
      if (into) for (const [i, at] of from.entries()) into[at]! += grad[i] as number;
    });
  }

  /** The same values as a constant, without a gradient. */
  stopGradient(): Var {
    return new Var(this.data, this.shape, "constant");
  }
}

/** A variable to differentiate with respect to. Copies its values. */
export function leaf(values: Exclude<Operand, Var>, shape?: Shape): Var {
  const { data, shape: own } = constant(values, shape);
  return new Var(data.slice(), own, "leaf");
}

/** Numbers without a gradient: a number, rows of numbers, a typed array or a tensor. A `Var` is returned unchanged. */
export function constant(values: Operand, shape?: Shape): Var {
  const made = values instanceof Var ? values : constantOf(values);
  return shape === undefined || sameShape(shape, made.shape) ? made : made.reshape(shape);
}

function constantOf(values: Exclude<Operand, Var>): Var {
  if (typeof values === "number") return new Var(Float64Array.of(values), [], "constant");
  if (values instanceof TensorData) {
    const { values: flat, shape } = values.toDense();
    return new Var(Float64Array.from(flat as ArrayLike<number>, Number), shape ?? [flat.length], "constant");
  }
  if (values instanceof Float64Array) return new Var(values, [values.length], "constant");
  if (!Array.isArray(values)) {
    return new Var(Float64Array.from(values as ArrayLike<number>), [values.length], "constant");
  }
  const shape: number[] = [];
  for (let row: unknown = values; Array.isArray(row); row = row[0]) shape.push(row.length);
  const flat = values.flat(Infinity) as unknown[];
  const ragged = (row: unknown, depth: number): boolean =>
    depth === shape.length
      ? typeof row !== "number"
      : !Array.isArray(row) || row.length !== shape[depth] || row.some((item) => ragged(item, depth + 1));
  if (ragged(values, 0)) throw new ShapeError("constant", "rows must be numbers, and equally long");
  return new Var(Float64Array.from(flat as number[]), shape, "constant");
}

/** `yes` where the mask is not zero, else `no`. Elements that were not chosen get no gradient. */
export function where(mask: Operand, yes: Operand, no: Operand): Var {
  const symbolic = symbolicOf([mask, yes, no]);
  if (symbolic !== undefined) return symbolic.call("where", [mask, yes, no]);
  const [condition, left, right] = [constant(mask), constant(yes), constant(no)];
  const shape = broadcast("where", broadcast("where", condition.shape, left.shape), right.shape);
  const [maps, chosen] = [[left, right].map((side) => stretchMap(side.shape, shape)), new Float64Array(sizeOf(shape))];
  const picks = stretched("where", condition, shape).data;
  const at = (side: 0 | 1, i: number) => maps[side]?.[i] ?? i;
  for (let i = 0; i < chosen.length; i++) {
    chosen[i] = (picks[i] !== 0 ? left.data[at(0, i)] : right.data[at(1, i)]) as number;
  }
  return result(chosen, shape, [left, right], (grad, into) => {
    for (let i = 0; i < grad.length; i++) {
      const side = picks[i] !== 0 ? 0 : 1;
      const target = into[side];
      if (target) target[at(side, i)]! += grad[i] as number;
    }
  });
}

/** Joins arrays end to end along the first axis; scalars count as vectors of one. */
export function concat(parts: readonly Operand[]): Var {
  const symbolic = symbolicOf(parts);
  if (symbolic !== undefined) return symbolic.call("concat", parts);
  const vars = parts.map((part) => constant(part)).map((part) => (part.shape.length === 0 ? part.reshape([1]) : part));
  const [first] = vars;
  if (first === undefined) throw new ShapeError("concat", "needs at least one array");
  for (const part of vars) {
    if (!sameShape(part.shape.slice(1), first.shape.slice(1))) throw mismatch("concat", first, part);
  }
  const starts: number[] = [];
  let size = 0;
  for (const part of vars) {
    starts.push(size);
    size += part.size;
  }
  const data = new Float64Array(size);
  for (const [i, part] of vars.entries()) data.set(part.data, starts[i]);
  const rows = vars.reduce((sum, part) => sum + (part.shape[0] as number), 0);
  return result(data, first.shape.with(0, rows), vars, (grad, into) => {
    for (const [i, target] of into.entries()) {
      if (target) addTo(target, grad.subarray(starts[i], (starts[i] as number) + target.length), 0);
    }
  });
}

/** Stacks arrays of the same shape along a new first axis; scalars become a vector. */
export function stack(parts: readonly Operand[]): Var {
  const symbolic = symbolicOf(parts);
  if (symbolic !== undefined) return symbolic.call("stack", parts);
  const vars = parts.map((part) => constant(part));
  const [first] = vars;
  if (first === undefined) throw new ShapeError("stack", "needs at least one array");
  for (const part of vars) if (!sameShape(part.shape, first.shape)) throw mismatch("stack", first, part);
  return concat(vars.map((part) => part.reshape([1, ...part.shape])));
}

// ---- implementation of the operations ----------------------------------------------------------------------------------------

const result = (data: Float64Array, shape: Shape, operands: readonly Var[], backward: Backward): Var =>
  new Var(data, shape, { operands, backward });

const mismatch = (operation: string, a: Var, b: Var) =>
  new ShapeError(operation, `${showShape(a.shape)} and ${showShape(b.shape)} have incompatible shapes`);

function addTo(into: Float64Array, grad: Float64Array, offset: number): void {
  for (let i = 0; i < grad.length; i++) into[offset + i]! += grad[i] as number;
}

/** A constant copy of `value`, broadcast to `shape`. */
function stretched(operation: string, value: Var, shape: Shape): Var {
  if (!sameShape(broadcast(operation, value.shape, shape), shape)) {
    throw new ShapeError(operation, `${showShape(value.shape)} cannot be broadcast to ${showShape(shape)}`);
  }
  const map = stretchMap(value.shape, shape);
  return map === undefined
    ? value
    : new Var(
        Float64Array.from(map, (at) => value.data[at] as number),
        shape,
        "constant",
      );
}

function apply(fn: Unary, x: Var): Var {
  const data = x.data.map(fn.value);
  return result(data, x.shape, [x], (grad, [into]) => {
    if (!into) return;
    for (let i = 0; i < into.length; i++) {
      into[i]! += (grad[i] as number) * fn.slope(x.data[i] as number, data[i] as number);
    }
  });
}

function combine(operation: string, fn: Binary, a: Var, other: Operand): Var {
  const b = constant(other);
  if (b.symbolic !== undefined) return b.symbolic.call(operation, [a, b]);
  const shape = broadcast(operation, a.shape, b.shape);
  const maps = [stretchMap(a.shape, shape), stretchMap(b.shape, shape)] as const;
  const left = (i: number) => a.data[maps[0]?.[i] ?? i] as number;
  const right = (i: number) => b.data[maps[1]?.[i] ?? i] as number;
  const data = new Float64Array(sizeOf(shape));
  for (let i = 0; i < data.length; i++) data[i] = fn.value(left(i), right(i));
  return result(data, shape, [a, b], (grad, into) => {
    for (const [side, target] of into.entries()) {
      if (!target) continue;
      const [slope, map] = [fn.slopes[side as 0 | 1], maps[side as 0 | 1]];
      for (let i = 0; i < grad.length; i++) {
        target[map?.[i] ?? i]! += (grad[i] as number) * slope(left(i), right(i));
      }
    }
  });
}
