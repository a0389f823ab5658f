/**
 * Chooses a token from a distribution: temperature (already applied to the probabilities), then top-k, top-p, min-p, then one random
 * number. Deterministic for a given distribution and number: ties go to the smaller id.
 */

export interface Choice {
  /** -1 or 0: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** 0: off. */
  readonly minP?: number;
}

/** Index of the largest logit; ties go to the smaller id. */
export const argmax = (values: Float32Array): number => {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
};

/** The first id at which the running sum exceeds `target`; in case of rounding, the last id with a positive weight. */
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

/** Ids per block of `walkBlocks`; a power of two. */
const blockSize = 256;

/**
 * Equal to `walk` with a target of `random` times the sum, in one pass over the weights plus one block: this runs for every token over the
 * whole vocabulary.
 */
const walkBlocks = (weights: Float32Array, random: number): number => {
  const sums = new Float64Array(Math.ceil(weights.length / blockSize));
  let total = 0;
  for (let block = 0; block < sums.length; block++) {
    const end = Math.min(weights.length, (block + 1) * blockSize);
    // Four independent sums, because each addition waits for the previous one of its sum.
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

/** Above this k, sorting everything is as fast as inserting one by one. */
const fewCandidates = 512;

/** The ids of the k largest values, descending. */
export const best = (probabilities: Float32Array, k: number): number[] => {
  if (k > fewCandidates) return ordered(probabilities, Number.NEGATIVE_INFINITY).slice(0, k);
  const ids: number[] = [];
  for (let id = 0; id < probabilities.length; id++) {
    const p = probabilities[id]!;
    if (ids.length === k && !(p > probabilities[ids[k - 1]!]!)) continue; // most ids end here; of equal values the earlier stays
    let place = Math.min(ids.length, k - 1);
    for (; place > 0 && p > probabilities[ids[place - 1]!]!; place--) ids[place] = ids[place - 1]!;
    ids[place] = id;
  }
  return ids;
};

/** Ids with a probability above `floor`, most likely first. */
const ordered = (probabilities: Float32Array, floor: number): number[] => {
  const ids: number[] = [];
  for (let id = 0; id < probabilities.length; id++) if (probabilities[id]! > floor) ids.push(id);
  return ids.sort((a, b) => probabilities[b]! - probabilities[a]! || a - b);
};

/** The ids that the filters keep, most likely first. */
const kept = (probabilities: Float32Array, { topK, topP }: Choice): number[] => {
  // Without top-k, ids below (1 − p) / vocabulary need no sorting: together they have less than 1 − p, so none is in the nucleus.
  const order =
    topK > 0 ? best(probabilities, topK) : ordered(probabilities, topP < 1 ? (1 - topP) / probabilities.length : -1);
  if (topP >= 1) return order;
  // The smallest set with at least p of the probability that top-k kept; never empty.
  const enough = topP * (topK > 0 ? sum(order.map((id) => probabilities[id]!)) : sum(probabilities));
  let held = 0;
  const end = order.findIndex((id) => {
    held += probabilities[id]!;
    return held >= enough;
  });
  return end < 0 ? order : order.slice(0, end + 1);
};

/** @param random - in [0, 1) */
export const chooseToken = (probabilities: Float32Array, choice: Choice, random: number): number => {
  const { topK, topP, minP = 0 } = choice;
  if (topK <= 0 && topP >= 1 && minP <= 0) return walkBlocks(probabilities, random);
  const all = kept(probabilities, choice);
  const least = minP * probabilities[all[0]!]!;
  const ids = minP > 0 ? all.filter((id) => probabilities[id]! >= least) : all;
  const weights = ids.map((id) => probabilities[id]!);
  return ids[walk(weights, random * sum(weights))]!;
};
