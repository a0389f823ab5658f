/** Derivatives by finite differences, with computed error bounds. */
import type { LossResult } from "../types.ts";
import { unitRoundoff } from "./rounding.ts";

/** A value and its error bound. */
export interface Measured {
  readonly value: number;
  readonly error: number;
}

/**
 * f′(0) by central differences D(h) = (f(h) − f(−h)) / 2h, whose error is c h² + O(h⁴). R(h) = (4 D(h) − D(2h)) / 3 cancels the first term;
 * its error is k h⁴ + O(h⁶), and that of R(2h) is 16 times as large, so their difference is 15 times the error of R(h). The bound is the
 * whole difference, which covers higher orders, plus the error of f divided by h.
 */
export async function derivative(f: (x: number) => Promise<Measured>, h: number): Promise<Measured> {
  const difference = async (step: number): Promise<Measured> => {
    const [right, left] = [await f(step), await f(-step)];
    return { value: (right.value - left.value) / (2 * step), error: (right.error + left.error) / (2 * step) };
  };
  const richardson = (near: Measured, far: Measured): Measured => ({
    value: (4 * near.value - far.value) / 3,
    error: (4 * near.error + far.error) / 3,
  });
  const [one, two, four] = [await difference(h), await difference(2 * h), await difference(4 * h)];
  const [fine, coarse] = [richardson(one, two), richardson(two, four)];
  return { value: fine.value, error: Math.abs(coarse.value - fine.value) + fine.error };
}

/** The sum of all losses of a pass computed in float64; each loss was rounded once, when stored as float32. */
export function storedLoss({ lossFnOutputs }: LossResult): Measured {
  let [value, size] = [0, 0];
  for (const { elementwise_loss } of lossFnOutputs) {
    for (const loss of elementwise_loss.data) {
      value += loss;
      size += Math.abs(loss);
    }
  }
  return { value, error: unitRoundoff * size };
}
