/** The errors of autodiff. Each names the operation or the leaf. */
import { TinkerError } from "../errors.ts";

/** The shapes of the operands are incompatible, or an argument is invalid for the operand's shape. */
export class ShapeError extends TinkerError {
  override readonly name = "ShapeError";
  /** Name of the method: `add`, `gather`, … */
  readonly operation: string;
  constructor(operation: string, problem: string, options: { hint?: string } = {}) {
    super(`${operation}: ${problem}`, { code: "shape", ...options });
    this.operation = operation;
  }
}

/** The loss does not depend on a leaf, so there is no gradient to send for it. */
export class UnusedLeafError extends TinkerError {
  override readonly name = "UnusedLeafError";
  /** Index of the leaf, from 0. */
  readonly index: number;
  constructor(index: number, count: number) {
    super(`No gradient computed for leaf ${index} of ${count}: the loss does not depend on it.`, {
      code: "unused_leaf",
      hint: "Use every datum's log-probs in the loss (add leaf.sum().mul(0) to leave one out on purpose), or drop the datum.",
    });
    this.index = index;
  }
}
