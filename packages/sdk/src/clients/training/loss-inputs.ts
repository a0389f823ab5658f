/**
 * Required inputs of each loss: as types, so that an incomplete batch does not compile, and as a check that names the field before
 * anything is sent.
 */

import {
  checkLossFn,
  Datum,
  type ForwardBackwardOutput,
  type LossFnConfig,
  type LossFnType,
  type TensorData,
} from "@tinklet/wire/client";
import { InvalidInputError } from "@tinklet/wire/errors";
import { describe } from "@tinklet/wire/options";

/** Required tensors by loss. `weights` is optional for each. */
export interface RequiredLossInputs {
  cross_entropy: "target_tokens";
  importance_sampling: "target_tokens" | "logprobs" | "advantages";
  ppo: "target_tokens" | "logprobs" | "advantages";
  cispo: "target_tokens" | "logprobs" | "advantages";
  dro: "target_tokens" | "logprobs" | "advantages";
  gspo: "target_tokens" | "logprobs" | "advantages" | "sequence_ratio_mask";
  /** Its other inputs are not documented; the server reports missing ones. */
  stable_reinforce: "target_tokens";
  custom: "target_tokens";
}

/** The arrays that each loss returns per datum, with the service's names. */
export interface LossOutputs {
  cross_entropy: "logprobs" | "elementwise_loss";
  importance_sampling: "logprobs";
  ppo: "logprobs";
  cispo: "logprobs";
  dro: "logprobs";
  gspo: "logprobs";
  stable_reinforce: "logprobs";
  custom: "logprobs";
}

/** The result of a pass with a known loss: its `outputs` have the arrays of that loss. */
export type PassOutput<L extends LossFnType> = ForwardBackwardOutput & {
  readonly outputs: readonly Readonly<Record<LossOutputs[L], Float32Array>>[];
};

const policyInputs = ["target_tokens", "logprobs", "advantages"] as const;
const required: { readonly [L in LossFnType]: readonly RequiredLossInputs[L][] } = {
  cross_entropy: ["target_tokens"],
  importance_sampling: policyInputs,
  ppo: policyInputs,
  cispo: policyInputs,
  dro: policyInputs,
  gspo: [...policyInputs, "sequence_ratio_mask"],
  stable_reinforce: ["target_tokens"],
  custom: ["target_tokens"],
};
/** Losses whose settings may be strings. */
const takesTexts = new Set(["gspo", "stable_reinforce", "custom"]);

/** Names the missing tensors in compiler errors. */
export interface MissingLossInputs<Keys extends string> {
  readonly "lossFnInputs lack": Keys;
}

/** `unknown` if a datum has the required inputs or its keys are not known at compile time; else {@link MissingLossInputs}. */
export type HasInputsFor<L extends LossFnType, Keys extends string> = string extends Keys
  ? unknown
  : // Any of them: not known before the program runs, or misspelt, and then the name is what the compiler shall complain of.
    [LossFnType] extends [L]
    ? unknown
    : [Exclude<RequiredLossInputs[L], Keys>] extends [never]
      ? unknown
      : MissingLossInputs<Exclude<RequiredLossInputs[L], Keys>>;

/**
 * Checks a batch before anything is sent.
 *
 * @throws {@link InvalidInputError} naming `data[i].lossFnInputs.<key>`.
 */
export function checkBatch(
  data: readonly Datum[],
  lossFn: string,
  options: { readonly lossFnConfig?: LossFnConfig | undefined; readonly allowUnknownLoss?: boolean | undefined } = {},
): void {
  checkLossFn(lossFn, { allowUnknown: options.allowUnknownLoss === true });
  if (!Array.isArray(data)) throw new InvalidInputError("data", `must be an array of Datum, got ${describe(data)}`);
  if (data.length === 0) throw new InvalidInputError("data", "must hold at least one datum");
  for (const [key, value] of Object.entries(options.lossFnConfig ?? {})) {
    const text = typeof value === "string" && (takesTexts.has(lossFn) || !Object.hasOwn(required, lossFn));
    if (!text && !Number.isFinite(value)) {
      throw new InvalidInputError(`lossFnConfig.${key}`, `must be a finite number, got ${describe(value)}`);
    }
  }
  const needed: readonly string[] = Object.hasOwn(required, lossFn) ? required[lossFn as LossFnType] : [];
  for (const [i, datum] of data.entries()) checkDatum(datum, `data[${i}]`, lossFn, needed);
}

function checkDatum(datum: unknown, at: string, lossFn: string, needed: readonly string[]): void {
  if (!(datum instanceof Datum)) throw new InvalidInputError(at, `must be a Datum, got ${describe(datum)}`);
  const inputs: Readonly<Record<string, TensorData>> = datum.lossFnInputs;
  for (const key of needed) {
    if (inputs[key] !== undefined) continue;
    throw new InvalidInputError(`${at}.lossFnInputs.${key}`, `is required by the loss ${lossFn}`, {
      hint: `${lossFn} reads ${needed.join(", ")}.`,
    });
  }
  for (const [i, chunk] of datum.modelInput.chunks.entries()) {
    if (chunk.type === "image_asset_pointer") {
      throw new InvalidInputError(
        `${at}.modelInput.chunks[${i}]`,
        "is an image pointer, which is only supported in prompts",
        {
          hint: "Use an image chunk with the image's bytes.",
        },
      );
    }
  }
  const { modelInput } = datum;
  const positions = modelInput.isText ? modelInput.tokenCount : undefined;
  for (const [key, tensor] of Object.entries(inputs)) {
    const field = `${at}.lossFnInputs.${key}`;
    const rows = tensor.shape?.[0] ?? tensor.values.length;
    const perToken = lossFn !== "custom" || key === "target_tokens"; // a custom loss declares the shapes of its other inputs
    if (positions !== undefined && perToken && rows !== positions) {
      throw new InvalidInputError(field, `must have one value per input token: ${positions}, got ${rows}`, {
        hint: "Targets are the input shifted by one: drop the last token of the input.",
      });
    }
    checkFinite(tensor, field);
  }
}

function checkFinite(tensor: TensorData, field: string): void {
  const { values } = tensor;
  if (!(values instanceof Float32Array)) return;
  // x - x is 0 for finite x and NaN otherwise: one pass without branches, and a search only if a value is not finite.
  let rest = 0;
  for (let i = 0; i < values.length; i++) rest += values[i]! - values[i]!;
  if (rest === 0) return;
  const at = values.findIndex((value) => !Number.isFinite(value));
  throw new InvalidInputError(field, `is ${values[at]} at position ${at}`, {
    hint: "It would make the gradient NaN: check for divisions by zero (groups with equal rewards) and logarithms of zero.",
  });
}
