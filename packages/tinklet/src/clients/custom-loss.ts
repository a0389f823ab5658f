/**
 * The pure parts of `forwardBackwardCustom`: what is sent for the forward pass, how the user's loss is run on the
 * log-probs that come back, and what is sent for the backward pass. The server's cross entropy is `Σ -logprob · weight`,
 * so weights of minus the slope make its gradient the gradient of any loss on log-probs. Sending is the training
 * client's work.
 */
import { gradient, leaf, Var } from "../autodiff/index.ts";
import { InvalidInputError, ResponseValidationError } from "../errors.ts";
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

/**
 * Runs the user's loss on the log-probs of the forward pass and turns its slopes into weights.
 *
 * @param data - the batch as it was given, for the loss.
 * @param sent - the batch as the forward pass sent it.
 * @throws {@link UnusedLeafError} when the loss does not depend on a datum's log-probs.
 * @throws {@link InvalidInputError} naming `loss` or `gradients[i]` when what the loss returned cannot be used. A loss or a slope
 * that is not finite is refused: it would make every weight of the model NaN.
 */
export async function runCustomLoss(
  data: readonly Datum[],
  forward: ForwardBackwardOutput,
  lossFn: CustomLossFn,
  sent: readonly Datum[] = data,
): Promise<CustomBackward> {
  const leaves = logprobLeaves(sent, forward);
  const result = await lossFn(data, leaves);
  const { loss, slopes } = slopesOf(result, leaves);
  return {
    loss,
    metrics: checkedMetrics(result.metrics ?? {}),
    data: sent.map((datum, i) => {
      const { shape } = leaves[i] as Var;
      const weights = Float32Array.from(slopes[i] as Float64Array, (slope) => -slope);
      return new Datum({
        modelInput: datum.modelInput,
        lossFnInputs: {
          target_tokens: targetTokens(datum, i),
          weights: TensorData.ofParts({ dtype: "float32", values: weights, shape }).toSparse(),
        },
      });
    }),
  };
}

/** The log-probs of each datum's targets, in the targets' shape, as leaves of the tape. */
function logprobLeaves(data: readonly Datum[], forward: ForwardBackwardOutput): Var[] {
  const outputs = forward.lossFnOutputs;
  if (outputs.length !== data.length) {
    throw new ResponseValidationError("loss_fn_outputs", `has ${outputs.length} entries for ${data.length} data`);
  }
  return data.map((datum, i) => {
    const field = `loss_fn_outputs[${i}].logprobs`;
    const logprobs = outputs[i]?.["logprobs"];
    if (logprobs === undefined) throw new ResponseValidationError(field, "is missing");
    const shape = shapeOf(targetTokens(datum, i));
    const dense = logprobs.toDense();
    if (dense.values.length !== sizeOf(shape)) {
      throw new ResponseValidationError(
        field,
        `has ${dense.values.length} values for target_tokens of shape [${shape.join(", ")}]`,
      );
    }
    return leaf(dense, shape);
  });
}

function slopesOf(result: CustomLossResult, leaves: readonly Var[]): { loss: number; slopes: Float64Array[] } {
  const given: unknown = (result as CustomLossResult | undefined)?.loss;
  if (given instanceof Var) {
    const loss = given.size === 1 ? given.reshape([]) : given; // gradient() explains what is wrong with the others
    const slopes = gradient(loss, leaves).map(checkFinite);
    return { loss: finiteLoss(loss.item()), slopes };
  }
  if (typeof given !== "number") {
    throw new InvalidInputError(
      "loss",
      `a custom loss must return { loss }, a Var or a number, not ${describe(given)}`,
    );
  }
  const { gradients } = result;
  if (!Array.isArray(gradients) || gradients.length !== leaves.length) {
    throw new InvalidInputError("gradients", `must hold one array for each of the ${leaves.length} data`, {
      hint: "Return the loss as a Var to have its gradient taken for you.",
    });
  }
  const slopes = leaves.map((logprobs, i) => {
    const slope = gradients[i] as ArrayLike<number> | TensorData | undefined;
    const values = slope instanceof TensorData ? slope.toDense().values : slope;
    if (values?.length !== logprobs.size) {
      throw new InvalidInputError(`gradients[${i}]`, `must hold ${logprobs.size} numbers, not ${values?.length ?? 0}`);
    }
    return checkFinite(Float64Array.from(values as ArrayLike<number>, Number), i);
  });
  return { loss: finiteLoss(given), slopes };
}

/** A loss that is NaN has no slope, whatever the gradients say. */
function finiteLoss(loss: number): number {
  if (Number.isFinite(loss)) return loss;
  throw new InvalidInputError("loss", `is ${loss}`, { hint: notFiniteHint });
}

const notFiniteHint = "Look for log of zero, division by zero or exp of a large number in the loss; clamp before them.";

function checkFinite(slope: Float64Array, datum: number): Float64Array {
  const at = slope.findIndex((value) => !Number.isFinite(value));
  if (at === -1) return slope;
  throw new InvalidInputError(`gradients[${datum}]`, `is ${slope[at]} at position ${at}`, {
    hint: notFiniteHint,
  });
}

function checkedMetrics(metrics: CustomMetrics): CustomMetrics {
  for (const [key, value] of Object.entries(metrics)) {
    if (typeof value !== "number") {
      throw new InvalidInputError(`metrics.${key}`, `must be a number, not ${describe(value)}`);
    }
  }
  return metrics;
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

function targetTokens(datum: Datum, i: number): TensorData {
  const targets = datum.lossFnInputs["target_tokens"];
  if (targets === undefined) {
    throw new InvalidInputError(`data[${i}].lossFnInputs.target_tokens`, "is required by a custom loss");
  }
  return targets;
}

const shapeOf = (tensor: TensorData): readonly number[] => tensor.shape ?? [tensor.values.length];
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
