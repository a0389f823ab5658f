/** Seeded randomness: everything is a pure function of a seed, so that resuming needs no saved state. */

import { seededRandom } from "@tinklet/wire/entropy";

/** The numbers 0 to `length - 1` in a random order. */
export function permutation(length: number, seed: number): number[] {
  const random = seededRandom(seed);
  const order = Array.from({ length }, (_, index) => index);
  for (let at = length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other] as number, order[at] as number];
  }
  return order;
}

/** A seed for one part of a run, far from those of its neighbours. */
export function derivedSeed(seed: number, ...parts: readonly number[]): number {
  let mixed = seed >>> 0;
  for (const part of parts) mixed = Math.floor(seededRandom(mixed ^ Math.imul(part + 1, 0x9e3779b1))() * 2 ** 31);
  return mixed;
}
