/**
 * The primitives of which all operations consist: elementwise functions, reductions, gathering, concatenation. Each primitive works with
 * ranks only (the check at creation) and with numbers (a run on one datum), so that an operation is written once. All memory of a run is
 * reserved here and limited.
 */

import type { Var } from "@tinklet/wire/autodiff";
import * as autodiff from "@tinklet/wire/autodiff";
import { bounds, extentOf } from "./bounds.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import { type Dtype, describeValue, isNum, laterSize, type Num, Tensor, type Value } from "./values.ts";

const { broadcast, concat, constant, where } = autodiff;
export type Sizes = readonly number[];
export const sizeOf = (shape: Sizes): number => shape.reduce((a, b) => a * b, 1);

const order: readonly Dtype[] = ["bool", "int64", "float32"];
/** The wider of two dtypes. */
export const wider = (a: Dtype, b: Dtype): Dtype => (order.indexOf(a) > order.indexOf(b) ? a : b);

/** Remaining elements for all data of one pass. */
export interface PassBudget {
  elements: number;
}

export class Kit {
  /** Whether operations compute numbers, or ranks only. */
  readonly running: boolean;
  #left: number = bounds.allElements;
  readonly #pass: PassBudget;
  constructor(running: boolean, pass: PassBudget = { elements: bounds.passElements }) {
    this.running = running;
    this.#pass = pass;
  }

