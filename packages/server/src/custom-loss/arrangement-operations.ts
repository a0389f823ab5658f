/** Operations on shapes, gathering and rearranging operations, and constructors of tensors from sizes. */
import { quoted } from "./argument.ts";
import { CustomLossError } from "./custom-loss-error.ts";
import { cast } from "./elementwise-operations.ts";
import { byPositions, getItem, strides } from "./indexing.ts";
import { type Kit, known, type Sizes, sizeOf } from "./kit.ts";
import type { Operations } from "./operation.ts";
import {
  axesOf,
  axisOf,
  type Dtype,
  describeValue,
  hasKind,
  isTuple,
  knownNumber,
  laterSize,
  type Num,
  Tensor,
  type Value,
  wholeNumber,
} from "./values.ts";

/** The sizes of a tensor. */
const shapeOf = (kit: Kit, x: Tensor): Num[] =>
  kit.running ? [...x.numbers.shape] : Array.from({ length: x.rank }, () => laterSize);

const tensor = (value: Value): Tensor => {
  if (value instanceof Tensor) return value;
  throw new CustomLossError(`it requires a tensor, not ${describeValue(value)}`);
};

const sizesOf = (value: Value): Num[] => {
  const given = isTuple(value) ? value : [value];
  return given.map((size) => wholeNumber(size, "a size"));
};

const count = (size: Num): number => {
  const number = known(size);
  if (number < 0) throw new CustomLossError(`a size must be at least 0, got ${number}`);
  return number;
};

/** Replaces the -1 in a shape by the remaining size. */
function filledIn(wanted: readonly Num[], size: number): Sizes {
  const given = wanted.map(known);
  const open = given.filter((each) => each === -1).length;
  if (open > 1 || given.some((each) => each < -1))
    throw new CustomLossError(`[${given.join(", ")}] is not a valid shape`);
  const others = sizeOf(given.filter((each) => each !== -1));
  return given.map((each) => (each === -1 ? (others === 0 ? 0 : size / others) : each)).map(Math.floor);
}

function expand(kit: Kit, x: Tensor, sizes: readonly Num[]): Tensor {
  const fresh = sizes.length - x.rank;
  kit.checkConstantSizes(sizes);
  if (fresh < 0) throw new CustomLossError(`rank ${x.rank} cannot be broadcast to rank ${sizes.length}`);
  return kit.pick(x, sizes.length, (own) => {
    const padded = [...sizes.slice(0, fresh).map(() => 1), ...own];
    const shape = sizes
      .map(known)
      .map((size, axis) => (size === -1 && axis >= fresh ? (padded[axis] as number) : size));
    if (shape.some((size, axis) => size < 0 || (padded[axis] !== 1 && padded[axis] !== size))) {
      throw new CustomLossError(`[${own.join(", ")}] cannot be broadcast to [${shape.join(", ")}]`);
    }
    const [out, apart] = [strides(shape), strides(padded)];
    return {
      shape,
      position: (i) =>
        shape.reduce(
          (sum, size, k) =>
            padded[k] === 1 ? sum : sum + (Math.floor(i / (out[k] as number)) % size) * (apart[k] as number),
          0,
        ),
    };
  });
}

function permute(kit: Kit, x: Tensor, axes: readonly number[]): Tensor {
  if (axes.length !== x.rank || new Set(axes).size !== x.rank)
    throw new CustomLossError("permute must contain each axis exactly once");
  return kit.pick(x, x.rank, (own) => {
    const shape = axes.map((axis) => own[axis] as number);
    const [out, apart] = [strides(shape), strides(own)];
    return {
      shape,
      position: (i) =>
        axes.reduce(
          (sum, axis, k) => sum + (Math.floor(i / (out[k] as number)) % (shape[k] as number)) * (apart[axis] as number),
          0,
        ),
    };
  });
}

