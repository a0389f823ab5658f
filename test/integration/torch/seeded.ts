/** The TypeScript twin of seeded.py: the same weights and data from names alone. */

const mix = (value: number): number => {
  let x = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
};

const hash = (text: string): number => {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193);
  return value >>> 0;
};

/** `count` values in [-1, 1). */
export const uniform = (name: string, count: number): Float32Array => {
  const seed = hash(name);
  return Float32Array.from({ length: count }, (_, i) => mix(mix(i + 1) ^ seed) / 2147483648 - 1);
};

/** A model weight: norms near 1, everything else of about unit gain. */
export const weight = (name: string, shape: readonly number[]): Float32Array => {
  const values = uniform(
    name,
    shape.reduce((n, dim) => n * dim, 1),
  );
  if (name.includes("norm")) return values.map((x) => 1 + Math.fround(Math.fround(0.1) * x));
  const gain = Math.fround(Math.sqrt(3 / shape.at(-1)!));
  return values.map((x) => x * gain);
};

export const tokens = (name: string, count: number, vocab: number): Int32Array =>
  Int32Array.from(uniform(name, count), (x) => Math.floor(((x + 1) / 2) * vocab));
