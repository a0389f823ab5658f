/** `x[...]` with PyTorch's semantics: first integers, slices, new axes and `...`, then tensors of positions or masks. */
import { CustomLossError } from "./custom-loss-error.ts";
import { type Kit, known, type Sizes, sizeOf } from "./kit.ts";
import { describeValue, hasKind, isNum, isTuple, knownNumber, Tensor, type Value, wholeNumber } from "./values.ts";

/** The row-major strides of a shape. */
export const strides = (shape: Sizes): number[] => shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));

/** An element of a tuple, or an indexed tensor. */
export function getItem(kit: Kit, from: Value, index: Value): Value {
  if (from instanceof Tensor) return indexed(kit, from, isTuple(index) ? index : [index]);
  if (isTuple(from)) {
    if (hasKind(index, "slice")) {
      const [start, stop, step] = index.parts.map((part) => (part === null ? undefined : knownNumber(part, "slice")));
      if (step !== undefined && step !== 1) throw new CustomLossError("a slice of a tuple must have step 1");
      return from.slice(start, stop);
    }
    const item = from.at(knownNumber(index, "index"));
    if (item === undefined)
      throw new CustomLossError(`index ${describeValue(index)} is out of range for ${from.length} items`);
    return item;
  }
  throw new CustomLossError(`${describeValue(from)} cannot be indexed`);
}

interface Axis {
  /** The axis of the tensor; absent for a new one. */
  readonly from?: number;
  readonly size: (length: number) => number;
  /** The position along the axis of the tensor. */
  readonly at: (i: number, length: number) => number;
  /** A tensor of positions, applied after all other indices. */
  readonly by?: Tensor;
}

function indexed(kit: Kit, x: Tensor, index: readonly Value[]): Tensor {
  const taken = (item: Value): number =>
    item === null || hasKind(item, "ellipsis") ? 0 : item instanceof Tensor && item.dtype === "bool" ? item.rank : 1;
  const used = index.reduce<number>((sum, item) => sum + taken(item), 0);
  if (used > x.rank) throw new CustomLossError(`an index must have at most ${x.rank} entries, got ${used}`);
  const dots = index.filter((item) => hasKind(item, "ellipsis")).length;
  if (dots > 1) throw new CustomLossError("an index must have at most one ellipsis");
  const all = [...index, ...(dots === 0 ? [{ kind: "ellipsis" } as const] : [])];

  const fixed: { from: number; at: (length: number) => number }[] = [];
  const axes: Axis[] = [];
  let axis = 0;
  const whole = (count: number) => {
    for (let i = 0; i < count; i++) axes.push({ from: axis++, size: (length) => length, at: (at) => at });
  };
  for (const item of all) {
    if (item === null) axes.push({ size: () => 1, at: () => 0 });
    else if (hasKind(item, "ellipsis")) whole(x.rank - used);
    else if (hasKind(item, "slice")) axes.push({ from: axis++, ...sliced(item.parts) });
    else if (isNum(item))
      fixed.push({ from: axis++, at: (length) => single(known(wholeNumber(item, "index")), length) });
    else if (item instanceof Tensor) {
      if (item.dtype === "float32")
        throw new CustomLossError("a float tensor cannot be an index; use .long() or a mask");
      if (item.dtype === "int64") {
        axes.push({ from: axis++, size: (length) => length, at: (at) => at, by: item });
        continue;
      }
      if (item.rank === 0) throw new CustomLossError("a boolean scalar cannot be an index");
      for (const by of maskPositions(kit, item, x, axis)) {
        axes.push({ from: axis++, size: (length) => length, at: (at) => at, by });
      }
    } else throw new CustomLossError(`${describeValue(item)} cannot be an index`);
  }
  const basic = kit.pick(x, axes.length, (shape) => {
    const apart = strides(shape);
    const lengths = axes.map(({ from }) => (from === undefined ? 1 : (shape[from] as number)));
    const sizes = axes.map((each, i) => each.size(lengths[i] as number));
    const offset = fixed.reduce((sum, { from, at }) => sum + at(shape[from] as number) * (apart[from] as number), 0);
    const out = strides(sizes);
    return {
      shape: sizes,
      position: (i) =>
        axes.reduce((sum, { from, at }, k) => {
          if (from === undefined) return sum;
          const here = Math.floor(i / (out[k] as number)) % (sizes[k] as number);
          return sum + at(here, lengths[k] as number) * (apart[from] as number);
        }, offset),
    };
  });
  const by = axes.flatMap((each, at) => (each.by === undefined ? [] : [{ axis: at, positions: each.by }]));
  return by.length === 0 ? basic : byPositions(kit, basic, by);
}