function flip(kit: Kit, x: Tensor, axes: readonly number[]): Tensor {
  return kit.pick(x, x.rank, (shape) => {
    const apart = strides(shape);
    return {
      shape,
      position: (i) =>
        axes.reduce((at, axis) => {
          const [size, step] = [shape[axis] as number, apart[axis] as number];
          return at + (size - 1 - 2 * (Math.floor(i / step) % size)) * step;
        }, i),
    };
  });
}

function gather(kit: Kit, x: Tensor, axis: number, index: Tensor): Tensor {
  if (index.rank !== x.rank) throw new CustomLossError(`gather: the index must have rank ${x.rank}, got ${index.rank}`);
  if (index.dtype !== "int64") throw new CustomLossError("gather: the index must be int64; use .long()");
  return kit.pick(x, x.rank, (own) => {
    const { shape, data } = index.numbers;
    if (shape.some((size, k) => k !== axis && size > (own[k] as number))) {
      throw new CustomLossError(`gather: an index of shape [${shape.join(", ")}] does not match [${own.join(", ")}]`);
    }
    const [out, apart, size] = [strides(shape), strides(own), own[axis] as number];
    return {
      shape,
      position: (i) => {
        const wanted = data[i] as number;
        if (wanted < 0 || wanted >= size)
          throw new CustomLossError(`gather: index ${wanted} is out of range for ${size} elements`);
        return shape.reduce((sum, length, k) => {
          const here = k === axis ? wanted : Math.floor(i / (out[k] as number)) % length;
          return sum + here * (apart[k] as number);
        }, 0);
      },
    };
  });
}

const unsqueeze = (kit: Kit, x: Tensor, dim: Value): Tensor => {
  const axis = axisOf(dim, x.rank + 1);
  return kit.reshape(x, x.rank + 1, (shape) => shape.toSpliced(axis, 0, 1));
};

const filling = (kit: Kit, sizes: readonly Num[], value: (i: number) => number, dtype: Value, otherwise: Dtype) => {
  kit.checkConstantSizes(sizes);
  for (const size of sizes) if (typeof size === "number") count(size);
  return kit.filled(hasKind(dtype, "dtype") ? dtype.dtype : otherwise, sizes.length, () => sizes.map(count), value);
};

const attributes: ReadonlyMap<string, (kit: Kit, x: Tensor) => Value> = new Map<string, (kit: Kit, x: Tensor) => Value>(
  [
    ["shape", shapeOf],
    ["ndim", (_, x) => x.rank],
    ["dtype", (_, x) => ({ kind: "dtype", dtype: x.dtype })],
    ["device", () => ({ kind: "setting" })],
    ["T", (kit, x) => permute(kit, x, axesOf(null, x.rank).reverse())],
  ],
);

