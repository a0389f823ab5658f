/**
 * Encodes float32 to stored bytes (plain floats and GGUF's Q8_0), the inverse of `codecs.ts`. Encodes in chunks through one small buffer,
 * so that a large tensor is not held twice.
 */

import { WeightsError } from "../errors.ts";
import { codecs } from "./codecs.ts";
import type { StoredDtype } from "./types.ts";

/** The formats that can be written. F16 and BF16 round to nearest, ties to even. */
export type WrittenDtype = Extract<StoredDtype, "F32" | "F16" | "BF16" | "Q8_0">;

/** Values per chunk; a multiple of every block size. */
const chunkValues = 512 * 1024;

/** Encodes `count` values from `values[at…]` to the start of `out`, which is aligned to 4 bytes. */
type Encode = (values: Float32Array, at: number, count: number, out: Uint8Array) => void;

const float32: Encode = (values, at, count, out) => {
  new Float32Array(out.buffer, out.byteOffset, count).set(values.subarray(at, at + count));
};

const bfloat16: Encode = (values, at, count, out) => {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const words = new Uint16Array(out.buffer, out.byteOffset, count);
  for (let i = 0; i < count; i++) {
    const value = bits[at + i] as number;
    // Adding half of the dropped part (less one when the kept part is even) rounds to nearest, ties to even. A NaN could
    // carry into an infinity that way, so its quiet bit is set instead.
    const quiet = (value & 0x7fffffff) > 0x7f800000;
    words[i] = quiet ? (value >>> 16) | 0x40 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16;
  }
};

/** float32 bits of 65520, the smallest magnitude that rounds to infinity in f16. */
const overflowBits = 0x477ff000;
/** float32 bits of 2^-14, the smallest normal f16. */
const leastNormalBits = 0x38800000;

/** The f16 bits nearest to a float32, given as its bits and its value. */
function halfBits(bits: number, value: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= overflowBits) return sign | 0x7c00;
  // Subnormal f16 values are multiples of 2^-24; adding and subtracting 2^52 rounds to the nearest integer, ties to even.
  if (magnitude < leastNormalBits) return sign | (Math.abs(value) * 2 ** 24 + 2 ** 52 - 2 ** 52);
  return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

const float16: Encode = (values, at, count, out) => {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const words = new Uint16Array(out.buffer, out.byteOffset, count);
  for (let i = 0; i < count; i++) {
    const half = halfBits(bits[at + i] as number, values[at + i] as number);
    if ((half & 0x7c00) === 0x7c00) {
      throw new WeightsError(`it contains ${values[at + i]}, which is out of the range of f16 (±65504)`, {
        code: "out_of_range",
        hint: "write it as bf16 or f32",
      });
    }
    words[i] = half;
  }
};

const oneValue = new Float32Array(1);
const oneBits = new Uint32Array(oneValue.buffer);

/**
 * [scale f16][32 × int8], with scale = largest magnitude / 127. Uses GGML's order of float32 operations for identical bits: values are
 * divided by the float32 scale before it is rounded to f16, and ties round away from zero.
 */
const quantised8: Encode = (values, at, count, out) => {
  for (let from = at, p = 0; from < at + count; from += 32, p += 34) {
    let largest = 0;
    for (let i = 0; i < 32; i++) largest = Math.max(largest, Math.abs(values[from + i] as number));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    oneValue[0] = scale;
    const half = halfBits(oneBits[0] as number, scale);
    out[p] = half & 255;
    out[p + 1] = half >>> 8;
    for (let i = 0; i < 32; i++) {
      const quotient = Math.fround((values[from + i] as number) * inverse);
      const rounded = Math.trunc(quotient + (quotient < 0 ? -0.5 : 0.5));
      out[p + 2 + i] = rounded & 255;
    }
  }
};

const encoders: Readonly<Record<WrittenDtype, Encode>> = {
  F32: float32,
  F16: float16,
  BF16: bfloat16,
  Q8_0: quantised8,
};

/**
 * Yields the stored bytes of `values` in order. A chunk is valid until the next one is requested.
 * @throws WeightsError if a value is out of the format's range.
 */
export function* encodedChunks(dtype: WrittenDtype, values: Float32Array): Generator<Uint8Array> {
  if (dtype === "F32") {
    yield new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    return;
  }
  const { blockValues, blockBytes } = codecs[dtype];
  const most = Math.min(chunkValues, values.length);
  const buffer = new Uint8Array((most / blockValues) * blockBytes);
  for (let at = 0; at < values.length; at += most) {
    const count = Math.min(most, values.length - at);
    const bytes = buffer.subarray(0, (count / blockValues) * blockBytes);
    encoders[dtype](values, at, count, bytes);
    yield bytes;
  }
}
