/**
 * Functions of one or two numbers, each with its derivative. Where the derivative is not defined the value is PyTorch's: 0 for `abs` at
 * 0, 0.5 for each of two equal operands of `max` and `min`, 1 on the bounds of `clamp`.
 */

/** A function of one number. `slope` gets the function's value as `y`. */
export interface Unary {
  readonly value: (x: number) => number;
  readonly slope: (x: number, y: number) => number;
}
/** A function of two numbers and its partial derivatives. */
export interface Binary {
  readonly value: (a: number, b: number) => number;
  readonly slopes: readonly [(a: number, b: number) => number, (a: number, b: number) => number];
}

/** 1 / (1 + e^-x) without overflow for large positive or negative x. */
export function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const e = Math.exp(x);
  return e / (1 + e);
}

/** log(1 + e^x) without overflow, exact also for small results. */
export const softplus = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

export const unary = {
  neg: { value: (x) => -x, slope: () => -1 },
  abs: { value: Math.abs, slope: Math.sign },
  exp: { value: Math.exp, slope: (_, y) => y },
  expm1: { value: Math.expm1, slope: (_, y) => y + 1 },
  log: { value: Math.log, slope: (x) => 1 / x },
  log1p: { value: Math.log1p, slope: (x) => 1 / (1 + x) },
  sqrt: { value: Math.sqrt, slope: (_, y) => 0.5 / y },
  sigmoid: { value: sigmoid, slope: (_, y) => y * (1 - y) },
  softplus: { value: softplus, slope: sigmoid },
  tanh: { value: Math.tanh, slope: (_, y) => 1 - y * y },
  sin: { value: Math.sin, slope: (x) => Math.cos(x) },
  cos: { value: Math.cos, slope: (x) => -Math.sin(x) },
  logSigmoid: { value: (x) => -softplus(-x), slope: (x) => sigmoid(-x) },
} satisfies Record<string, Unary>;

/** The derivative of `max` and `min` by one operand: 1 for the chosen operand, 0.5 when both are equal, else 0. */
const share = (wins: boolean, ties: boolean) => (ties ? 0.5 : wins ? 1 : 0);

export const binary = {
  add: { value: (a, b) => a + b, slopes: [() => 1, () => 1] },
  sub: { value: (a, b) => a - b, slopes: [() => 1, () => -1] },
  mul: { value: (a, b) => a * b, slopes: [(_, b) => b, (a) => a] },
  div: { value: (a, b) => a / b, slopes: [(_, b) => 1 / b, (a, b) => -a / (b * b)] },
  // At base 0 the derivative by the exponent is 0; the formula would give 0 · -Infinity = NaN.
  pow: {
    value: (a, b) => a ** b,
    slopes: [(a, b) => (b === 0 ? 0 : b * a ** (b - 1)), (a, b) => (a === 0 && b >= 0 ? 0 : a ** b * Math.log(a))],
  },
  max: { value: (a, b) => Math.max(a, b), slopes: [(a, b) => share(a > b, a === b), (a, b) => share(b > a, a === b)] },
  min: { value: (a, b) => Math.min(a, b), slopes: [(a, b) => share(a < b, a === b), (a, b) => share(b < a, a === b)] },
} satisfies Record<string, Binary>;

/** x to a fixed power. */
export const power = (exponent: number): Unary => ({
  value: (x) => x ** exponent,
  slope: (x) => (exponent === 0 ? 0 : exponent * x ** (exponent - 1)),
});

/** x clamped to two bounds; outside them the derivative is 0. */
export const clamped = (low: number, high: number): Unary => ({
  value: (x) => Math.min(Math.max(x, low), high),
  slope: (x) => (x >= low && x <= high ? 1 : 0),
});
