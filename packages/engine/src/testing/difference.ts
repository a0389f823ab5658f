/** Derivatives by differences, with how far they may be off: computed, not guessed. */
import type { LossResult } from "../types.ts";
import { unitRoundoff } from "./rounding.ts";

/** A value, and how far it may be from the true one. */
export interface Measured {
  readonly value: number;
  readonly error: number;
}

/**
 * f′(0) by central differences D(h) = (f(h) − f(−h)) / 2h, which err by c h² + O(h⁴). R(h) = (4 D(h) − D(2h)) / 3 is free of the first term,
 * and errs by k h⁴ + O(h⁶); R(2h) errs by 16 times as much, so that their difference is 15 times the error of R(h). It is granted whole,
 * which covers the higher orders; and so are the errors of f itself, over h.
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

/** The sum of all losses of a pass that was computed in float64: each was rounded once, when it was stored in float32. */
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
