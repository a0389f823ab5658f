/** Conversion between float32 and bfloat16, which is the upper half of a float32. */

/** Rounds to the nearest bfloat16, ties to even. A NaN stays a NaN. */
export function writeBfloat16(target: Uint16Array, source: Float32Array): void {
  const bits = new Uint32Array(source.buffer, source.byteOffset, source.length);
  for (let i = 0; i < bits.length; i++) {
    const value = bits[i]!;
    const isNotANumber = (value & 0x7fffffff) > 0x7f800000;
    target[i] = isNotANumber ? (value >>> 16) | 0x40 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16;
  }
}

export function readBfloat16(source: Uint16Array): Float32Array {
  const bits = Uint32Array.from(source, (half) => half << 16);
  return new Float32Array(bits.buffer);
}

/** The nearest bfloat16 values, as float32. */
export function roundToBfloat16(values: ArrayLike<number>): Float32Array {
  const halves = new Uint16Array(values.length);
  writeBfloat16(halves, Float32Array.from(values));
  return readBfloat16(halves);
}
