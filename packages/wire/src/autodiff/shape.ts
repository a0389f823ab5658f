/** Shapes: sizes, NumPy's broadcasting rule, and index maps from a broadcast shape to the original one. */
import { ShapeError } from "./errors.ts";

/** Sizes per axis, outermost first; `[]` is a scalar. */
export type Shape = readonly number[];

export const sizeOf = (shape: Shape): number => shape.reduce((a, b) => a * b, 1);
export const sameShape = (a: Shape, b: Shape): boolean => a.length === b.length && a.every((size, i) => size === b[i]);
export const showShape = (shape: Shape): string => (shape.length === 0 ? "a scalar" : `[${shape.join(", ")}]`);

/** The shape that both operands are broadcast to: axes are matched from the last, and an axis of 1 takes the other's size. */
export function broadcast(operation: string, a: Shape, b: Shape): Shape {
  if (sameShape(a, b)) return a;
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const [left, right] = [a[i - rank + a.length] ?? 1, b[i - rank + b.length] ?? 1];
    if (left !== right && left !== 1 && right !== 1) {
      throw new ShapeError(operation, `${showShape(a)} and ${showShape(b)} cannot be broadcast together`, {
        hint: "Shapes must be equal, or one of them a scalar (or 1 along an axis).",
      });
    }
    return left === 1 ? right : left;
  });
}

/**
 * For each element of shape `to`, the position of its value in shape `from`; `undefined` when the shapes are equal, so that positions
 * are too.
 */
export function stretchMap(from: Shape, to: Shape): Int32Array | undefined {
  if (sameShape(from, to)) return undefined;
  const map = new Int32Array(sizeOf(to)); // all zeros, which is the map of a scalar
  let [inner, stride] = [1, 1]; // number of elements of `to` and of `from` per step of the current axis
  for (let axis = to.length - 1, own = from.length - 1; axis >= 0; axis--, own--) {
    const size = to[axis] as number;
    const ownSize = own < 0 ? 1 : (from[own] as number);
    if (ownSize !== 1) for (let i = 0; i < map.length; i++) map[i]! += (Math.floor(i / inner) % size) * stride;
    inner *= size;
    stride *= ownSize;
  }
  return map;
}

/** An axis seen as three nested loops: `outer` blocks of `size` rows of `inner` elements. */
export interface AxisLoops {
  readonly outer: number;
  readonly size: number;
  readonly inner: number;
}

/** Splits a shape around an axis; negative axes count from the last. */
export function axisLoops(operation: string, shape: Shape, axis: number): AxisLoops & { readonly axis: number } {
  const at = axis < 0 ? axis + shape.length : axis;
  const size = shape[at];
  if (!Number.isInteger(axis) || size === undefined) {
    throw new ShapeError(operation, `there is no axis ${axis} in ${showShape(shape)}`);
  }
  return { axis: at, size, outer: sizeOf(shape.slice(0, at)), inner: sizeOf(shape.slice(at + 1)) };
}
