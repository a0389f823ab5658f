/**
 * Random numbers and identifiers. The only place that reads the runtime's generators: the simulator replaces them by seeded ones, and a
 * lint rule bans bare calls elsewhere.
 */

/** Source of randomness. */
export interface Entropy {
  /** In [0, 1), for jitter; predictable. */
  fraction(): number;
  /** A version 4 UUID. */
  uuid(): string;
  /** Bytes that cannot be predicted. */
  bytes(length: number): Uint8Array;
}

const system: Entropy = {
  fraction: () => Math.random(),
  uuid: () => crypto.randomUUID(),
  bytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
};

let source = system;

/** The source in use. */
export const entropy: Entropy = {
  fraction: () => source.fraction(),
  uuid: () => source.uuid(),
  bytes: (length) => source.bytes(length),
};

/** Replaces the source of the whole process; returns a function that restores the runtime's. For the simulator. */
export function replaceEntropy(replacement: Entropy): () => void {
  source = replacement;
  return () => {
    source = system;
  };
}

/** Random bytes as hexadecimal digits. */
export const randomHex = (bytes: number): string =>
  Array.from(entropy.bytes(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Numbers in [0, 1) from a 32-bit seed (mulberry32): the same seed gives the same numbers. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
