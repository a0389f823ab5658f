/** Runs a loss that was read on one datum: the loss, the slope by each log-prob, and the metrics. */
import * as autodiff from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";
import { Kit, type PassBudget } from "./kit.ts";
import { type ReadLoss, runCalls } from "./read-loss.ts";
import { Tensor } from "./values.ts";

/** A tensor of a datum, dense. */
export interface LossInput {
  /** Read once, after the shape was accepted: a sparse tensor is made dense then. */
  readonly data: ArrayLike<number>;
  readonly shape: readonly number[];
  readonly dtype: "int64" | "float32";
}

export interface LossOfDatum {
  readonly loss: number;
  /** By each log-prob, in row-major order. */
  readonly slopes: Float64Array;
  readonly metrics: ReadonlyMap<string, number>;
}

/**
 * @param inputs - by name, `logprobs` among them.
 * @param pass - what the data of its pass may still make, which this takes from.
 * @throws {@link CustomLossError} when an input is missing or of another rank, when shapes do not fit together, or when the
 * loss or a slope is not finite.
 */
export function runLoss(loss: ReadLoss, inputs: Readonly<Record<string, LossInput>>, pass?: PassBudget): LossOfDatum {
  const kit = new Kit(true, pass);
  const tensors = loss.inputs.map(({ name, rank }) => {
    const given = Object.hasOwn(inputs, name) ? inputs[name] : undefined;
    if (given === undefined) throw new CustomLossError("is missing from loss_fn_inputs", name);
    if (given.shape.length !== rank) {
      throw new CustomLossError(`has rank ${given.shape.length}, but was declared with rank ${rank}`, name);
    }
    kit.room(given.shape);
    const { data } = given;
    const numbers = name === "logprobs" ? autodiff.leaf(data, given.shape) : autodiff.constant(data, given.shape);
    return new Tensor(given.dtype, rank, numbers);
  });
  const values = runCalls(kit, loss, tensors);
  const answer = (values[loss.loss] as Tensor).numbers;
  const { numbers: logprobs } = tensors[0] as Tensor;
  if (!answer.tracked) throw new CustomLossError("the loss does not depend on logprobs");
  const [slopes] = autodiff.gradient(answer, [logprobs], { unused: "zero" }) as [Float64Array];
  const at = slopes.findIndex((slope) => !Number.isFinite(slope));
  if (at !== -1) throw new CustomLossError(`the slope by log-prob ${at} is ${slopes[at]}`);
  const metrics = new Map(
    [...loss.metrics].map(([name, place]): [string, number] => {
      const { numbers } = values[place] as Tensor;
      if (numbers.size !== 1) throw new CustomLossError(`has ${numbers.size} elements, not one`, name);
      return [name, numbers.item()];
    }),
  );
  return { loss: answer.item(), slopes, metrics };
}
