/**
 * Chooses a token from a distribution: temperature (already in the probabilities), then top-k, then top-p, then min-p, then one random number.
 * Deterministic given the distribution and the number: ties go to the smaller id.
 */

export interface Choice {
  /** -1 or 0: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** 0: off. */
  readonly minP?: number;
}

/** The largest logit; the smaller id wins a tie. */
export const argmax = (values: Float32Array): number => {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
};

/** The first id at which the running sum exceeds `target`; rounding cannot lead past the last id that has any weight. */
const walk = (weights: ArrayLike<number>, target: number): number => {
  let running = 0;
  let last = 0;
  for (let i = 0; i < weights.length; i++) {
    if (weights[i] === 0) continue;
    running += weights[i]!;
    last = i;
    if (running > target) return i;
  }
  return last;
};

const sum = (values: ArrayLike<number>): number => {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
};

/** Ids per block of `walkBlocks`: a power of two. */
const blockSize = 256;

/** As `walk` with a target of `random` times the sum, in one pass over the weights and a part of it: a vocabulary is long, and this runs per token. */
const walkBlocks = (weights: Float32Array, random: number): number => {
  const sums = new Float64Array(Math.ceil(weights.length / blockSize));
  let total = 0;
  for (let block = 0; block < sums.length; block++) {
    const end = Math.min(weights.length, (block + 1) * blockSize);
    // Four sums at a time, because each addition waits for the one before.
    let [a, b, c, d] = [0, 0, 0, 0];
    let i = block * blockSize;
    for (; i + 4 <= end; i += 4) {
      a += weights[i]!;
      b += weights[i + 1]!;
      c += weights[i + 2]!;
      d += weights[i + 3]!;
    }
    for (; i < end; i++) a += weights[i]!;
    sums[block] = a + b + (c + d);
    total += sums[block]!;
  }
  const target = random * total;
  const block = walk(sums, target);
  let before = 0;
  for (let i = 0; i < block; i++) before += sums[i]!;
  return block * blockSize + walk(weights.subarray(block * blockSize, (block + 1) * blockSize), target - before);
};

/** Beyond so many, sorting everything is no slower than inserting one by one. */
const fewCandidates = 512;

/** The ids of the k largest values, in falling order. */
export const best = (probabilities: Float32Array, k: number): number[] => {
  if (k > fewCandidates) return ordered(probabilities, Number.NEGATIVE_INFINITY).slice(0, k);
  const ids: number[] = [];
  for (let id = 0; id < probabilities.length; id++) {
    const p = probabilities[id]!;
    if (ids.length === k && !(p > probabilities[ids[k - 1]!]!)) continue; // most ids end here; of equals the earlier stays
    let place = Math.min(ids.length, k - 1);
    for (; place > 0 && p > probabilities[ids[place - 1]!]!; place--) ids[place] = ids[place - 1]!;
    ids[place] = id;
  }
  return ids;
};

/** Ids of more than `floor`, in falling probability. */
const ordered = (probabilities: Float32Array, floor: number): number[] => {
  const ids: number[] = [];
  for (let id = 0; id < probabilities.length; id++) if (probabilities[id]! > floor) ids.push(id);
  return ids.sort((a, b) => probabilities[b]! - probabilities[a]! || a - b);
};

/** Ids in falling probability, as many as the filters keep. */
const kept = (probabilities: Float32Array, { topK, topP }: Choice): number[] => {
  // Without top-k, ids that cannot be in the nucleus need no sorting: all below (1 − p) / vocabulary together are less than 1 − p.
  const order =
    topK > 0 ? best(probabilities, topK) : ordered(probabilities, topP < 1 ? (1 - topP) / probabilities.length : -1);
  if (topP >= 1) return order;
  // The smallest set whose share of what top-k left reaches p; never empty.
  const enough = topP * (topK > 0 ? sum(order.map((id) => probabilities[id]!)) : sum(probabilities));
  let held = 0;
  const end = order.findIndex((id) => {
    held += probabilities[id]!;
    return held >= enough;
  });
  return end < 0 ? order : order.slice(0, end + 1);
};

/** @param random a number in [0, 1). */
export const pick = (probabilities: Float32Array, choice: Choice, random: number): number => {
  const { topK, topP, minP = 0 } = choice;
  if (topK <= 0 && topP >= 1 && minP <= 0) return walkBlocks(probabilities, random);
  const all = kept(probabilities, choice);
  const least = minP * probabilities[all[0]!]!;
  const ids = minP > 0 ? all.filter((id) => probabilities[id]! >= least) : all;
  const weights = ids.map((id) => probabilities[id]!);
  return ids[walk(weights, random * sum(weights))]!;
};
