/** `@tinklet/wire/autodiff`: reverse-mode automatic differentiation, which custom losses use. No dependencies. */
export { ShapeError, UnusedLeafError } from "./errors.ts";
export { gradient } from "./gradient.ts";
export { broadcast, type Shape } from "./shape.ts";
export { concat, constant, leaf, type NumberRows, type Operand, stack, Var, where } from "./var.ts";
