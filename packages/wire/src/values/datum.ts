/**
 * `Datum`: one training example, with an input and the tensors of its loss. Converts lists of numbers to tensors with the element type of
 * the key; ambiguous values are errors.
 */

import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";
import { ModelInput, type ModelInputLike } from "./model-input.ts";
import { checkSpans, checkTiling, type ProvenanceSpans } from "./provenance.ts";
import { TensorData, type TensorDtype, type TensorLike } from "./tensor-data.ts";

/** The tensors that a loss reads, by the service's names (`target_tokens`, `weights`, …). */
export type LossFnInputs = Readonly<Record<string, TensorData>>;
/** The tensors that a loss returns. */
export type LossFnOutput = Readonly<Record<string, TensorData>>;

/** The element type of a list of numbers, by key. */
const keyDtypes: Readonly<Record<string, TensorDtype>> = {
  target_tokens: "int64",
  weights: "float32",
  advantages: "float32",
  logprobs: "float32",
  clip_low_threshold: "float32",
  clip_high_threshold: "float32",
  sequence_ratio_mask: "float32",
};

/** A datum as a plain object. */
export interface DatumParts<Keys extends string = string> {
  /** Token ids, or a {@link ModelInput}. */
  readonly modelInput: ModelInputLike;
  readonly lossFnInputs?: Readonly<Record<Keys, TensorLike>>;
  /** Where the input's tokens come from; see {@link Datum.withProvenance}. */
  readonly modelInputSpans?: ProvenanceSpans | undefined;
  /** Where the targets come from. */
  readonly lossFnInputSpans?: ProvenanceSpans | undefined;
}
const partNames = ["modelInput", "lossFnInputs", "modelInputSpans", "lossFnInputSpans"];

/** Every value that is accepted as a datum. */
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
  /** The model's input: the prompt and all but the last token of the answer. */
  readonly modelInput: ModelInput;
  /** Typed by key, so that the compiler reports a loss whose inputs are missing. */
  readonly lossFnInputs: Readonly<Record<Keys, TensorData>>;
  /** Runs that tile the input's tokens; see {@link withProvenance}. */
  readonly modelInputSpans: ProvenanceSpans | undefined;
  /** Runs that tile `target_tokens`. */
  readonly lossFnInputSpans: ProvenanceSpans | undefined;

  /** @throws {@link InvalidInputError} naming `lossFnInputs.<key>` when a value cannot become a tensor. */
  constructor(parts: DatumParts<Keys>) {
    const unknown = Object.keys(parts).find((key) => !partNames.includes(key));
    if (unknown !== undefined) {
      throw new InvalidInputError(unknown, "is not a field of a datum", { hint: `Fields: ${partNames.join(", ")}.` });
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
    this.modelInputSpans = parts.modelInputSpans;
    this.lossFnInputSpans = parts.lossFnInputSpans;
    if (this.modelInputSpans === undefined && this.lossFnInputSpans === undefined) return; // the two are given together or not at all
    checkSpans("modelInputSpans", this.modelInputSpans);
    checkSpans("lossFnInputSpans", this.lossFnInputSpans);
  }

  /**
   * This datum with the provenance of its tokens, for servers of 0.26 and newer.
   *
   * @param spans.modelInput - runs that tile the input's tokens
   * @param spans.lossFnInputs - runs that tile `target_tokens`
   *
   * @example
   * ```ts
   * const { sequences } = await sampler.sample([1, 2, 3], { samplingParams: { maxTokens: 4 } });
   * const { tokens, sequenceId = "" } = sequences[0]!;
   * const whole = [1, 2, 3, ...tokens];
   * const datum = new Datum({ modelInput: whole.slice(0, -1), lossFnInputs: { target_tokens: whole.slice(1) } });
   * const traced = datum.withProvenance({
   *   modelInput: [
   *     { type: "prompt", sequenceId, length: 3 },
   *     { type: "sampled", sequenceId, length: tokens.length - 1 },
   *   ],
   *   lossFnInputs: [
   *     { type: "prompt", sequenceId, offset: 1, length: 2 },
   *     { type: "sampled", sequenceId, length: tokens.length },
   *   ],
   * });
   * ```
   *
   * @throws {@link InvalidInputError} when the runs do not cover a field exactly.
   */
  withProvenance(spans: { readonly modelInput: ProvenanceSpans; readonly lossFnInputs: ProvenanceSpans }): Datum<Keys> {
    const { modelInput, lossFnInputs } = this;
    const traced = new Datum<Keys>({
      modelInput,
      lossFnInputs,
      modelInputSpans: spans.modelInput,
      lossFnInputSpans: spans.lossFnInputs,
    });
    checkTiling("modelInput", spans.modelInput, modelInput.length);
    const { shape } = (lossFnInputs as LossFnInputs)["target_tokens"] ?? {};
    if (shape?.length === 1) checkTiling("lossFnInputs", spans.lossFnInputs, shape[0]!);
    return traced;
  }
}

/**
 * A batch; its plain objects are converted to `Datum`.
 *
 * @throws {@link InvalidInputError} naming `data[i]` and the problem.
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
        ...omitUndefined({ hint: error.hint }),
        cause: error,
      });
    }
  });
}

/** A copy of a datum that does not share memory. */
export function copyDatum<Keys extends string>({ modelInput, lossFnInputs, ...spans }: Datum<Keys>): Datum<Keys> {
  const tensors = Object.entries<TensorData>(lossFnInputs).map(([key, tensor]) => [key, tensor.copy()]);
  return new Datum({ modelInput: modelInput.copy(), lossFnInputs: Object.fromEntries(tensors), ...spans });
}

function toTensor(key: string, value: unknown): TensorData {
  const field = `lossFnInputs.${key}`;
  if (value instanceof TensorData) return value;
  if (Array.isArray(value)) {
    const dtype = Object.hasOwn(keyDtypes, key) ? keyDtypes[key] : undefined;
    if (dtype === undefined) {
      throw new InvalidInputError(field, "a list of numbers is accepted for known keys only", {
        hint: `Known keys: ${Object.keys(keyDtypes).join(", ")}. For other keys use a typed array or a TensorData.`,
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