/** Gathers along axes by tensors of positions, which are broadcast to one shape. */
export function byPositions(
  kit: Kit,
  x: Tensor,
  by: readonly { readonly axis: number; readonly positions: Tensor }[],
): Tensor {
  const [first] = by as [(typeof by)[0]];
  const shared = by.reduce<Tensor>(
    (all, { positions }) => kit.stepZip(all, positions, (a) => a, "int64"),
    first.positions,
  );
  // Axes of adjacent index tensors replace the indexed axes; otherwise they come first, as in PyTorch.
  const together = by.every(({ axis }, i) => axis === first.axis + i);
  const place = together ? first.axis : 0;
  const picked = new Set(by.map(({ axis }) => axis));
  return kit.pick(x, x.rank - by.length + shared.rank, (shape) => {
    const common = shared.numbers.shape;
    const others = shape.map((_, axis) => axis).filter((axis) => !picked.has(axis));
    const before = others.filter((axis) => together && axis < place);
    const after = others.slice(before.length);
    const size = (axis: number) => shape[axis] as number;
    const sizes = [...before.map(size), ...common, ...after.map(size)];
    const [apart, out] = [strides(shape), strides(sizes)];
    const coordinate = (i: number, k: number) => Math.floor(i / (out[k] as number)) % (sizes[k] as number);
    const columns = by.map(({ axis, positions }) => {
      const full = kit.stepZip(positions, shared, (a) => a, "int64").numbers.data;
      return { axis, at: (i: number) => single(full[i] as number, size(axis)) };
    });
    const shift = before.length + common.length;
    const inner = strides(common);
    return {
      shape: sizes,
      position: (i) => {
        let at = 0;
        for (const [k, axis] of before.entries()) at += coordinate(i, k) * (apart[axis] as number);
        for (const [k, axis] of after.entries()) at += coordinate(i, shift + k) * (apart[axis] as number);
        let row = 0;
        for (let k = 0; k < common.length; k++) row += coordinate(i, before.length + k) * (inner[k] as number);
        for (const { axis, at: column } of columns) at += column(row) * (apart[axis] as number);
        return at;
      },
    };
  });
}

/** For each axis of a mask, the positions of its true elements. */
function maskPositions(kit: Kit, mask: Tensor, of: Tensor, axis: number): Tensor[] {
  let kept: number[] | undefined;
  const positions = () => {
    const { shape, data } = mask.numbers;
    const own = of.numbers.shape.slice(axis, axis + shape.length);
    if (shape.some((size, i) => size !== own[i])) {
      throw new CustomLossError(`a mask of shape [${shape.join(", ")}] does not match [${own.join(", ")}]`);
    }
    if (kept === undefined) {
      kit.reserve(shape); // charges the loop below, which visits every element
      kept = [];
      for (let i = 0; i < data.length; i++) if (data[i] !== 0) kept.push(i);
    }
    return kept;
  };
  return Array.from({ length: mask.rank }, (_, k) =>
    kit.filled(
      "int64",
      1,
      () => [positions().length],
      (i) => {
        const { shape } = mask.numbers;
        return Math.floor((positions()[i] as number) / (strides(shape)[k] as number)) % (shape[k] as number);
      },
    ),
  );
}

/** A position; negative numbers count from the end. */
function single(index: number, length: number): number {
  const at = index < 0 ? index + length : index;
  if (Number.isInteger(at) && at >= 0 && at < length) return at;
  throw new CustomLossError(`index ${index} is out of range for ${length} elements`);
}

function sliced(parts: readonly [Value, Value, Value]): Pick<Axis, "size" | "at"> {
  const [start, stop] = parts.map((part) => (part === null ? undefined : wholeNumber(part, "slice")));
  const step = parts[2] === null ? 1 : knownNumber(parts[2], "a slice's step");
  if (step < 1) throw new CustomLossError(`the step of a slice must be above 0, got ${step}`);
  const clamp = (at: number, length: number) => Math.min(Math.max(at < 0 ? at + length : at, 0), length);
  const from = (length: number) => (start === undefined ? 0 : clamp(known(start), length));
  const to = (length: number) => (stop === undefined ? length : clamp(known(stop), length));
  return {
    size: (length) => Math.max(Math.ceil((to(length) - from(length)) / step), 0),
    at: (i, length) => from(length) + i * step,
  };
}
