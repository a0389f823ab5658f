/**
 * `Datum`: one training example, an input and the tensors that its loss needs. Turns plain number lists into tensors by
 * the key's own rule and refuses everything that could be meant in two ways.
 */
import { InvalidInputError } from "../errors.ts";
import { given } from "../given.ts";
import { describe, isPlainObject } from "./fields.ts";
import { ModelInput, type ModelInputLike } from "./model-input.ts";
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

/** A datum as a plain object. */
export interface DatumParts<Keys extends string = string> {
  /** Token ids, or a {@link ModelInput}. */
  readonly modelInput: ModelInputLike;
  readonly lossFnInputs?: Readonly<Record<Keys, TensorLike>>;
}

/** What is taken wherever a datum is. */
export type DatumLike<Keys extends string = string> = Datum<Keys> | DatumParts<Keys>;

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
  constructor(parts: DatumParts<Keys>) {
    const unknown = Object.keys(parts).find((key) => key !== "modelInput" && key !== "lossFnInputs");
    if (unknown !== undefined) {
      throw new InvalidInputError(unknown, "is not a part of a datum", { hint: "Parts: modelInput, lossFnInputs." });
    }
    const modelInput = ModelInput.from(parts.modelInput);
    const inputs: unknown = parts.lossFnInputs ?? {};
    if (!isPlainObject(inputs)) {
      throw new InvalidInputError("lossFnInputs", `must be an object of tensors, not ${describe(inputs)}`);
    }
    this.modelInput = modelInput;
    this.lossFnInputs = Object.freeze(
      Object.fromEntries(Object.entries(inputs).map(([key, value]) => [key, toTensor(key, value)])),
    ) as Record<Keys, TensorData>;
  }
}

/**
 * A batch as it is, or with its plain objects made into data.
 *
 * @throws {@link InvalidInputError} naming `data[i]` and what is wrong with it.
 */
export function toData<Keys extends string>(data: readonly DatumLike<Keys>[]): readonly Datum<Keys>[] {
  if (!Array.isArray(data)) throw new InvalidInputError("data", `must be an array of data, not ${describe(data)}`);
  if (data.every((item) => item instanceof Datum)) return data as readonly Datum<Keys>[];
  return data.map((item: unknown, i) => {
    if (item instanceof Datum) return item as Datum<Keys>;
    if (!isPlainObject(item)) {
      throw new InvalidInputError(`data[${i}]`, `must be a Datum or a plain object, not ${describe(item)}`, {
        hint: "Pass { modelInput: tokenIds, lossFnInputs: { target_tokens, … } }.",
      });
    }
    try {
      return new Datum(item as unknown as DatumParts<Keys>);
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      throw new InvalidInputError(`data[${i}].${error.field}`, error.problem, {
        ...given({ hint: error.hint }),
        cause: error,
      });
    }
  });
}

/** A datum over memory of its own. */
export function copyDatum<Keys extends string>({ modelInput, lossFnInputs }: Datum<Keys>): Datum<Keys> {
  const tensors = Object.entries<TensorData>(lossFnInputs).map(([key, tensor]) => [key, tensor.copy()]);
  return new Datum({ modelInput: modelInput.copy(), lossFnInputs: Object.fromEntries(tensors) });
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
