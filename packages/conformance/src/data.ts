/**
 * Training data that is valid for every model: token ids between 3 and 30 exist in every vocabulary. All data is derived from seeds, so two
 * runs of the kit send the same bytes.
 */

import { Datum, type ForwardBackwardOutput, ModelInput, type TrainingClient } from "@tinklet/sdk";
import { encodeForwardBackwardRequest } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { fail } from "./checks.ts";

/** `length` token ids, derived from `seed`. */
export function tokensOf(seed: number, length: number): number[] {
  let state = (seed * 0x9e3779b9 + 12345) >>> 0;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 3 + ((state >>> 16) % 28);
  });
}

/** Tensors of a datum besides its targets; a single value is repeated for every position. */
export interface DatumParts {
  readonly weights?: number | readonly number[];
  readonly advantages?: number | readonly number[];
  readonly logprobs?: number | readonly number[];
  readonly clip_low_threshold?: number | readonly number[];
  readonly clip_high_threshold?: number | readonly number[];
}

/** A next-token prediction example. By default the weights are 1, for `cross_entropy`. */
export function datumOf(tokens: readonly number[], parts: DatumParts = { weights: 1 }): Datum {
  const targets = tokens.slice(1);
  const filled = Object.entries(parts).map(([key, value]) => [
    key,
    typeof value === "number" ? targets.map(() => value) : [...(value as readonly number[])],
  ]);
  return new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: targets, ...(Object.fromEntries(filled) as Record<string, number[]>) },
  });
}

/** The example that most cases train on and score. */
export const lesson: readonly number[] = tokensOf(1, 17);
/** A second, different example. */
export const otherLesson: readonly number[] = tokensOf(2, 13);

/** The log-probs of one output. */
export function logprobsOf(output: ForwardBackwardOutput, index = 0): number[] {
  const tensor = output.lossFnOutputs[index]?.["logprobs"];
  if (tensor === undefined) {
    fail(`loss_fn_outputs[${index}]`, "a tensor named logprobs", Object.keys(output.lossFnOutputs[index] ?? {}));
  }
  return Array.from(tensor.values, Number);
}

export const sum = (values: Iterable<number>): number => {
  let total = 0;
  for (const value of values) total += value;
  return total;
};

/** The log-prob of each token after the first, from a forward pass. */
export async function score(trainer: TrainingClient, tokens: readonly number[] = lesson): Promise<number[]> {
  return logprobsOf(await trainer.forward([datumOf(tokens)], "cross_entropy"));
}

/** A training request encoded as protobuf. */
export function passBytes(
  modelId: string,
  seqId: number,
  data: readonly Datum[] = [datumOf(lesson)],
  options: { forwardOnly?: boolean; lossFn?: string; lossFnConfig?: Record<string, number> } = {},
): Uint8Array {
  const { forwardOnly = false, lossFn = "cross_entropy", lossFnConfig } = options;
  return encodeForwardBackwardRequest({
    modelId,
    seqId,
    forwardOnly,
    forwardBackwardInput: { data, lossFn, ...omitUndefined({ lossFnConfig }) },
  });
}
