/**
 * What a custom loss is, what is sent for its forward pass, and its result; `run-custom-loss.ts` runs it. The server's cross entropy is `Σ -logprob · weight`,
 * so weights of minus the slope make its gradient the gradient of any loss on log-probs. Sending is the training
 * client's work.
 */
import type { Var } from "@tinklet/wire/autodiff";
import { Datum, type ForwardBackwardOutput, type LossFnType, TensorData } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe, omitUndefined } from "@tinklet/wire/options";
import { CombinedOutput } from "../combine-metrics.ts";

/** The loss of the server that carries a custom loss's gradient, in both passes. */
export const customLossCarrier: LossFnType = "cross_entropy";

/** Metrics that a loss reports; they are added to the result's metrics under their own names. */
export type CustomMetrics = Readonly<Record<string, number>>;

/** What a custom loss returns: a loss on the tape, or a number with hand-made gradients, one per datum. */
export type CustomLossResult =
  | { readonly loss: Var; readonly gradients?: undefined; readonly metrics?: CustomMetrics }
  | {
      readonly loss: number;
      /** Derivative of the loss with respect to each log-prob, one array per datum, in row-major order. */
      readonly gradients: readonly (ArrayLike<number> | TensorData)[];
      readonly metrics?: CustomMetrics | undefined;
    };

/**
 * A loss on log-probs.
 *
 * @param data - the batch, as it was given, with all of its `lossFnInputs`: those besides `target_tokens` and `weights` are not sent.
 * @param logprobs - per datum, the log-probs of its `target_tokens`, in their shape.
 *
 * @example
 * ```ts
 * const focal: CustomLossFn = (data, logprobs) => {
 *   const terms = logprobs.map((lp, i) => {
 *     const hard = lp.exp().neg().add(1).pow(2); // (1 - p)²
 *     return hard.mul(lp).neg().dot(data[i]!.lossFnInputs["weights"]!);
 *   });
 *   return { loss: stack(terms).mean() };
 * };
 * ```
 */
export type CustomLossFn = (
  data: readonly Datum[],
  logprobs: readonly Var[],
) => CustomLossResult | Promise<CustomLossResult>;

/**
 * The batch for the forward pass: zero weights are added where there are none, and what only the loss reads stays here. The caller's
 * data stay untouched.
 *
 * @throws {@link InvalidInputError} naming `data[i].lossFnInputs.target_tokens` when it is missing.
 */
export function customForwardData(
  data: readonly Datum[],
  options: { readonly lossTypeInput?: string } = {},
): readonly Datum[] {
  const { lossTypeInput = "logprobs" } = options;
  if (lossTypeInput !== "logprobs") {
    throw new InvalidInputError("lossTypeInput", `${describe(lossTypeInput)} is not supported`, {
      hint: 'The only input of a custom loss is "logprobs".',
    });
  }
  if (data.length === 0) throw new InvalidInputError("data", "must hold at least one datum");
  return data.map((datum, i) => {
    const targets = targetTokens(datum, i);
    const { weights } = datum.lossFnInputs;
    if (weights !== undefined) return withCarrier(datum, targets, weights);
    const shape = shapeOf(targets);
    const zeros = TensorData.ofParts({ dtype: "float32", values: new Float32Array(sizeOf(shape)), shape });
    return withCarrier(datum, targets, zeros);
  });
}

/** A datum with the inputs of the carrier loss in place of its own, and the same provenance. @internal */
export function withCarrier(datum: Datum, targets: TensorData, weights: TensorData): Datum {
  const { modelInput, modelInputSpans, lossFnInputSpans } = datum;
  const lossFnInputs = { target_tokens: targets, weights };
  return new Datum<string>({ modelInput, lossFnInputs, ...omitUndefined({ modelInputSpans, lossFnInputSpans }) });
}

/** What a custom loss came to. */
export interface CustomBackward {
  /** The batch for the backward pass: the same inputs and targets, minus the slope as weights. */
  readonly data: readonly Datum[];
  readonly loss: number;
  readonly metrics: CustomMetrics;
}

/** The result of a custom loss: the server's metrics with the user's, as in Python. */
export class CustomLossOutput extends CombinedOutput {
  readonly #loss: number;
  constructor(output: ForwardBackwardOutput, custom: Pick<CustomBackward, "loss" | "metrics">) {
    const hashes = output instanceof CombinedOutput ? output.hashes : {};
    const { "loss:sum": surrogate, ...others } = output.metrics;
    const losses = { "loss:sum": custom.loss, ...omitUndefined({ "surrogate_loss:sum": surrogate }) };
    super({ ...output, metrics: { ...others, ...custom.metrics, ...losses }, hashes });
    this.#loss = custom.loss;
  }
  /** The custom loss, as `metrics["loss:sum"]` is; `metrics["surrogate_loss:sum"]` is that of the server's carrier loss, which only has its slope. */
  override get loss(): number {
    return this.#loss;
  }
}

/** @internal */
export function targetTokens(datum: Datum, i: number): TensorData {
  const targets = datum.lossFnInputs["target_tokens"];
  if (targets === undefined) {
    throw new InvalidInputError(`data[${i}].lossFnInputs.target_tokens`, "is required by a custom loss");
  }
  return targets;
}

/** @internal */
export const shapeOf = (tensor: TensorData): readonly number[] => tensor.shape ?? [tensor.values.length];
/** @internal */
export const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
