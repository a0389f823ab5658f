/**
 * Decodes stored bytes to float32: the plain formats and GGUF's block formats, each defined by its block size (values and bytes) and one
 * loop. All products are exact in float64 (an f16 scale of 11 bits × an integer scale of ≤ 8 bits × a value of ≤ 6 bits) and are rounded
 * once when stored as float32, so the bits equal those of float32 arithmetic in GGML's order. The code assumes a little-endian host, like
 * the files; `assertLittleEndian` rejects others (s390x).
 */

import { ModelError } from "../errors.ts";
import type { StoredDtype } from "./types.ts";

/** Decoder of one stored format. */
export interface Codec {
  /** Values per block; 1 for plain floats. */
  readonly blockValues: number;
  readonly blockBytes: number;
  /** Decodes `blocks` whole blocks from the start of `bytes` to `out[at…]`. `bytes` is aligned to the word size. */
  decode(bytes: Uint8Array, blocks: number, out: Float32Array, at: number): void;
}

export function assertLittleEndian(): void {
  if (new Uint8Array(new Uint16Array([1]).buffer)[0] !== 1) {
    throw new ModelError("big_endian_host", "weight files are little-endian and this machine is big-endian");
  }
}

/** The float32 value of every f16 bit pattern: 256 KiB, computed once. */
const halfToFloat = /* @__PURE__ */ (() => {
  const table = new Float32Array(0x10000);
  for (let bits = 0; bits < 0x10000; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 0x1f;
    const fraction = bits & 0x3ff;
    if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) table[bits] = fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    else table[bits] = sign * (1024 + fraction) * 2 ** (exponent - 25);
  }
  return table;
})();

/** The f16 value at byte `at`. */
const half = (bytes: Uint8Array, at: number): number =>
  halfToFloat[(bytes[at] as number) | ((bytes[at + 1] as number) << 8)] as number;

const words16 = (bytes: Uint8Array, count: number) => new Uint16Array(bytes.buffer, bytes.byteOffset, count);

const F32: Codec = {
  blockValues: 1,
  blockBytes: 4,
  decode(bytes, blocks, out, at) {
    out.set(new Float32Array(bytes.buffer, bytes.byteOffset, blocks), at);
  },
};

const F16: Codec = {
  blockValues: 1,
  blockBytes: 2,
  decode(bytes, blocks, out, at) {
    const stored = words16(bytes, blocks);
    for (let i = 0; i < blocks; i++) out[at + i] = halfToFloat[stored[i] as number] as number;
  },
};

/** bfloat16 is the upper half of a float32. Copied as integers, so that every bit pattern is preserved. */
const BF16: Codec = {
  blockValues: 1,
  blockBytes: 2,
  decode(bytes, blocks, out, at) {
    const stored = words16(bytes, blocks);
    const bits = new Uint32Array(out.buffer, out.byteOffset + at * 4, blocks);
    for (let i = 0; i < blocks; i++) bits[i] = (stored[i] as number) << 16;
  },
};

/** [scale f16][32 × int8] */
const Q8_0: Codec = {
  blockValues: 32,
  blockBytes: 34,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 34, o += 32) {
      const d = half(bytes, p);
      for (let i = 0; i < 32; i++) out[o + i] = d * (((bytes[p + 2 + i] as number) << 24) >> 24);
    }
  },
};

/** [scale f16][16 bytes: value i in the low nibble of byte i, value i + 16 in the high one], centred on 8 */
const Q4_0: Codec = {
  blockValues: 32,
  blockBytes: 18,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 18, o += 32) {
      const d = half(bytes, p);
      for (let i = 0; i < 16; i++) {
        const q = bytes[p + 2 + i] as number;
        out[o + i] = d * ((q & 15) - 8);
        out[o + i + 16] = d * ((q >> 4) - 8);
      }
    }
  },
};

/** [scale f16][minimum f16][16 bytes of nibbles] */
const Q4_1: Codec = {
  blockValues: 32,
  blockBytes: 20,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 20, o += 32) {
      const d = half(bytes, p);
      const m = half(bytes, p + 2);
      for (let i = 0; i < 16; i++) {
        const q = bytes[p + 4 + i] as number;
        out[o + i] = d * (q & 15) + m;
        out[o + i + 16] = d * (q >> 4) + m;
      }
    }
  },
};

/** The 32 fifth bits of a Q5 block: bit i belongs to value i. */
const fifthBits = (bytes: Uint8Array, p: number): number =>
  (bytes[p] as number) |
  ((bytes[p + 1] as number) << 8) |
  ((bytes[p + 2] as number) << 16) |
  ((bytes[p + 3] as number) << 24);

/** [scale f16][32 fifth bits][16 bytes of nibbles], centred on 16 */
const Q5_0: Codec = {
  blockValues: 32,
  blockBytes: 22,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 22, o += 32) {
      const d = half(bytes, p);
      const high = fifthBits(bytes, p + 2);
      for (let i = 0; i < 16; i++) {
        const q = bytes[p + 6 + i] as number;
        out[o + i] = d * (((q & 15) | (((high >>> i) & 1) << 4)) - 16);
        out[o + i + 16] = d * (((q >> 4) | (((high >>> (i + 16)) & 1) << 4)) - 16);
      }
    }
  },
};

