/**
 * `@tinklet/sdk/losses`: regularizers on log-probs, and `combineLosses`, which adds them to a custom loss. The result runs in the client
 * (`forwardBackwardCustom(data, loss.lossFn)`) or is traced for servers that run custom losses
 * (`service.createCustomLoss(loss.fn, loss.inputRanks)`).
 */
import { constant, gradient, type Var } from "@tinklet/wire/autodiff";
import type { TensorData } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";
import type { CustomLossFn } from "./clients/training/custom-loss/custom-loss.ts";
import type { InputRanks, PerDatumLossFn } from "./clients/training/custom-loss/per-datum-loss.ts";

/** The inputs of a term for one datum: `logprobs` and keys of `lossFnInputs`. */
export type TermInputs = Readonly<Record<string, Var>>;

/** A term of a combined loss. */
export interface LossTerm {
  /** Name in metrics: lower-case letters, digits and underscores. */
  readonly name: string;
  /** Factor of the term in the loss. */
  readonly weight: number;
  /** Ranks of the inputs that the term reads, as for `createCustomLoss`. */
  readonly inputRanks: InputRanks;
  /** The unweighted value of one datum, a scalar. */
  readonly value: (inputs: TermInputs) => Var;
}

/** Options of every regularizer. */
export interface TermOptions {
  /** Factor of the term in the loss. @defaultValue 1 */
  readonly weight?: number;
  /** Name in metrics. @defaultValue the function's name in snake case */
  readonly name?: string;
  /** Key of `lossFnInputs` with one factor per position, `[T]`, for example `weights`. @defaultValue every position counts once */
  readonly mask?: string;
  /** Whether a datum's value is the sum or the (masked) mean over its positions. @defaultValue "sum" */
  readonly reduction?: "sum" | "mean";
}

/** Options of regularizers that compare with a reference model. */
export interface ReferenceOptions extends TermOptions {
  /** Key of `lossFnInputs` with the reference model's log-probs, in the shape of the targets. */
  readonly reference: string;
}

/** The value per position, `[T]`, of a term over candidates `[T, K]` or sampled tokens `[T]`. */
type Pointwise = (logprobs: Var, reference: Var) => Var;

function term(
  defaultName: string,
  options: TermOptions & { readonly reference?: string },
  { rank, pointwise }: { readonly rank: 1 | 2; readonly pointwise: Pointwise },
): LossTerm {
  const { weight = 1, name = defaultName, mask, reduction = "sum", reference } = options;
  const ranks: Record<string, number> = { logprobs: rank };
  if (reference !== undefined) ranks[reference] = rank;
  if (mask !== undefined) ranks[mask] = 1;
  return {
    name,
    weight,
    inputRanks: ranks as unknown as InputRanks,
    value: (inputs) => {
      const logprobs = inputs["logprobs"] as Var;
      const values = pointwise(logprobs, reference === undefined ? logprobs : (inputs[reference] as Var));
      const each = rank === 2 ? values.sum(1) : values;
      if (mask === undefined) return reduction === "sum" ? each.sum() : each.mean();
      const factors = inputs[mask] as Var;
      const sum = each.mul(factors).sum();
      return reduction === "sum" ? sum : sum.div(factors.sum());
    },
  };
}

/**
 * KL(reference ‖ policy) over the candidates of each position: `Σ exp(r) · (r - l)`. Needs targets `[T, K]`; exact if the K candidates
 * are the whole vocabulary, else the sum over these candidates.
 */
export const klForward = (options: ReferenceOptions): LossTerm =>
  term("kl_forward", options, { rank: 2, pointwise: (l, r) => r.exp().mul(r.sub(l)) });

/** KL(policy ‖ reference) over the candidates of each position: `Σ exp(l) · (l - r)`. Needs targets `[T, K]`, as {@link klForward}. */
export const klReverse = (options: ReferenceOptions): LossTerm =>
  term("kl_reverse", options, { rank: 2, pointwise: (l, r) => l.exp().mul(l.sub(r)) });

/** The mean of {@link klForward} and {@link klReverse}. */
export const klSymmetric = (options: ReferenceOptions): LossTerm =>
  term("kl_symmetric", options, { rank: 2, pointwise: (l, r) => l.exp().sub(r.exp()).mul(l.sub(r)).mul(0.5) });

/**
 * Estimate of KL(policy ‖ reference) from sampled tokens alone, targets `[T]`: `exp(r - l) - (r - l) - 1`, which is never negative and
 * unbiased for tokens sampled from the policy (Schulman's k3).
 */
export const klSampled = (options: ReferenceOptions): LossTerm =>
  term("kl_sampled", options, {
    rank: 1,
    pointwise: (l, r) => {
      const ratio = r.sub(l);
      return ratio.exp().sub(ratio).sub(1);
    },
  });

/** Entropy over the candidates of each position: `-Σ exp(l) · l`. Needs targets `[T, K]`. A negative weight encourages exploration. */
export const entropy = (options: TermOptions = {}): LossTerm =>
  term("entropy", options, { rank: 2, pointwise: (l) => l.exp().mul(l).neg() });

/** Squared difference to log-probs of another view of the same tokens, for example of a paraphrased prompt: `(l - r)²`. Targets `[T]`. */
export const consistency = (options: ReferenceOptions): LossTerm =>
  term("consistency", options, { rank: 1, pointwise: (l, r) => l.sub(r).pow(2) });

