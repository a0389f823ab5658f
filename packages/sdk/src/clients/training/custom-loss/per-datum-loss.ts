/**
 * Per-datum custom losses: a function of one datum's log-probs and inputs, created once with `ServiceClient.createCustomLoss` and used in
 * many passes. Servers that run custom losses have its graph; otherwise the client runs the function datum by datum.
 */
import { constant, type Var } from "@tinklet/wire/autodiff";
import type { CustomLossInput, CustomLossInputRank, Datum, TensorData } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import type { CustomLossFn } from "./custom-loss.ts";

/**
 * A loss of one datum. The loss of a batch is the sum over its data; metrics are summed or averaged by the suffix of their names.
 *
 * @example
 * ```ts
 * const clipped: PerDatumLossFn<"sampling" | "advantages"> = ({ logprobs, sampling, advantages }) => {
 *   const ratio = logprobs.sub(sampling).exp();
 *   const loss = ratio.mul(advantages).min(ratio.clamp({ min: 0.8, max: 1.2 }).mul(advantages)).sum().neg();
 *   return { loss, metrics: { "custom/ratio:mean": ratio.mean() } };
 * };
 * ```
 */
export type PerDatumLossFn<K extends string = string> = (inputs: { readonly [N in K | "logprobs"]: Var }) => {
  readonly loss: Var;
  /** Scalars under names like `custom/kl:mean` and `custom/tokens:sum`. */
  readonly metrics?: Readonly<Record<string, Var>> | undefined;
};

/** Ranks of a loss's inputs: 0 is a scalar, 1 is `[T]`, 2 is `[T, K]`. */
export interface InputRanks {
  readonly logprobs: 1 | 2;
  readonly [input: string]: CustomLossInputRank;
}

/** A loss created by {@link ServiceClient.createCustomLoss}, for use with `forwardBackwardCustom`. */
export class CustomLoss {
  /** The loss's name. */
  readonly name: string;
  /** `logprobs`, then the keys of `lossFnInputs` that the loss reads. */
  readonly inputs: readonly CustomLossInput[];
  /** Id of the loss on the server; undefined if the client runs it. */
  readonly lossId: string | undefined;
  /** The reason why the client runs the loss although the server supports custom losses. */
  readonly untraced: string | undefined;
  /** @internal */
  readonly fn: PerDatumLossFn;

  /** @internal Use {@link ServiceClient.createCustomLoss}. */
  constructor(parts: {
    readonly name: string;
    readonly inputs: readonly CustomLossInput[];
    readonly fn: PerDatumLossFn;
    readonly lossId?: string;
    readonly untraced?: string;
  }) {
    this.name = parts.name;
    this.inputs = parts.inputs;
    this.fn = parts.fn;
    this.lossId = parts.lossId;
    this.untraced = parts.untraced;
  }
}

/** @throws {@link InvalidInputError} naming the datum and the key of a missing input, or of one with another rank. */
export function checkLossInputs(loss: CustomLoss, data: readonly Datum[]): void {
  for (const [i, datum] of data.entries()) {
    for (const { name, rank } of loss.inputs) {
      const key = name === "logprobs" ? "target_tokens" : name;
      const tensor: TensorData | undefined = datum.lossFnInputs[key];
      const field = `data[${i}].lossFnInputs.${key}`;
      if (tensor === undefined) throw new InvalidInputError(field, `is required by the loss ${loss.name}`);
      const found = tensor.shape?.length ?? 1;
      if (found !== rank)
        throw new InvalidInputError(field, `must have rank ${rank}, as declared by the loss, got ${found}`);
    }
  }
}

/** The loss of a batch, run by the client. @param data - the batch with all inputs */
export function batchLoss(loss: CustomLoss, data: readonly Datum[]): CustomLossFn {
  return (_, logprobs) => {
    const results = data.map((datum, i) =>
      loss.fn({
        ...Object.fromEntries(
          loss.inputs.slice(1).map(({ name }) => [name, constant(datum.lossFnInputs[name] as TensorData)]),
        ),
        logprobs: logprobs[i] as Var,
      }),
    );
    const metrics: Record<string, number> = {};
    for (const { metrics: own = {} } of results) {
      for (const [name, value] of Object.entries(own)) {
        metrics[name] = (metrics[name] ?? 0) + value.item() / (name.endsWith(":mean") ? results.length : 1);
      }
    }
    const [first, ...rest] = results.map((result) => result.loss);
    return { loss: rest.reduce((sum, each) => sum.add(each), first as Var), metrics };
  };
}
