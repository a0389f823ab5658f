/** Operations along axes: sums, extremes, variance, softmax, cumulative sums, matrix products. */

import type { Var } from "@tinklet/wire/autodiff";
import * as autodiff from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";
import { cast, maximum, minimum } from "./elementwise-operations.ts";
import { strides } from "./indexing.ts";
import { type Kit, known, sizeOf } from "./kit.ts";
import type { Operations } from "./operation.ts";
import { axesOf, axisOf, flag, hasKind, isNum, knownNumber, Tensor, type Value } from "./values.ts";

const { constant } = autodiff;
const dims = "input dim? keepdim=false dtype?";

/** The extreme along an axis; equal elements share the gradient, as in PyTorch's `amax`. */
const extreme = (largest: boolean) => (x: Var, axis: number) => {
  const sign = largest ? 1 : -1;
  const inner = sizeOf(x.shape.slice(axis + 1));
  const size = x.shape[axis] as number;
  if (size === 0) throw new CustomLossError("an axis without elements has no extreme");
  const row = (i: number) => Math.floor(i / (size * inner)) * inner + (i % inner);
  const peaks = new Float64Array(x.size / size).fill(-Infinity);
  for (let i = 0; i < x.size; i++) peaks[row(i)] = Math.max(peaks[row(i)] as number, sign * (x.data[i] as number));
  const mask = x.data.map((value, i) => (sign * value === peaks[row(i)] ? 1 : 0));
  const counts = constant(mask, x.shape).sum(axis);
  return autodiff.where(constant(mask, x.shape), x, 0).sum(axis).div(counts);
};

/** The position of the extreme along an axis; of equal elements the first. */
function whereExtreme(
  x: Var,
  axis: number,
  largest: boolean,
): { positions: Int32Array; shape: number[]; at: Float64Array } {
  const shape = x.shape.toSpliced(axis, 1);
  const size = x.shape[axis] as number;
  if (size === 0) throw new CustomLossError("an axis without elements has no extreme");
  const inner = sizeOf(x.shape.slice(axis + 1));
  const at = new Float64Array(sizeOf(shape));
  const positions = Int32Array.from(at, (_, i) => {
    const start = Math.floor(i / inner) * inner * size + (i % inner);
    let best = start;
    for (let k = 1; k < size; k++) {
      const here = start + k * inner;
      const [value, found] = [x.data[here] as number, x.data[best] as number];
      if (largest ? value > found : value < found) best = here;
    }
    at[i] = (best - start) / inner;
    return best;
  });
  return { positions, shape, at };
}

function along(kit: Kit, x: Tensor, dim: Value, keep: boolean, largest: boolean): { values: Tensor; indices: Tensor } {
  const axis = axisOf(dim, x.rank);
  const rank = keep ? x.rank : x.rank - 1;
  const shaped = (v: Var) => (keep ? v.reshape(v.shape.toSpliced(axis, 0, 1)) : v);
  if (kit.running) {
    kit.reserve(x.numbers.shape); // the loop over all elements
    kit.reserve(x.numbers.shape.toSpliced(axis, 1), 4); // positions (twice), values and indices
  }
  const found = kit.running ? whereExtreme(x.numbers, axis, largest) : undefined;
  return {
    values: kit.tensor(x.dtype, rank, () => shaped(x.numbers.pick(found!.positions, found!.shape))),
    indices: kit.tensor("int64", rank, () => shaped(constant(found!.at, found!.shape))),
  };
}

const casted = (kit: Kit, value: Value, dtype: Value): Tensor => {
  const x = kit.lift(value, "input");
  return hasKind(dtype, "dtype") ? cast(kit, x, dtype.dtype) : x;
};

function mean(kit: Kit, x: Tensor, axes: readonly number[], keep: boolean): Tensor {
  const count = kit.count(x, axes);
  return kit.each(kit.sum(x, axes, keep), (sum) => sum.mul(1 / known(count)));
}

/** The variance; `correction` is subtracted from the count. */
function variance(kit: Kit, x: Tensor, axes: readonly number[], keep: boolean, correction: number): Tensor {
  const middle = mean(kit, x, axes, true);
  const distance = kit.zip(x, middle, (a, b) => a.sub(b), "float32");
  const squares = kit.each(distance, (d) => d.mul(d));
  const count = kit.count(x, axes);
  return kit.each(kit.sum(squares, axes, keep), (sum) => sum.mul(1 / (known(count) - correction)));
}

