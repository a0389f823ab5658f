/**
 * Runs a custom loss on the log-probs of the forward pass and creates the batch of the backward pass. Loaded with the first custom loss.
 */
import { gradient, leaf, Var } from "@tinklet/wire/autodiff";
import { type Datum, type ForwardBackwardOutput, TensorData } from "@tinklet/wire/client";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";
import {
  type CustomBackward,
  type CustomLossFn,
  type CustomLossResult,
  type CustomMetrics,
  shapeOf,
  sizeOf,
  targetTokens,
  withCarrier,
} from "./custom-loss.ts";

/**
 * Runs the user's loss on the log-probs of the forward pass and converts its derivatives to weights.
 *
 * @param data - the caller's batch, passed to the loss.
 * @param sent - the batch that the forward pass sent.
 * @throws {@link UnusedLeafError} when the loss does not depend on a datum's log-probs.
 * @throws {@link InvalidInputError} naming `loss` or `gradients[i]` when the loss returned an invalid result. Values that are not finite
 * are rejected, because they would make every weight of the model NaN.
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
      const tensor = TensorData.ofParts({ dtype: "float32", values: weights, shape }).toSparse();
      return withCarrier(datum, targetTokens(datum, i), tensor);
    }),
  };
}

/** The log-probs of each datum's targets, in the targets' shape, as leaves of the autodiff graph. */
function logprobLeaves(data: readonly Datum[], forward: ForwardBackwardOutput): Var[] {
  const outputs = forward.lossFnOutputs;
  if (outputs.length !== data.length) {
    throw new ResponseValidationError(
      "loss_fn_outputs",
      `must have one entry per datum: ${data.length}, got ${outputs.length}`,
    );
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
    const loss = given.size === 1 ? given.reshape([]) : given; // gradient() throws for other shapes
    const slopes = gradient(loss, leaves).map(checkFinite);
    return { loss: finiteLoss(loss.item()), slopes };
  }
  if (typeof given !== "number") {
    throw new InvalidInputError(
      "loss",
      `a custom loss must return { loss }, a Var or a number, got ${describe(given)}`,
    );
  }
  const { gradients } = result;
  if (!Array.isArray(gradients) || gradients.length !== leaves.length) {
    throw new InvalidInputError("gradients", `must hold one array for each of the ${leaves.length} data`, {
      hint: "Return the loss as a Var to have its gradient computed.",
    });
  }
  const slopes = leaves.map((logprobs, i) => {
    const slope = gradients[i] as ArrayLike<number> | TensorData | undefined;
    const values = slope instanceof TensorData ? slope.toDense().values : slope;
    if (values?.length !== logprobs.size) {
      throw new InvalidInputError(`gradients[${i}]`, `must have ${logprobs.size} numbers, got ${values?.length ?? 0}`);
    }
    return checkFinite(Float64Array.from(values as ArrayLike<number>, Number), i);
  });
  return { loss: finiteLoss(given), slopes };
}

/** Rejects a loss that is not finite, even if its gradients are. */
function finiteLoss(loss: number): number {
  if (Number.isFinite(loss)) return loss;
  throw new InvalidInputError("loss", `is ${loss}`, { hint: notFiniteHint });
}

const notFiniteHint =
  "Check the loss for log of zero, division by zero or exp of a large number, and clamp their arguments.";

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
      throw new InvalidInputError(`metrics.${key}`, `must be a number, got ${describe(value)}`);
    }
  }
  return metrics;
}
