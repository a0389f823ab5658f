/**
 * Custom losses: their type, the batch of their forward pass, and their result; `run-custom-loss.ts` runs them. The server's cross entropy is
 * `Σ -logprob · weight`, so weights of minus the derivative give it the gradient of any loss on log-probs. The training client sends both
 * passes.
 */
import type { Var } from "@tinklet/wire/autodiff";
import { Datum, type ForwardBackwardOutput, type LossFnType, TensorData } from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe, omitUndefined } from "@tinklet/wire/options";
import { CombinedOutput } from "../combine-metrics.ts";

/** The server's loss that carries a custom loss's gradient, in both passes. */
export const customLossCarrier: LossFnType = "cross_entropy";

/** Metrics of a loss; they are added to the result's metrics under the same names. */
export type CustomMetrics = Readonly<Record<string, number>>;

/** Result of a custom loss: a `Var`, or a number with explicit gradients, one array per datum. */
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
 * @param data - the batch with all of its `lossFnInputs`; only `target_tokens` and `weights` are sent to the server.
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
 * The batch for the forward pass: missing weights are filled with zeros, and inputs that only the loss reads are removed. Does not modify
 * the caller's data.
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

/** The result of running a custom loss. */
export interface CustomBackward {
  /** The batch for the backward pass: the same inputs and targets, with minus the derivative as weights. */
  readonly data: readonly Datum[];
  readonly loss: number;
  readonly metrics: CustomMetrics;
}

/** The result of a pass with a custom loss: the server's metrics and those of the loss, as in the Python SDK. */
export class CustomLossOutput extends CombinedOutput {
  readonly #loss: number;
  constructor(output: ForwardBackwardOutput, custom: Pick<CustomBackward, "loss" | "metrics">) {
    const hashes = output instanceof CombinedOutput ? output.hashes : {};
    const { "loss:sum": surrogate, ...others } = output.metrics;
    const losses = { "loss:sum": custom.loss, ...omitUndefined({ "surrogate_loss:sum": surrogate }) };
    super({ ...output, metrics: { ...others, ...custom.metrics, ...losses }, hashes });
    this.#loss = custom.loss;
  }
  /** The custom loss, equal to `metrics["loss:sum"]`. `metrics["surrogate_loss:sum"]` is the carrier loss, which has the same gradient and another value. */
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