const logSumExp = (kit: Kit, x: Tensor, axes: readonly number[], keep: boolean): Tensor =>
  kit.reduce(x, axes, keep, (v, axis) => v.logSumExp(axis), "float32", 4); // positions, differences, exponentials, maxima

export function logSoftmax(kit: Kit, value: Value, dim: Value): Tensor {
  const x = kit.lift(value, "input");
  if (dim === null) throw new CustomLossError("softmax requires dim");
  if (x.rank === 0) return kit.each(x, (v) => v.sub(v));
  return kit.zip(x, logSumExp(kit, x, [axisOf(dim, x.rank)], true), (a, b) => a.sub(b), "float32");
}

/** Products of vectors and matrices. */
export function matmul(kit: Kit, a: Value, b: Value): Tensor {
  const [x, y] = [kit.lift(a, "input"), kit.lift(b, "other")];
  const times = (left: Tensor, right: Tensor, axis: number) => {
    const products = kit.zip(left, right, (p, q) => p.mul(q), "float32");
    return kit.sum(products, [axis], false);
  };
  const inner = (left: number, right: number) => {
    if (!kit.running) return;
    const [m, n] = [x.numbers.shape.at(left), y.numbers.shape.at(right)];
    if (m !== n) throw new CustomLossError(`matrix product: ${m} columns do not match ${n} rows`);
  };
  switch (`${x.rank} ${y.rank}`) {
    case "1 1":
    case "2 1":
      inner(-1, 0);
      return times(x, y, x.rank - 1);
    case "1 2":
      inner(0, 0);
      return times(
        kit.reshape(x, 2, ([n]) => [n!, 1]),
        y,
        0,
      );
    case "2 2": {
      inner(1, 0);
      const turned = kit.pick(y, 2, ([rows, columns]) => ({
        shape: [columns!, rows!],
        position: (i) => (i % rows!) * columns! + Math.floor(i / rows!),
      }));
      return times(
        kit.reshape(x, 3, ([m, k]) => [m!, 1, k!]),
        turned,
        2,
      );
    }
    default:
      throw new CustomLossError(`matrix product: ranks ${x.rank} and ${y.rank} are not supported`);
  }
}