/** A loss with regularizers, from {@link combineLosses}. */
export interface CombinedLoss {
  /** For `service.createCustomLoss(loss.fn, loss.inputRanks)`. Metrics: `custom/<name>:sum`, without gradient norms. */
  readonly fn: PerDatumLossFn;
  /** Ranks of all inputs of base and terms. */
  readonly inputRanks: InputRanks;
  /**
   * For `trainer.forwardBackwardCustom(data, loss.lossFn)`. Metrics: `custom/<name>:sum` as in `fn`, and `grad_norm/<name>`, the norm of
   * the weighted term's gradient with respect to the batch's log-probs, also for `base` and `total`.
   */
  readonly lossFn: CustomLossFn;
}

const termName = /^[a-z][a-z0-9_]*$/;
const reserved = new Set(["base", "total"]);

/**
 * Adds weighted terms to a loss. The loss of a datum is `base + Σ weight · term`; that of a batch is the sum over its data.
 *
 * @param options.base - the loss of one datum, as for `createCustomLoss`
 * @param options.inputRanks - ranks of the base's inputs
 *
 * @throws {@link InvalidInputError} naming a term with an invalid or repeated name, a weight that is not finite, or an input that is
 *   used with two ranks.
 *
 * @example
 * ```ts
 * import { combineLosses, klSampled } from "@tinklet/sdk/losses";
 *
 * const loss = combineLosses({
 *   base: ({ logprobs, weights }) => ({ loss: logprobs.mul(weights).sum().neg() }),
 *   inputRanks: { logprobs: 1, weights: 1 },
 *   terms: [klSampled({ reference: "ref_logprobs", weight: 0.05 })],
 * });
 * const reference = TensorData.from([-0.5, -1.5], { dtype: "float32" });
 * const lossFnInputs = { target_tokens: [6, 7], weights: [1, 1], ref_logprobs: reference };
 * const { metrics } = await trainer.forwardBackwardCustom([new Datum({ modelInput: [5, 6], lossFnInputs })], loss.lossFn);
 * console.log(metrics["custom/kl_sampled:sum"], metrics["grad_norm/kl_sampled"]);
 * ```
 */
export function combineLosses<const R extends InputRanks>(options: {
  readonly base: PerDatumLossFn<Exclude<keyof R, "logprobs"> & string>;
  readonly inputRanks: R;
  readonly terms: readonly LossTerm[];
}): CombinedLoss {
  const { terms } = options;
  const base = options.base as PerDatumLossFn;
  const inputRanks: Record<string, number> = { ...options.inputRanks } as Record<string, number>;
  const names = new Set<string>();
  for (const [i, { name, weight, inputRanks: own }] of terms.entries()) {
    const at = `terms[${i}]`;
    if (!termName.test(name)) {
      const problem = `must consist of lower-case letters, digits and underscores, got ${JSON.stringify(name)}`;
      throw new InvalidInputError(`${at}.name`, problem);
    }
    if (names.has(name) || reserved.has(name)) {
      throw new InvalidInputError(`${at}.name`, `is used twice or reserved: ${name}`, {
        hint: 'Set the option "name" of one of the terms.',
      });
    }
    names.add(name);
    if (!Number.isFinite(weight)) {
      throw new InvalidInputError(`${at}.weight`, `must be a finite number, got ${describe(weight)}`);
    }
    for (const [input, rank] of Object.entries(own) as [string, number][]) {
      const known = inputRanks[input];
      if (known !== undefined && known !== rank) {
        throw new InvalidInputError(
          `${at}.inputRanks.${input}`,
          `must be ${known} as for the other terms, got ${rank}`,
        );
      }
      inputRanks[input] = rank;
    }
  }
  const parts = (inputs: TermInputs) => {
    const result = base(inputs as Parameters<PerDatumLossFn>[0]);
    const values = terms.map((each) => each.value(inputs));
    const weighted = values.map((value, i) => value.mul(terms[i]!.weight));
    const metrics = { ...result.metrics };
    for (const [i, { name }] of terms.entries()) metrics[`custom/${name}:sum`] = values[i] as Var;
    return { base: result.loss, weighted, metrics };
  };
  const fn: PerDatumLossFn = (inputs) => {
    const { base: first, weighted, metrics } = parts(inputs);
    return { loss: weighted.reduce((sum, each) => sum.add(each), first), metrics };
  };
  const lossFn: CustomLossFn = (data, logprobs) => {
    const results = data.map((datum, i) => {
      const inputs: Record<string, Var> = { logprobs: logprobs[i] as Var };
      for (const name of Object.keys(inputRanks)) {
        if (name === "logprobs") continue;
        const tensor: TensorData | undefined = datum.lossFnInputs[name];
        if (tensor === undefined)
          throw new InvalidInputError(`data[${i}].lossFnInputs.${name}`, "is required by the loss");
        inputs[name] = constant(tensor);
      }
      return parts(inputs);
    });
    const sums = [
      results.map((each) => each.base),
      ...terms.map((_, t) => results.map((each) => each.weighted[t]!)),
    ].map((values) => values.reduce((sum, each) => sum.add(each)));
    const loss = sums.reduce((sum, each) => sum.add(each));
    const metrics: Record<string, number> = {};
    for (const { metrics: own } of results) {
      for (const [name, value] of Object.entries(own)) {
        metrics[name] = (metrics[name] ?? 0) + value.item() / (name.endsWith(":mean") ? results.length : 1);
      }
    }
    const named = ["base", ...terms.map(({ name }) => name)].map((name, i) => [name, sums[i] as Var] as const);
    for (const [name, value] of [...named, ["total", loss] as const]) {
      const slopes = gradient(value, logprobs, { unused: "zero" });
      metrics[`grad_norm/${name}`] = Math.sqrt(
        slopes.reduce((sum, slope) => slope.reduce((inner, each) => inner + each * each, sum), 0),
      );
    }
    return { loss, metrics };
  };
  return { fn, inputRanks: inputRanks as unknown as InputRanks, lossFn };
}