/** [scale f16][minimum f16][32 fifth bits][16 bytes of nibbles] */
const Q5_1: Codec = {
  blockValues: 32,
  blockBytes: 24,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 24, o += 32) {
      const d = half(bytes, p);
      const m = half(bytes, p + 2);
      const high = fifthBits(bytes, p + 4);
      for (let i = 0; i < 16; i++) {
        const q = bytes[p + 8 + i] as number;
        out[o + i] = d * ((q & 15) | (((high >>> i) & 1) << 4)) + m;
        out[o + i + 16] = d * ((q >> 4) | (((high >>> (i + 16)) & 1) << 4)) + m;
      }
    }
  },
};

/** Scale `j` (0–7) of the 12 packed bytes at `p`: eight 6-bit scales and eight 6-bit minima; the bits of the last four of each are split. */
const packedScale = (bytes: Uint8Array, p: number, j: number): number =>
  j < 4
    ? (bytes[p + j] as number) & 63
    : ((bytes[p + j + 4] as number) & 15) | (((bytes[p + j - 4] as number) >> 6) << 4);

const packedMinimum = (bytes: Uint8Array, p: number, j: number): number =>
  j < 4
    ? (bytes[p + j + 4] as number) & 63
    : ((bytes[p + j + 4] as number) >> 4) | (((bytes[p + j] as number) >> 6) << 4);

/** [scale f16][minimum f16][12 bytes: 8 scales and minima][128 bytes of nibbles, 64 values per 32 bytes] */
const Q4_K: Codec = {
  blockValues: 256,
  blockBytes: 144,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 144, o += 256) {
      const d = half(bytes, p);
      const m = half(bytes, p + 2);
      for (let j = 0; j < 8; j++) {
        const scale = d * packedScale(bytes, p + 4, j);
        const minimum = m * packedMinimum(bytes, p + 4, j);
        const q = p + 16 + (j >> 1) * 32;
        const shift = (j & 1) * 4;
        for (let i = 0; i < 32; i++) out[o + j * 32 + i] = scale * (((bytes[q + i] as number) >> shift) & 15) - minimum;
      }
    }
  },
};

/** As Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to value i of group j. */
const Q5_K: Codec = {
  blockValues: 256,
  blockBytes: 176,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 176, o += 256) {
      const d = half(bytes, p);
      const m = half(bytes, p + 2);
      for (let j = 0; j < 8; j++) {
        const scale = d * packedScale(bytes, p + 4, j);
        const minimum = m * packedMinimum(bytes, p + 4, j);
        const q = p + 48 + (j >> 1) * 32;
        const shift = (j & 1) * 4;
        for (let i = 0; i < 32; i++) {
          const low = ((bytes[q + i] as number) >> shift) & 15;
          const high = (((bytes[p + 16 + i] as number) >> j) & 1) << 4;
          out[o + j * 32 + i] = scale * (low | high) - minimum;
        }
      }
    }
  },
};

/** [128 bytes of low nibbles][64 bytes of high pairs][16 × int8 scales][scale f16], in two halves of 128 values, centred on 32 */
const Q6_K: Codec = {
  blockValues: 256,
  blockBytes: 210,
  decode(bytes, blocks, out, at) {
    for (let b = 0, p = 0, o = at; b < blocks; b++, p += 210, o += 256) {
      const d = half(bytes, p + 208);
      for (let j = 0; j < 8; j++) {
        // group j: 32 values, two scales; half h = j >> 2, quarter r = j & 3 of that half
        const h = j >> 2;
        const r = j & 3;
        const low = p + h * 64 + (r & 1) * 32;
        const high = p + 128 + h * 32;
        for (let i = 0; i < 32; i++) {
          const scale = ((bytes[p + 192 + h * 8 + r * 2 + (i >> 4)] as number) << 24) >> 24;
          const q =
            (((bytes[low + i] as number) >> ((r >> 1) * 4)) & 15) |
            ((((bytes[high + i] as number) >> (r * 2)) & 3) << 4);
          out[o + j * 32 + i] = d * scale * (q - 32);
        }
      }
    }
  },
};

/** All supported formats. */
export const codecs: Readonly<Record<StoredDtype, Codec>> = {
  F32,
  F16,
  BF16,
  Q8_0,
  Q4_0,
  Q4_1,
  Q5_0,
  Q5_1,
  Q4_K,
  Q5_K,
  Q6_K,
};

/** Bytes of `count` values; undefined if they do not fill whole blocks or exceed the safe integer range. */
export function storedBytes(dtype: StoredDtype, count: number): number | undefined {
  const { blockValues, blockBytes } = codecs[dtype];
  const bytes = (count / blockValues) * blockBytes;
  return count % blockValues === 0 && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Product of the dimensions; undefined if one is not an integer ≥ 0 or the product exceeds the safe integer range. */
export function countValues(shape: readonly unknown[]): number | undefined {
  let count = 1;
  for (const size of shape) {
    if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0) return undefined;
    count *= size;
    if (!Number.isSafeInteger(count)) return undefined;
  }
  return count;
}
