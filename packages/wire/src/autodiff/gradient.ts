/** Walks a computation backwards, from a scalar to the leaves that it was made of. */
import { ShapeError, UnusedLeafError } from "./errors.ts";
import { showShape } from "./shape.ts";
import type { Var } from "./var.ts";

/**
 * Gradient of a scalar with respect to each of the leaves, in row-major order. Changes nothing: it may be called again, for other
 * leaves or another loss of the same computation.
 *
 * @throws {@link ShapeError} when `loss` is not a scalar.
 * @throws {@link UnusedLeafError} when `loss` does not depend on one of the leaves, unless `unused` is `"zero"`.
 *
 * @example
 * ```ts
 * const x = leaf([1, 2, 3]);
 * gradient(x.mul(x).sum(), [x]); // [Float64Array [2, 4, 6]]
 * ```
 */
export function gradient(
  loss: Var,
  leaves: readonly Var[],
  options: { readonly unused?: "throw" | "zero" } = {},
): Float64Array[] {
  if (loss.shape.length !== 0) {
    throw new ShapeError("gradient", `the loss must be a scalar, not ${showShape(loss.shape)}`, {
      hint: "End the loss with .sum() or .mean().",
    });
  }
  const wanted = new Set(leaves);
  const grads = new Map<Var, Float64Array>();
  if (loss.tracked) grads.set(loss, Float64Array.of(1));
  for (const value of historyOf(loss)) {
    const { operands, backward } = value.origin!;
    const into = operands.map((operand) => {
      if (!operand.tracked) return undefined;
      const grad = grads.get(operand) ?? new Float64Array(operand.size);
      grads.set(operand, grad);
      return grad;
    });
    backward(grads.get(value) as Float64Array, into);
    if (!wanted.has(value)) grads.delete(value); // nothing reads it again
  }
  return leaves.map((leaf, i) => {
    const grad = grads.get(leaf);
    if (grad === undefined && options.unused !== "zero") throw new UnusedLeafError(i, leaves.length);
    return grad ?? new Float64Array(leaf.size);
  });
}

/** Every value that was computed on the way, results before their operands. */
function historyOf(loss: Var): Var[] {
  const seen = new Set<Var>();
  const open = [loss];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (value.origin === undefined || seen.has(value)) continue;
    seen.add(value);
    for (const operand of value.origin.operands) open.push(operand);
  }
  return [...seen].sort((a, b) => b.order - a.order);
}
