/** `x[...]` as PyTorch reads it: numbers, slices, new axes and `...` first, then tensors of positions or of yes and no. */
import { CustomLossError } from "./custom-loss-error.ts";
import { type Kit, known, type Sizes, sizeOf } from "./kit.ts";
import { describeValue, hasKind, isNum, isTuple, knownNumber, Tensor, type Value, wholeNumber } from "./values.ts";

/** How far apart neighbours along each axis lie. */
export const strides = (shape: Sizes): number[] => shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));

/** An element of a tuple, or part of a tensor. */
export function getItem(kit: Kit, from: Value, index: Value): Value {
  if (from instanceof Tensor) return indexed(kit, from, isTuple(index) ? index : [index]);
  if (isTuple(from)) {
    if (hasKind(index, "slice")) {
      const [start, stop, step] = index.parts.map((part) => (part === null ? undefined : knownNumber(part, "slice")));
      if (step !== undefined && step !== 1) throw new CustomLossError("a slice of a tuple has step 1");
      return from.slice(start, stop);
    }
    const item = from.at(knownNumber(index, "index"));
    if (item === undefined) throw new CustomLossError(`there is no item ${describeValue(index)} of ${from.length}`);
    return item;
  }
  throw new CustomLossError(`${describeValue(from)} has no items`);
}

interface Axis {
  /** The axis of the tensor; absent for a new one. */
  readonly from?: number;
  readonly size: (length: number) => number;
  /** The position along the axis of the tensor. */
  readonly at: (i: number, length: number) => number;
  /** Positions by tensor; they are applied after everything else. */
  readonly by?: Tensor;
}

function indexed(kit: Kit, x: Tensor, index: readonly Value[]): Tensor {
  const taken = (item: Value): number =>
    item === null || hasKind(item, "ellipsis") ? 0 : item instanceof Tensor && item.dtype === "bool" ? item.rank : 1;
  const used = index.reduce<number>((sum, item) => sum + taken(item), 0);
  if (used > x.rank) throw new CustomLossError(`${used} indices for rank ${x.rank}`);
  const dots = index.filter((item) => hasKind(item, "ellipsis")).length;
  if (dots > 1) throw new CustomLossError("an index has at most one ellipsis");
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
        throw new CustomLossError("a tensor of fractions is no index; use .long() or a mask");
      if (item.dtype === "int64") {
        axes.push({ from: axis++, size: (length) => length, at: (at) => at, by: item });
        continue;
      }
      if (item.rank === 0) throw new CustomLossError("a single yes or no is no index");
      for (const by of maskPositions(kit, item, x, axis)) {
        axes.push({ from: axis++, size: (length) => length, at: (at) => at, by });
      }
    } else throw new CustomLossError(`${describeValue(item)} is no index`);
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

/** Picks along axes by tensors of positions, which are stretched to one shape. */
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
  // Tensors side by side put their axes where they stand; tensors with something between put them first.
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

/** For each axis of a mask, the positions of what it keeps. */
function maskPositions(kit: Kit, mask: Tensor, of: Tensor, axis: number): Tensor[] {
  let kept: number[] | undefined;
  const positions = () => {
    const { shape, data } = mask.numbers;
    const own = of.numbers.shape.slice(axis, axis + shape.length);
    if (shape.some((size, i) => size !== own[i])) {
      throw new CustomLossError(`a mask of [${shape.join(", ")}] does not fit [${own.join(", ")}]`);
    }
    if (kept === undefined) {
      kit.room(shape); // which is walked
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

/** One position, negative ones counted from the end. */
function single(index: number, length: number): number {
  const at = index < 0 ? index + length : index;
  if (Number.isInteger(at) && at >= 0 && at < length) return at;
  throw new CustomLossError(`index ${index} is outside ${length} elements`);
}

function sliced(parts: readonly [Value, Value, Value]): Pick<Axis, "size" | "at"> {
  const [start, stop] = parts.map((part) => (part === null ? undefined : wholeNumber(part, "slice")));
  const step = parts[2] === null ? 1 : knownNumber(parts[2], "a slice's step");
  if (step < 1) throw new CustomLossError(`a slice's step must be above 0, not ${step}`);
  const clamp = (at: number, length: number) => Math.min(Math.max(at < 0 ? at + length : at, 0), length);
  const from = (length: number) => (start === undefined ? 0 : clamp(known(start), length));
  const to = (length: number) => (stop === undefined ? length : clamp(known(stop), length));
  return {
    size: (length) => Math.max(Math.ceil((to(length) - from(length)) / step), 0),
    at: (i, length) => from(length) + i * step,
  };
}
