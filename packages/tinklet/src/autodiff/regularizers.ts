/**
 * Terms that are added to a loss: norms, entropy, divergences, consistency. Each takes values on the tape and returns a
 * scalar on the tape, so that they compose with the rest of a loss and with each other.
 */
import { ShapeError } from "./errors.ts";
import { sameShape, showShape } from "./shape.ts";
import { constant, type Operand, type Var, where } from "./var.ts";

/** How a term over many elements becomes one number. */
export interface ReductionOption {
  /** @defaultValue `"mean"`, so that a weight means the same for short and long sequences. */
  readonly reduction?: "mean" | "sum";
}

const reduced = (terms: Var, { reduction = "mean" }: ReductionOption): Var =>
  reduction === "sum" ? terms.sum() : terms.mean();

/**
 * |x|: pulls towards zero with the same force everywhere.
 *
 * @example
 * ```ts
 * const x = leaf([1, -3]);
 * console.log(l1(x).item(), l2(x).item(), elasticNet(x, { l1Ratio: 0.25 }).item()); // 2 5 4.25
 * ```
 */
export const l1 = (x: Var, options: ReductionOption = {}): Var => reduced(x.abs(), options);

/** x²: pulls towards zero with a force that grows with the distance. */
export const l2 = (x: Var, options: ReductionOption = {}): Var => reduced(x.mul(x), options);

/**
 * A mixture of {@link l1} and {@link l2}.
 *
 * @param options.l1Ratio - the share of L1, 0 to 1. @defaultValue `0.5`
 */
export function elasticNet(x: Var, options: ReductionOption & { readonly l1Ratio?: number } = {}): Var {
  const ratio = options.l1Ratio ?? 0.5;
  return l1(x, options)
    .mul(ratio)
    .add(l2(x, options).mul(1 - ratio));
}

/**
 * The entropy -Σ p·log p of distributions given as log-probabilities along the last axis: `[K]`, or `[T, K]` for one
 * distribution per position (as 2-D `target_tokens` give them). Give it a negative weight to keep a policy broad.
 *
 * The log-probs of sampled tokens alone (`[T]`, one number per position) are no distribution; use
 * {@link klEstimate} against a reference there.
 */
export function entropy(logprobs: Var, options: ReductionOption = {}): Var {
  return reduced(expectation("entropy", logprobs, logprobs).neg(), options);
}

/**
 * The divergence KL(p ‖ q) = Σ p·(log p - log q) of distributions along the last axis, both as log-probabilities.
 * `kl(model, reference)` is the reverse KL of distillation, `kl(reference, model)` the forward one.
 *
 * @example
 * ```ts
 * const model = leaf([Math.log(0.5), Math.log(0.5)]);
 * const reference = constant([Math.log(0.9), Math.log(0.1)]);
 * console.log(kl(model, reference).item(), entropy(model).item());
 * ```
 */
export function kl(p: Operand, q: Operand, options: ReductionOption = {}): Var {
  const [left, right] = paired("kl", p, q);
  return reduced(expectation("kl", left, left.sub(right)), options);
}

/** Σ p·x along the last axis, for log-probabilities p. What has no probability counts nothing, even at -Infinity. */
function expectation(operation: string, logprobs: Var, x: Var): Var {
  if (logprobs.shape.length === 0) throw new ShapeError(operation, "needs distributions, not a scalar");
  const possible = constant(
    logprobs.data.map((value) => (value === -Infinity ? 0 : 1)),
    logprobs.shape,
  );
  return logprobs
    .exp()
    .mul(where(possible, x, 0))
    .sum(-1);
}

/**
 * KL(model ‖ reference) estimated from tokens that the model itself sampled, per token: `k1` is log-ratio (unbiased,
 * can be negative), `k2` half its square (biased, low variance), `k3` e^-r - 1 + r (unbiased and never negative).
 *
 * @defaultValue estimator `"k3"`
 */
export function klEstimate(
  logprobs: Operand,
  reference: Operand,
  options: ReductionOption & { readonly estimator?: "k1" | "k2" | "k3" } = {},
): Var {
  const [model, other] = paired("klEstimate", logprobs, reference);
  const ratio = model.sub(other); // log p/q
  switch (options.estimator ?? "k3") {
    case "k1":
      return reduced(ratio, options);
    case "k2":
      return reduced(ratio.mul(ratio).mul(0.5), options);
    case "k3":
      return reduced(ratio.neg().expm1().add(ratio), options);
  }
}

/** How far two views of the same thing lie apart: mean squared (default) or mean absolute difference. */
export function consistency(
  a: Operand,
  b: Operand,
  options: ReductionOption & { readonly distance?: "squared" | "absolute" } = {},
): Var {
  const [left, right] = paired("consistency", a, b);
  const difference = left.sub(right);
  return options.distance === "absolute" ? l1(difference, options) : l2(difference, options);
}

function paired(operation: string, a: Operand, b: Operand): [Var, Var] {
  const [left, right] = [constant(a), constant(b)];
  if (!sameShape(left.shape, right.shape)) {
    throw new ShapeError(operation, `${showShape(left.shape)} and ${showShape(right.shape)} do not fit together`);
  }
  return [left, right];
}

/** A term with its weight in the loss. */
export interface Penalty {
  readonly weight: number;
  readonly value: Var;
}

/**
 * Adds weighted terms to a loss and reports each; the answer is what a custom loss returns.
 *
 * @example
 * ```ts
 * const lossFn: CustomLossFn = (_, [logprobs]) =>
 *   addPenalties(logprobs!.sum().neg(), {
 *     kl: { weight: 0.1, value: klEstimate(logprobs!, samplingLogprobs) },
 *     size: { weight: 0.01, value: l2(logprobs!) },
 *   }); // { loss, metrics: { loss_unpenalized, kl, size } }
 * await trainer.forwardBackwardCustom([datum], lossFn);
 * ```
 */
export function addPenalties(
  loss: Var,
  penalties: Readonly<Record<string, Penalty>>,
): { readonly loss: Var; readonly metrics: Readonly<Record<string, number>> } {
  const terms = Object.entries(penalties);
  return {
    loss: terms.reduce((sum, [, { weight, value }]) => sum.add(value.mul(weight)), loss),
    metrics: Object.fromEntries([
      ["loss_unpenalized", loss.item()],
      ...terms.map(([name, { value }]) => [name, value.item()] as const),
    ]),
  };
}