  /**
   * Reserves memory for `arrays` arrays of a shape, before they are allocated or iterated over.
   *
   * @throws {@link CustomLossError} above a limit.
   */
  reserve(shape: Sizes, arrays = 1): Sizes {
    const extent = extentOf(shape);
    if (!(extent <= bounds.elements)) {
      throw new CustomLossError(
        `a tensor must have at most ${bounds.elements} elements, got the shape [${shape.join(", ")}]`,
      );
    }
    this.#left -= extent * arrays;
    if (this.#left < 0)
      throw new CustomLossError(
        `the intermediate tensors of one datum must have at most ${bounds.allElements} elements`,
      );
    this.#pass.elements -= extent * arrays;
    if (this.#pass.elements < 0)
      throw new CustomLossError(`the intermediate tensors of a pass must have at most ${bounds.passElements} elements`);
    return shape;
  }

  /** Checks the constant sizes of a shape at creation; sizes that depend on the data are checked in a run. */
  checkConstantSizes(sizes: readonly Num[]): void {
    const known = sizes.filter((size) => typeof size === "number") as number[];
    if (!(extentOf(known) <= bounds.elements)) {
      throw new CustomLossError(
        `a tensor must have at most ${bounds.elements} elements, got sizes [${known.join(", ")}]`,
      );
    }
  }

  /** A tensor of a rank; `make` computes its numbers and is called only in a run. */
  tensor(dtype: Dtype, rank: number, make: () => Var): Tensor {
    if (rank > bounds.rank) throw new CustomLossError(`a tensor must have at most rank ${bounds.rank}, got ${rank}`);
    return this.running ? new Tensor(dtype, rank, make()) : new Tensor(dtype, rank);
  }

  /** Converts a number to a scalar tensor; a tensor is returned unchanged. */
  lift(value: Value, name: string): Tensor {
    if (value instanceof Tensor) return value;
    if (typeof value === "boolean") return this.tensor("bool", 0, () => constant(value ? 1 : 0));
    if (isNum(value)) {
      const dtype = typeof value === "number" && !Number.isInteger(value) ? "float32" : "int64";
      return this.tensor(dtype, 0, () => constant(known(value)));
    }
    throw new CustomLossError(`${name} must be a tensor or a number, not ${describeValue(value)}`);
  }

  /** Applies a function to each element; `arrays` is the number of arrays that it allocates, including its result. */
  each(x: Tensor, fn: (x: Var) => Var, dtype: Dtype = "float32", arrays = 1): Tensor {
    return this.tensor(dtype, x.rank, () => {
      this.reserve(x.numbers.shape, arrays);
      return fn(x.numbers);
    });
  }

  /** Applies a function without a gradient to each element. */
  step(x: Tensor, fn: (x: number) => number, dtype: Dtype): Tensor {
    return this.each(x, ({ data, shape }) => constant(data.map(fn), shape), dtype);
  }

  /** Applies a function to two tensors with broadcasting; `arrays` is the number of arrays that it allocates, without one for positions. */
  zip(a: Tensor, b: Tensor, fn: (a: Var, b: Var) => Var, dtype: Dtype, arrays = 1): Tensor {
    return this.tensor(dtype, Math.max(a.rank, b.rank), () => {
      this.reserve(broadcast("the operands", a.numbers.shape, b.numbers.shape), arrays + 1);
      return fn(a.numbers, b.numbers);
    });
  }

  /** Applies a function without a gradient to two tensors, with broadcasting. */
  stepZip(a: Tensor, b: Tensor, fn: (a: number, b: number) => number, dtype: Dtype): Tensor {
    return this.zip(
      a,
      b,
      (left, right) => {
        this.reserve(broadcast("the operands", left.shape, right.shape), 6);
        // Broadcasts by adding zeros of the other shape, for which memory was just reserved.
        const [x, y] = [left.stopGradient(), right.stopGradient()];
        const [full, other] = [x.add(y.pow(0).sub(1)), y.add(x.pow(0).sub(1))];
        return constant(
          full.data.map((value, i) => fn(value, other.data[i] as number)),
          full.shape,
        );
      },
      dtype,
    );
  }

  where(condition: Tensor, yes: Tensor, no: Tensor): Tensor {
    return this.tensor(wider(yes.dtype, no.dtype), Math.max(condition.rank, yes.rank, no.rank), () => {
      const [c, y, n] = [condition.numbers, yes.numbers, no.numbers];
      this.reserve(broadcast("where", broadcast("where", c.shape, y.shape), n.shape), 3);
      return where(c, y, n);
    });
  }

  /** The sum over axes; `keep` keeps them with size 1. */
  sum(x: Tensor, axes: readonly number[], keep: boolean): Tensor {
    return this.reduce(x, axes, keep, (numbers, axis) => numbers.sum(axis), x.dtype === "bool" ? "int64" : x.dtype);
  }

  /** Reduces axes one by one, the last first; `arrays` is how many arrays of the operand's size one reduction allocates or iterates over. */
  reduce(
    x: Tensor,
    axes: readonly number[],
    keep: boolean,
    fold: (x: Var, axis: number) => Var,
    dtype: Dtype = "float32",
    arrays = 1,
  ): Tensor {
    return this.tensor(dtype, keep ? x.rank : x.rank - axes.length, () => {
      const { shape } = x.numbers;
      this.reserve(shape, arrays * Math.max(1, axes.length));
      const folded = [...axes].sort((a, b) => b - a).reduce(fold, x.numbers);
      return keep ? folded.reshape(shape.map((size, axis) => (axes.includes(axis) ? 1 : size))) : folded;
    });
  }

  /** The number of elements along the axes. */
  count(x: Tensor, axes: readonly number[]): Num {
    return this.running ? sizeOf(axes.map((axis) => x.numbers.shape[axis] as number)) : laterSize;
  }

  /** Gathers elements by position into a new shape. */
  pick(x: Tensor, rank: number, plan: (shape: Sizes) => { shape: Sizes; position: (i: number) => number }): Tensor {
    return this.tensor(x.dtype, rank, () => {
      const { shape, position } = plan(x.numbers.shape);
      const size = sizeOf(this.reserve(shape, 2)); // positions and numbers
      return x.numbers.pick(
        Int32Array.from({ length: size }, (_, i) => position(i)),
        shape,
      );
    });
  }

  reshape(x: Tensor, rank: number, shape: (current: Sizes) => Sizes): Tensor {
    return this.tensor(x.dtype, rank, () => {
      const wanted = this.reserve(shape(x.numbers.shape));
      if (sizeOf(wanted) !== x.numbers.size) {
        throw new CustomLossError(`[${x.numbers.shape.join(", ")}] cannot be reshaped to [${wanted.join(", ")}]`);
      }
      return x.numbers.reshape(wanted);
    });
  }

  /** Concatenates tensors along an axis. */
  join(parts: readonly Tensor[], axis: number): Tensor {
    const [first] = parts;
    if (first === undefined) throw new CustomLossError("at least one tensor is required");
    if (parts.some(({ rank }) => rank !== first.rank)) throw new CustomLossError("the tensors have different ranks");
    const dtype = parts.reduce<Dtype>((all, part) => wider(all, part.dtype), "bool");
    return this.tensor(dtype, first.rank, () => {
      const shapes = parts.map((part) => part.numbers.shape);
      const [own] = shapes as [Sizes];
      for (const shape of shapes) {
        if (shape.some((size, at) => at !== axis && size !== own[at])) {
          throw new CustomLossError(`the shapes [${own.join(", ")}] and [${shape.join(", ")}] do not match`);
        }
      }
      const shape = own.with(
        axis,
        shapes.reduce((sum, each) => sum + (each[axis] as number), 0),
      );
      this.reserve(shape, 4); // concatenation, rows, positions, numbers
      const inner = sizeOf(own.slice(axis + 1));
      const starts = shapes.map((_, i) => shapes.slice(0, i).reduce((sum, each) => sum + sizeOf(each), 0));
      const sources: number[] = []; // for each row along the axis, the index of its tensor
      const firstRow: number[] = [];
      for (const [i, each] of shapes.entries()) {
        firstRow.push(sources.length);
        for (let row = 0; row < (each[axis] as number); row++) sources.push(i);
      }
      const rows = sources.length;
      const flat = concat(parts.map((part) => part.numbers.reshape([part.numbers.size])));
      const positions = Int32Array.from({ length: sizeOf(shape) }, (_, i) => {
        const [within, row, outer] = [i % inner, Math.floor(i / inner) % rows, Math.floor(i / (inner * rows))];
        const source = sources[row] as number;
        const height = (shapes[source] as Sizes)[axis] as number;
        return (starts[source] as number) + (outer * height + row - (firstRow[source] as number)) * inner + within;
      });
      return flat.pick(positions, shape);
    });
  }

  /** The same numbers without a gradient. */
  detach(x: Tensor): Tensor {
    return this.each(x, (numbers) => numbers.stopGradient(), x.dtype);
  }

  /** A tensor whose numbers depend on sizes only. */
  filled(dtype: Dtype, rank: number, shape: () => Sizes, value: (i: number) => number): Tensor {
    return this.tensor(dtype, rank, () => {
      const made = this.reserve(shape());
      return constant(
        Float64Array.from({ length: sizeOf(made) }, (_, i) => value(i)),
        made,
      );
    });
  }
}

/** Asserts a number; in a run all sizes are known. */
export function known(value: Num): number {
  if (typeof value === "number") return value;
  throw new Error("a size is unknown in a run");
}
