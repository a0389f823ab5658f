/**
 * Rendered examples in batches. The order of an epoch is a pure function of seed and epoch, so a run can resume at any
 * step; equal examples are never divided between training and evaluation.
 */

import { InvalidInputError } from "@tinklet/sdk";
import { checkOptions } from "@tinklet/wire/options";
import { derivedSeed, permutation } from "../random.ts";

/** Data in batches, shuffled again for each epoch. The last batch of an epoch may be smaller. */
export class BatchedDataset<T> {
  readonly #data: readonly T[];
  readonly #seed: number;
  readonly batchSize: number;
  #epoch: { readonly epoch: number; readonly order: readonly number[] } | undefined;

  /** @param options.seed - @defaultValue 0 */
  constructor(data: readonly T[], options: { readonly batchSize: number; readonly seed?: number }) {
    checkOptions("BatchedDataset", options, { batchSize: true, seed: true });
    if (!Number.isInteger(options.batchSize) || options.batchSize < 1) {
      throw new InvalidInputError("batchSize", `must be an integer above 0, got ${options.batchSize}`);
    }
    this.#data = data;
    this.#seed = options.seed ?? 0;
    this.batchSize = options.batchSize;
  }

  get size(): number {
    return this.#data.length;
  }

  get batchesPerEpoch(): number {
    return Math.ceil(this.#data.length / this.batchSize);
  }

  /** One batch. */
  batch(epoch: number, index: number): T[] {
    if (this.#epoch?.epoch !== epoch) {
      this.#epoch = { epoch, order: permutation(this.#data.length, derivedSeed(this.#seed, epoch)) };
    }
    const chosen = this.#epoch.order.slice(index * this.batchSize, (index + 1) * this.batchSize);
    return chosen.map((at) => this.#data[at] as T);
  }
}

/**
 * Sets a share of the data apart for evaluation. Items with the same key go to the same side.
 *
 * @param options.share - below 1: that part of the distinct items; from 1 on: that many.
 */
export function splitData<T>(
  data: readonly T[],
  options: { readonly share: number; readonly seed?: number; readonly key: (item: T) => string },
): { readonly train: T[]; readonly test: T[] } {
  checkOptions("splitData", options, { share: true, seed: true, key: true });
  const { share, seed = 0, key } = options;
  const keys = [...new Set(data.map(key))];
  const wanted = share >= 1 ? Math.floor(share) : share > 0 ? Math.max(1, Math.round(keys.length * share)) : 0;
  if (wanted > 0 && wanted >= keys.length) {
    throw new InvalidInputError(
      "share",
      `would leave nothing to train on: ${wanted} of ${keys.length} distinct examples`,
    );
  }
  const apart = new Set(
    permutation(keys.length, derivedSeed(seed, 0x5e7))
      .slice(0, wanted)
      .map((at) => keys[at]),
  );
  const train: T[] = [];
  const test: T[] = [];
  for (const item of data) (apart.has(key(item)) ? test : train).push(item);
  return { train, test };
}
