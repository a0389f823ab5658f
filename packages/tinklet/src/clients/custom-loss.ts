/**
 * What a custom loss is, what is sent for its forward pass, and its result; `run-custom-loss.ts` runs it. The server's cross entropy is `Σ -logprob · weight`,
 * so weights of minus the slope make its gradient the gradient of any loss on log-probs. Sending is the training
 * client's work.
 */
import type { Var } from "../autodiff/index.ts";
import { InvalidInputError } from "../errors.ts";
import { Datum } from "../wire/datum.ts";
import { describe } from "../wire/fields.ts";
import { TensorData } from "../wire/tensor-data.ts";
import type { ForwardBackwardOutput, LossFnType } from "../wire/training.ts";
import { CombinedOutput } from "./combine-metrics.ts";

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
      readonly metrics?: CustomMetrics;
    };

/**
 * A loss on log-probs.
 *
 * @param data - the batch, as it was given.
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
 * The batch for the forward pass: zero weights are added where there are none. The caller's data stay untouched.
 *
 * @throws {@link InvalidInputError} naming `data[i].lossFnInputs.<key>` when `target_tokens` is missing, or when there
 * are keys besides `target_tokens` and `weights`.
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
    const inputs = datum.lossFnInputs;
    const targets = targetTokens(datum, i);
    const extra = Object.keys(inputs).find((key) => key !== "target_tokens" && key !== "weights");
    if (extra !== undefined) {
      throw new InvalidInputError(`data[${i}].lossFnInputs.${extra}`, "is not read by the server in a custom loss", {
        hint: "Keep what only your loss reads beside the batch; the data may hold target_tokens and weights.",
      });
    }
    if (inputs["weights"] !== undefined) return datum;
    const shape = shapeOf(targets);
    const zeros = TensorData.ofParts({ dtype: "float32", values: new Float32Array(sizeOf(shape)), shape });
    return new Datum({ modelInput: datum.modelInput, lossFnInputs: { ...inputs, weights: zeros } });
  });
}

/** What a custom loss came to. */
export interface CustomBackward {
  /** The batch for the backward pass: the same inputs and targets, minus the slope as weights. */
  readonly data: readonly Datum[];
  readonly loss: number;
  readonly metrics: CustomMetrics;
}

/** The result of a custom loss: the server's metrics with the user's added, as in Python. */
export class CustomLossOutput extends CombinedOutput {
  readonly #loss: number;
  constructor(output: ForwardBackwardOutput, custom: Pick<CustomBackward, "loss" | "metrics">) {
    const hashes = output instanceof CombinedOutput ? output.hashes : {};
    super({ ...output, metrics: { ...output.metrics, ...custom.metrics }, hashes });
    this.#loss = custom.loss;
  }
  /** The custom loss itself. (`metrics["loss:sum"]` is that of the server's carrier loss, which only has its slope.) */
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