export function addArrangements(list: Operations): void {
  list.add("getattr", "input name", (kit, [x, name]) => {
    if (typeof name !== "string")
      throw new CustomLossError(`the name of an attribute must be a string, not ${describeValue(name!)}`);
    const attribute = attributes.get(name);
    if (attribute === undefined) throw new CustomLossError(`the attribute ${quoted(name)} is not allowed`);
    return attribute(kit, tensor(x!));
  });
  list.add("operator.getitem", "input index", (kit, [x, index]) => getItem(kit, x!, index!));
  list.add(".size", "input dim?", (kit, [value, dim]) => {
    const x = tensor(value!);
    const shape = shapeOf(kit, x);
    return dim === null ? shape : (shape[axisOf(dim!, x.rank)] as Num);
  });
  list.add(".dim .ndimension", "input", (_, [x]) => tensor(x!).rank);
  list.add("torch.numel .numel .nelement", "input", (kit, [x]) => kit.count(tensor(x!), axesOf(null, tensor(x!).rank)));

  const reshape = (kit: Kit, [value, shape]: readonly Value[]) => {
    const [x, sizes] = [tensor(value!), sizesOf(shape!)];
    kit.checkConstantSizes(sizes);
    return kit.reshape(x, sizes.length, (own) => filledIn(sizes, sizeOf(own)));
  };
  list.add(".view .reshape", "input *shape", reshape);
  list.add("torch.reshape", "input shape", reshape);
  list.add("torch.flatten .flatten", "input start_dim=0 end_dim=-1", (kit, [value, start, end]) => {
    const x = tensor(value!);
    const [from, to] = [axisOf(start!, x.rank), axisOf(end!, x.rank)];
    if (from > to) throw new CustomLossError("flatten: start_dim is after end_dim");
    return kit.reshape(x, Math.max(x.rank - (to - from), 1), (own) => [
      ...own.slice(0, from),
      sizeOf(own.slice(from, to + 1)),
      ...own.slice(to + 1),
    ]);
  });
  list.add("torch.unsqueeze .unsqueeze", "input dim", (kit, [x, dim]) => unsqueeze(kit, tensor(x!), dim!));
  list.add("torch.squeeze .squeeze", "input dim", (kit, [value, dim]) => {
    const x = tensor(value!);
    const axis = axisOf(dim!, x.rank);
    return kit.reshape(x, x.rank - 1, (own) => {
      if (own[axis] !== 1) throw new CustomLossError(`squeeze: axis ${axis} must have size 1, got ${own[axis]}`);
      return own.toSpliced(axis, 1);
    });
  });
  const permuted = (kit: Kit, [value, dims]: readonly Value[]) => {
    const x = tensor(value!);
    return permute(
      kit,
      x,
      sizesOf(dims!).map((dim) => axisOf(dim, x.rank)),
    );
  };
  list.add(".permute", "input *dims", permuted);
  list.add("torch.permute", "input dims", permuted);
  list.add("torch.transpose .transpose", "input dim0 dim1", (kit, [value, a, b]) => {
    const x = tensor(value!);
    const [first, second] = [axisOf(a!, x.rank, "dim0"), axisOf(b!, x.rank, "dim1")];
    const axes = axesOf(null, x.rank);
    return permute(
      kit,
      x,
      axes.map((axis) => (axis === first ? second : axis === second ? first : axis)),
    );
  });
  list.add("torch.t .t", "input", (kit, [value]) => {
    const x = tensor(value!);
    if (x.rank > 2) throw new CustomLossError(`t requires rank 2 or lower, got ${x.rank}`);
    return permute(kit, x, axesOf(null, x.rank).reverse());
  });
  list.add(".expand", "input *size", (kit, [x, sizes]) => expand(kit, tensor(x!), sizesOf(sizes!)));
  list.add("torch.broadcast_to .broadcast_to", "input size", (kit, [x, sizes]) =>
    expand(kit, tensor(x!), sizesOf(sizes!)),
  );
  list.add(".expand_as", "input other", (kit, [x, other]) => expand(kit, tensor(x!), shapeOf(kit, tensor(other!))));
  list.add(".repeat", "input *sizes", (kit, [value, repeats]) => {
    const [x, times] = [tensor(value!), sizesOf(repeats!)];
    const fresh = times.length - x.rank;
    kit.checkConstantSizes(times);
    if (fresh < 0) throw new CustomLossError("repeat requires a number for each axis");
    return kit.pick(x, times.length, (own) => {
      const padded = [...times.slice(0, fresh).map(() => 1), ...own];
      const shape = padded.map((size, axis) => size * count(times[axis] as Num));
      const [out, apart] = [strides(shape), strides(padded)];
      return {
        shape,
        position: (i) =>
          shape.reduce((sum, size, k) => {
            const here = Math.floor(i / (out[k] as number)) % size;
            return sum + (here % (padded[k] as number)) * (apart[k] as number);
          }, 0),
      };
    });
  });
  const flipped = (kit: Kit, [value, dims]: readonly Value[]) => {
    const x = tensor(value!);
    return flip(kit, x, axesOf(dims!, x.rank));
  };
  list.add(".flip", "input *dims", flipped);
  list.add("torch.flip", "input dims", flipped);
  list.add("torch.cat torch.concat torch.concatenate", "tensors dim=0", (kit, [parts, dim]) => {
    const tensors = (isTuple(parts!) ? parts : [parts!]).map(tensor);
    return kit.join(tensors, axisOf(dim!, tensors[0]?.rank ?? 0));
  });
  list.add("torch.stack", "tensors dim=0", (kit, [parts, dim]) => {
    const tensors = (isTuple(parts!) ? parts : [parts!]).map(tensor).map((part) => unsqueeze(kit, part, dim!));
    return kit.join(tensors, axisOf(dim!, tensors[0]?.rank ?? 0));
  });
  list.add("torch.gather .gather", "input dim index", (kit, [value, dim, index]) => {
    const x = tensor(value!);
    return gather(kit, x, axisOf(dim!, x.rank), tensor(index!));
  });
  list.add("torch.index_select .index_select", "input dim index", (kit, [value, dim, index]) => {
    const [x, positions] = [tensor(value!), tensor(index!)];
    if (positions.dtype !== "int64") throw new CustomLossError("index_select: the index must be int64; use .long()");
    return byPositions(kit, x, [{ axis: axisOf(dim!, x.rank), positions }]);
  });
  list.add("torch.masked_select .masked_select", "input mask", (kit, [x, mask]) => {
    if (tensor(mask!).dtype !== "bool") throw new CustomLossError("masked_select requires a mask (bool)");
    return getItem(kit, tensor(x!), mask!);
  });

  for (const [name, value] of [
    ["zeros", 0],
    ["ones", 1],
  ] as const) {
    list.add(`torch.${name}`, "size dtype? device?", (kit, [sizes, dtype]) =>
      filling(kit, sizesOf(sizes!), () => value, dtype!, "float32"),
    );
    list.add(`.new_${name}`, "input size dtype? device?", (kit, [x, sizes, dtype]) =>
      filling(kit, sizesOf(sizes!), () => value, dtype!, tensor(x!).dtype),
    );
  }
  list.add("torch.full", "size fill_value dtype? device?", (kit, [sizes, value, dtype]) => {
    if (typeof value !== "number")
      throw new CustomLossError(`fill_value must be a number, not ${describeValue(value!)}`);
    return filling(kit, sizesOf(sizes!), () => value, dtype!, Number.isInteger(value) ? "int64" : "float32");
  });
  list.add("torch.arange", "start end? step=1 dtype? device?", (kit, [start, end, step, dtype]) => {
    const [from, to] =
      end === null ? [0, wholeNumber(start!, "end")] : [start!, end!].map((at) => wholeNumber(at, "a bound"));
    const by = knownNumber(step!, "step");
    if (typeof from === "number" && typeof to === "number") kit.checkConstantSizes([to - from]);
    if (by <= 0) throw new CustomLossError("arange: step must be above 0");
    const length = () => Math.max(Math.ceil((known(to as Num) - known(from as Num)) / by), 0);
    const numbers = kit.filled(
      "int64",
      1,
      () => [length()],
      (i) => known(from as Num) + i * by,
    );
    return hasKind(dtype!, "dtype") ? cast(kit, numbers, dtype.dtype) : numbers;
  });
  list.add("torch._C._nn.one_hot", "input num_classes", (kit, [value, classes]) => {
    const x = tensor(value!);
    if (x.dtype !== "int64") throw new CustomLossError("one_hot: the input must be int64; use .long()");
    const width = knownNumber(classes!, "num_classes");
    kit.checkConstantSizes([width]);
    if (width < 1) throw new CustomLossError("one_hot: num_classes is required and must be above 0");
    return kit.filled(
      "int64",
      x.rank + 1,
      () => [...x.numbers.shape, width],
      (i) => {
        const wanted = x.numbers.data[Math.floor(i / width)] as number;
        if (wanted < 0 || wanted >= width)
          throw new CustomLossError(`one_hot: ${wanted} is out of range for ${width} classes`);
        return Number(wanted === i % width);
      },
    );
  });
}
