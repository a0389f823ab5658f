/** Runs a checked loss on one datum: computes the loss, its gradient with respect to the log-probs, and the metrics. */
import * as autodiff from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";
import { Kit, type PassBudget } from "./kit.ts";
import { type ReadLoss, runCalls } from "./read-loss.ts";
import { Tensor } from "./values.ts";

/** A tensor of a datum, dense. */
export interface LossInput {
  /** Read once, after the shape was checked, because the getter of a sparse tensor allocates the dense values. */
  readonly data: ArrayLike<number>;
  readonly shape: readonly number[];
  readonly dtype: "int64" | "float32";
}

export interface LossOfDatum {
  readonly loss: number;
  /** The gradient of the loss with respect to each log-prob, in row-major order. */
  readonly slopes: Float64Array;
  readonly metrics: ReadonlyMap<string, number>;
}

/**
 * @param inputs - by name, including `logprobs`.
 * @param pass - the element budget of the pass, from which this datum is deducted.
 * @throws {@link CustomLossError} when an input is missing or has another rank, when shapes do not match, or when the gradient is not
 * finite.
 */
export function runLoss(loss: ReadLoss, inputs: Readonly<Record<string, LossInput>>, pass?: PassBudget): LossOfDatum {
  const kit = new Kit(true, pass);
  const tensors = loss.inputs.map(({ name, rank }) => {
    const input = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (input === undefined) throw new CustomLossError("is missing from loss_fn_inputs", name);
    if (input.shape.length !== rank) {
      throw new CustomLossError(`has rank ${input.shape.length}, but was declared with rank ${rank}`, name);
    }
    kit.reserve(input.shape);
    const { data } = input;
    const numbers = name === "logprobs" ? autodiff.leaf(data, input.shape) : autodiff.constant(data, input.shape);
    return new Tensor(input.dtype, rank, numbers);
  });
  const values = runCalls(kit, loss, tensors);
  const total = (values[loss.loss] as Tensor).numbers;
  const { numbers: logprobs } = tensors[0] as Tensor;
  if (!total.tracked) throw new CustomLossError("the loss does not depend on logprobs");
  const [slopes] = autodiff.gradient(total, [logprobs], { unused: "zero" }) as [Float64Array];
  const at = slopes.findIndex((slope) => !Number.isFinite(slope));
  if (at !== -1) throw new CustomLossError(`the gradient must be finite, but is ${slopes[at]} for log-prob ${at}`);
  const metrics = new Map(
    [...loss.metrics].map(([name, place]): [string, number] => {
      const { numbers } = values[place] as Tensor;
      if (numbers.size !== 1) throw new CustomLossError(`must have one element, got ${numbers.size}`, name);
      return [name, numbers.item()];
    }),
  );
  return { loss: total.item(), slopes, metrics };
}