export function addReductions(list: Operations): void {
  list.add("torch.sum .sum", dims, (kit, [input, dim, keep, dtype]) => {
    const x = casted(kit, input!, dtype!);
    return kit.sum(x, axesOf(dim!, x.rank), flag(keep!, "keepdim"));
  });
  list.add("torch.mean .mean", dims, (kit, [input, dim, keep, dtype]) => {
    const x = casted(kit, input!, dtype!);
    return mean(kit, x, axesOf(dim!, x.rank), flag(keep!, "keepdim"));
  });
  for (const root of [false, true]) {
    const name = root ? "std" : "var";
    list.add(`torch.${name} .${name}`, "input dim? unbiased=true keepdim=false correction?", (kit, args) => {
      // in x.std(False) the first argument is `unbiased`
      const [input, dim, unbiased, keep, correction] =
        typeof args[1] === "boolean" ? [args[0], null, args[1], args[3], args[4]] : args;
      const x = kit.lift(input!, "input");
      const taken = correction === null ? Number(flag(unbiased!, "unbiased")) : knownNumber(correction!, "correction");
      const spread = variance(kit, x, axesOf(dim!, x.rank), flag(keep!, "keepdim"), taken);
      return root ? kit.each(spread, (v) => v.sqrt()) : spread;
    });
  }
  for (const largest of [true, false]) {
    const [short, whole] = largest ? ["max", "amax"] : ["min", "amin"];
    list.add(`torch.${whole} .${whole}`, "input dim? keepdim=false", (kit, [input, dim, keep]) => {
      const x = kit.lift(input!, "input");
      return kit.reduce(x, axesOf(dim!, x.rank), flag(keep!, "keepdim"), extreme(largest), x.dtype, 5);
    });
    list.add(`torch.${short} .${short}`, "input dim? keepdim=false other?", (kit, [input, dim, keep, other]) => {
      const x = kit.lift(input!, "input");
      const second = other === null ? dim! : other!;
      if (second instanceof Tensor) return (largest ? maximum : minimum)(kit, x, second);
      if (dim === null) return kit.reduce(x, axesOf(null, x.rank), false, extreme(largest), x.dtype, 5);
      const { values, indices } = along(kit, x, dim!, flag(keep!, "keepdim"), largest);
      return [values, indices];
    });
    list.add(`torch.arg${short} .arg${short}`, "input dim? keepdim=false", (kit, [input, dim, keep]) => {
      const x = kit.lift(input!, "input");
      const flat = dim === null ? kit.reshape(x, 1, (shape) => [sizeOf(shape)]) : x;
      return along(kit, flat, dim ?? 0, flag(keep!, "keepdim"), largest).indices;
    });
  }
  for (const [name, fold] of [
    ["any", (a: number, b: number) => Math.max(a, b)],
    ["all", (a: number, b: number) => Math.min(a, b)],
  ] as const) {
    list.add(`torch.${name} .${name}`, "input dim? keepdim=false", (kit, [input, dim, keep]) => {
      const x = kit.step(kit.lift(input!, "input"), (v) => Number(v !== 0), "bool");
      const start = name === "all" ? 1 : 0;
      const folded = (v: Var, axis: number) => {
        const shape = v.shape.toSpliced(axis, 1);
        const out = new Float64Array(sizeOf(shape)).fill(start);
        const [inner, size] = [strides(v.shape)[axis] as number, v.shape[axis] as number];
        for (const [i, value] of v.data.entries()) {
          const at = Math.floor(i / (size * inner)) * inner + (i % inner);
          out[at] = fold(out[at] as number, value);
        }
        return constant(out, shape);
      };
      return kit.reduce(x, axesOf(dim!, x.rank), flag(keep!, "keepdim"), folded, "bool");
    });
  }
  list.add("torch.logsumexp .logsumexp", "input dim keepdim=false", (kit, [input, dim, keep]) => {
    const x = kit.lift(input!, "input");
    return logSumExp(kit, x, axesOf(dim!, x.rank), flag(keep!, "keepdim"));
  });
  const softmax = "input dim? _stacklevel=3 dtype?";
  list.add("torch.log_softmax .log_softmax", "input dim dtype?", (kit, [x, dim]) => logSoftmax(kit, x!, dim!));
  list.add("torch.softmax .softmax", "input dim dtype?", (kit, [x, dim]) =>
    kit.each(logSoftmax(kit, x!, dim!), (v) => v.exp()),
  );
  list.add("torch.nn.functional.log_softmax", softmax, (kit, [x, dim]) => logSoftmax(kit, x!, dim!));
  list.add("torch.nn.functional.softmax", softmax, (kit, [x, dim]) =>
    kit.each(logSoftmax(kit, x!, dim!), (v) => v.exp()),
  );
  list.add("torch.cumsum .cumsum", "input dim dtype?", (kit, [input, dim]) => {
    const x = kit.lift(input!, "input");
    const axis = axisOf(dim!, x.rank);
    return kit.each(x, (v) => (v.shape.length === 0 ? v : v.cumsum(axis)), x.dtype);
  });
  list.add("operator.matmul torch.matmul torch.mm torch.mv .matmul .mm .mv", "input other", (kit, [a, b]) =>
    matmul(kit, a!, b!),
  );
  list.add("torch.dot .dot", "input other", (kit, [a, b]) => {
    const [x, y] = [kit.lift(a!, "input"), kit.lift(b!, "other")];
    if (x.rank !== 1 || y.rank !== 1)
      throw new CustomLossError(`dot takes two vectors, not ranks ${x.rank} and ${y.rank}`);
    return matmul(kit, x, y);
  });
  list.add("torch.norm .norm", "input p=2 dim? keepdim=false", (kit, [input, p, dim, keep]) => {
    if (!(isNum(p!) && p === 2) && p !== "fro") throw new CustomLossError("norm supports only p = 2");
    const x = kit.lift(input!, "input");
    const squares = kit.each(x, (v) => v.mul(v));
    return kit.each(kit.sum(squares, axesOf(dim!, x.rank), flag(keep!, "keepdim")), (v) => v.sqrt());
  });
}
