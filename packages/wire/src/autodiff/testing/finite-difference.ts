/** Slopes by trying: the yardstick that gradients are held against in tests. */
import { gradient } from "../gradient.ts";
import { leaf, type Var } from "../var.ts";

/** Central differences of a scalar function, element by element. The step suits values around 1. */
export function finiteDifference(
  fn: (x: Var) => Var,
  values: readonly number[],
  shape: readonly number[],
  step = 1e-5,
): number[] {
  const at = (i: number, shift: number) =>
    fn(
      leaf(
        values.map((value, j) => (i === j ? value + shift : value)),
        shape,
      ),
    ).item();
  return values.map((_, i) => (at(i, step) - at(i, -step)) / (2 * step));
}

/** Fails unless the tape's gradient and the differences agree, within `tolerance` relative to the larger of slope and 1. */
export function checkGradient(
  fn: (x: Var) => Var,
  values: readonly number[],
  shape: readonly number[],
  tolerance = 1e-6,
): void {
  const x = leaf(values, shape);
  const [slopes] = gradient(fn(x), [x], { unused: "zero" }) as [Float64Array];
  for (const [i, expected] of finiteDifference(fn, values, shape).entries()) {
    const error = Math.abs((slopes[i] as number) - expected);
    if (!(error <= tolerance * Math.max(1, Math.abs(expected)))) {
      throw new Error(`slope ${i} is ${slopes[i]}, by differences ${expected} (at ${values.join(", ")})`);
    }
  }
}
