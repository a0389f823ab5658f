/**
 * `Datum`: one training example, an input and the tensors that its loss needs. Turns plain number lists into tensors by
 * the key's own rule and refuses everything that could be meant in two ways.
 */
import { InvalidInputError } from "../errors.ts";
import { describe, isPlainObject } from "./fields.ts";
import { ModelInput } from "./model-input.ts";
import { TensorData, type TensorDtype, type TensorLike } from "./tensor-data.ts";

/** The tensors that a loss reads, by the service's names (`target_tokens`, `weights`, …). */
export type LossFnInputs = Readonly<Record<string, TensorData>>;
/** The tensors that a loss returns. */
export type LossFnOutput = Readonly<Record<string, TensorData>>;

/** What a plain list of numbers means, by key. */
const keyDtypes: Readonly<Record<string, TensorDtype>> = {
  target_tokens: "int64",
  weights: "float32",
  advantages: "float32",
  logprobs: "float32",
  clip_low_threshold: "float32",
  clip_high_threshold: "float32",
};

/**
 * One training example.
 *
 * @example
 * ```ts
 * const tokens = [11, 12, 13, 14]; // two of the prompt, two of the answer
 * const datum = new Datum({
 *   modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
 *   lossFnInputs: { target_tokens: tokens.slice(1), weights: [0, 1, 1] },
 * });
 * ```
 */
export class Datum<Keys extends string = string> {
  /** What the model reads: the prompt and all but the last token of the answer. */
  readonly modelInput: ModelInput;
  /** The compiler knows which tensors are there, so that a loss whose inputs are missing does not compile. */
  readonly lossFnInputs: Readonly<Record<Keys, TensorData>>;

  /** @throws {@link InvalidInputError} naming `lossFnInputs.<key>` when a value cannot become a tensor. */
  constructor(parts: {
    readonly modelInput: ModelInput;
    readonly lossFnInputs?: Readonly<Record<Keys, TensorLike>>;
  }) {
    if (!(parts.modelInput instanceof ModelInput)) {
      throw new InvalidInputError("modelInput", `must be a ModelInput, not ${describe(parts.modelInput)}`, {
        hint: "Use ModelInput.fromInts(tokenIds).",
      });
    }
    const inputs: unknown = parts.lossFnInputs ?? {};
    if (!isPlainObject(inputs)) {
      throw new InvalidInputError("lossFnInputs", `must be an object of tensors, not ${describe(inputs)}`);
    }
    this.modelInput = parts.modelInput;
    this.lossFnInputs = Object.freeze(
      Object.fromEntries(Object.entries(inputs).map(([key, value]) => [key, toTensor(key, value)])),
    ) as Record<Keys, TensorData>;
  }
}

function toTensor(key: string, value: unknown): TensorData {
  const field = `lossFnInputs.${key}`;
  if (value instanceof TensorData) return value;
  if (Array.isArray(value)) {
    const dtype = Object.hasOwn(keyDtypes, key) ? keyDtypes[key] : undefined;
    if (dtype === undefined) {
      throw new InvalidInputError(field, "a plain list is only understood for the known keys", {
        hint: `Known keys: ${Object.keys(keyDtypes).join(", ")}. For others pass a typed array or a TensorData.`,
      });
    }
    return TensorData.from(value, { dtype, field });
  }
  const isTensor = ArrayBuffer.isView(value) || (typeof value === "object" && value !== null && "data" in value);
  if (!isTensor) {
    throw new InvalidInputError(field, `must be numbers or a tensor, not ${describe(value)}`, {
      hint: "Pass an array of numbers, a typed array or a TensorData.",
    });
  }
  return TensorData.from(value as TensorLike, { field });
}
