/**
 * What each loss needs: as types, so that a batch without it does not compile, and as a check, so that JavaScript fails
 * before anything is sent, with the field's name.
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

/** The tensors that a loss cannot do without, by loss. `weights` may be added to each. */
export interface RequiredLossInputs {
  cross_entropy: "target_tokens";
  importance_sampling: "target_tokens" | "logprobs" | "advantages";
  ppo: "target_tokens" | "logprobs" | "advantages";
  cispo: "target_tokens" | "logprobs" | "advantages";
  dro: "target_tokens" | "logprobs" | "advantages";
  gspo: "target_tokens" | "logprobs" | "advantages" | "sequence_ratio_mask";
  /** What else it reads is not documented; the server says what it lacks. */
  stable_reinforce: "target_tokens";
  custom: "target_tokens";
}

/** The arrays that each loss returns for a datum, by the service's names. */
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

/** The result of a pass whose loss is known: its `outputs` have what that loss returns. */
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
/** Losses whose settings may be texts. */
const takesTexts = new Set(["gspo", "stable_reinforce", "custom"]);

/** Names, in the compiler's message, the tensors that a batch lacks. */
export interface MissingLossInputs<Keys extends string> {
  readonly "lossFnInputs lack": Keys;
}

/** Nothing to add when a datum has what the loss needs, or when the compiler cannot know. */
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
  if (!Array.isArray(data)) throw new InvalidInputError("data", `must be an array of Datum, not ${describe(data)}`);
  if (data.length === 0) throw new InvalidInputError("data", "must hold at least one datum");
  for (const [key, value] of Object.entries(options.lossFnConfig ?? {})) {
    const text = typeof value === "string" && (takesTexts.has(lossFn) || !Object.hasOwn(required, lossFn));
    if (!text && !Number.isFinite(value)) {
      throw new InvalidInputError(`lossFnConfig.${key}`, `must be a finite number, not ${describe(value)}`);
    }
  }
  const needed: readonly string[] = Object.hasOwn(required, lossFn) ? required[lossFn as LossFnType] : [];
  for (const [i, datum] of data.entries()) checkDatum(datum, `data[${i}]`, lossFn, needed);
}

function checkDatum(datum: unknown, at: string, lossFn: string, needed: readonly string[]): void {
  if (!(datum instanceof Datum)) throw new InvalidInputError(at, `must be a Datum, not ${describe(datum)}`);
  const inputs: Readonly<Record<string, TensorData>> = datum.lossFnInputs;
  for (const key of needed) {
    if (inputs[key] !== undefined) continue;
    throw new InvalidInputError(`${at}.lossFnInputs.${key}`, `is required by the loss ${lossFn}`, {
      hint: `${lossFn} reads ${needed.join(", ")}.`,
    });
  }
  for (const [i, chunk] of datum.modelInput.chunks.entries()) {
    if (chunk.type === "image_asset_pointer") {
      throw new InvalidInputError(`${at}.modelInput.chunks[${i}]`, "points to an image, which only prompts may", {
        hint: "Put the image's bytes into an image chunk.",
      });
    }
  }
  const { modelInput } = datum;
  const positions = modelInput.isText ? modelInput.tokenCount : undefined;
  for (const [key, tensor] of Object.entries(inputs)) {
    const field = `${at}.lossFnInputs.${key}`;
    const rows = tensor.shape?.[0] ?? tensor.values.length;
    const perToken = lossFn !== "custom" || key === "target_tokens"; // a custom loss declares the shapes of the others
    if (positions !== undefined && perToken && rows !== positions) {
      throw new InvalidInputError(field, `has ${rows} values for an input of ${positions} tokens`, {
        hint: "One value per input token: targets are the input shifted by one, so drop the last input token.",
      });
    }
    checkFinite(tensor, field);
  }
}

function checkFinite(tensor: TensorData, field: string): void {
  const { values } = tensor;
  if (!(values instanceof Float32Array)) return;
  // x - x is 0 for every finite x and NaN for the others: one pass without a branch, and a search only when it is needed.
  let rest = 0;
  for (let i = 0; i < values.length; i++) rest += values[i]! - values[i]!;
  if (rest === 0) return;
  const at = values.findIndex((value) => !Number.isFinite(value));
  throw new InvalidInputError(field, `is ${values[at]} at position ${at}`, {
    hint: "It would make the gradient NaN: look at divisions by zero (a group without spread?) and logs of zero.",
  });
}
