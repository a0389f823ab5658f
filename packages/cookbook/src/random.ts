/** Seeded randomness: everything is a pure function of a seed, so that resuming needs no saved state. */

/** Numbers in [0, 1) from a 32-bit seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

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
