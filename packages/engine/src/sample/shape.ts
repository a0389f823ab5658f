/** Changes of a distribution that a request asks for by token: a bias, and penalties for what its own sample has said already. */
import { InputError } from "../errors.ts";
import type { SamplingParams } from "../types.ts";
import type { Distribution } from "./prefix-cache.ts";

export interface Shape {
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly bias: readonly (readonly [token: number, bias: number])[];
}

/** What a request asks for; undefined when it asks for nothing. @throws InputError naming the parameter */
export function readShape(params: SamplingParams, vocabSize: number): Shape | undefined {
  const penalty = (name: "presencePenalty" | "frequencyPenalty"): number => {
    const value = params[name] ?? 0;
    if (!Number.isFinite(value)) throw new InputError(`params.${name}`, `${String(value)} is not a number`);
    return value;
  };
  const shape = {
    presencePenalty: penalty("presencePenalty"),
    frequencyPenalty: penalty("frequencyPenalty"),
    bias: params.logitBias ?? [],
  };
  shape.bias.forEach(([token, bias], i) => {
    if (!Number.isInteger(token) || token < 0 || token >= vocabSize) {
      throw new InputError(`params.logitBias[${i}]`, `token ${token} is not in the vocabulary of ${vocabSize}`);
    }
    if (!Number.isFinite(bias)) throw new InputError(`params.logitBias[${i}]`, `${String(bias)} is not a number`);
  });
  const { presencePenalty, frequencyPenalty, bias } = shape;
  return presencePenalty === 0 && frequencyPenalty === 0 && bias.length === 0 ? undefined : shape;
}

/**
 * The distribution as the request wants it, in arrays of its own.
 *
 * @param counts - how often the sample has each token
 * @param coldness - what logits are multiplied by
 */
export function shaped(
  { logits }: Pick<Distribution, "logits">,
  { presencePenalty, frequencyPenalty, bias }: Shape,
  { counts, coldness }: { readonly counts: ReadonlyMap<number, number>; readonly coldness: number },
): Pick<Distribution, "logits" | "probabilities"> {
  const changed = Float32Array.from(logits);
  for (const [token, value] of bias) changed[token]! += value;
  for (const [token, count] of counts) changed[token]! -= presencePenalty + frequencyPenalty * count;
  let largest = Number.NEGATIVE_INFINITY;
  for (const logit of changed) largest = Math.max(largest, logit);
  const probabilities = changed.map((logit) => Math.exp((logit - largest) * coldness));
  let sum = 0;
  for (const each of probabilities) sum += each;
  for (let i = 0; i < probabilities.length; i++) probabilities[i]! /= sum;
  return { logits: changed, probabilities };
}
