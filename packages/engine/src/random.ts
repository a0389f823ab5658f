/** Seeded random numbers, equal on every machine: one independent stream per (seed, name). */

/** 32-bit mixing of a string (FNV-1a). */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

const rotate = (x: number, by: number): number => (x << by) | (x >>> (32 - by));

/** One step of splitmix32; spreads a seed over the generator's state. */
function spread(state: number): number {
  let z = (state + 0x9e3779b9) | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return (z ^ (z >>> 15)) >>> 0;
}

/** xoshiro128**: uniform numbers in [0, 1) with 53 random bits. Accepts any integer seed; safe integers keep all their bits. */
export function createRandom(seed: number, stream = ""): () => number {
  const low = seed >>> 0;
  const high = Math.floor(seed / 4294967296) >>> 0;
  let a = spread(low);
  let b = spread(a ^ high);
  let c = spread(b ^ hash(stream));
  let d = spread(c) | 1; // never all zero
  const next = (): number => {
    const result = Math.imul(rotate(Math.imul(b, 5), 7), 9);
    const t = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    d = rotate(d, 11);
    return result >>> 0;
  };
  for (let i = 0; i < 8; i++) next();
  return () => (next() * 2097152 + (next() >>> 11)) / 9007199254740992;
}

/** A random seed, for calls without one. */
export const drawSeed = (): number => Math.floor(Math.random() * 0x7fffffff);
