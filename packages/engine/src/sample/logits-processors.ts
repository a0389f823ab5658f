/**
 * Changes to a distribution that a request asks for: a bias per token, penalties for tokens that the sample contains, and the mask of its
 * format.
 */
import { InputError } from "../errors.ts";
import type { SamplingParams } from "../types.ts";
import type { Distribution } from "./prefix-cache.ts";

export interface Shape {
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  readonly bias: readonly (readonly [token: number, bias: number])[];
}

/** The changes that a request asks for; undefined if none. @throws InputError naming the parameter */
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
 * The changed distribution, in new arrays.
 *
 * @param counts - occurrences of each token in the sample
 * @param coldness - 1 / temperature
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

/** The distribution over these tokens alone, in their order. */
export function narrowed(
  { logits, probabilities }: Pick<Distribution, "logits" | "probabilities">,
  ids: Int32Array,
  coldness: number,
): Pick<Distribution, "logits" | "probabilities"> {
  const own = new Float32Array(ids.length);
  const shares = new Float32Array(ids.length);
  let sum = 0;
  for (let i = 0; i < ids.length; i++) {
    own[i] = logits[ids[i]!]!;
    shares[i] = probabilities[ids[i]!]!;
    sum += shares[i]!;
  }
  // The remaining probability may be too small for float32; then it is computed from the logits.
  if (!(sum > leastSum)) return shaped({ logits: own }, plain, { counts: new Map(), coldness });
  for (let i = 0; i < shares.length; i++) shares[i]! /= sum;
  return { logits: own, probabilities: shares };
}

export const plain: Shape = { presencePenalty: 0, frequencyPenalty: 0, bias: [] };
const leastSum = 1e-30;
