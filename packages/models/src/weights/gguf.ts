/**
 * Reading GGUF's header: a magic number, key-value metadata, and a table of tensors whose data follow, each at a multiple of the
 * alignment. The header is read through a window, front to back; every count and length in it is first compared with the bytes
 * that are left in the file, so that no number in a file decides how much is allocated.
 */

import { WeightsError } from "../errors.ts";
import { codecs, countValues, storedBytes } from "./codecs.ts";
import type { StoredDtype } from "./types.ts";
import { WeightFile } from "./weight-file.ts";

/** A metadata value. 64-bit integers become numbers, and are refused where a number cannot hold them. */
export type GgufValue = string | number | boolean | readonly string[] | Float64Array;

/** One row of the tensor table, in GGUF's own name and dimension order (fastest first). */
export interface GgufTensor {
  readonly name: string;
  readonly dtype: StoredDtype;
  readonly dimensions: readonly number[];
  /** Absolute byte offset in the file. */
  readonly offset: number;
  readonly byteLength: number;
}

export interface GgufHeader {
  readonly version: number;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
}

/** What every GGUF file begins with, as a little-endian number: "GGUF". */
export const ggufMagic = 0x46554747;
/** What tensors begin at a multiple of, where `general.alignment` does not say otherwise. */
export const defaultAlignment = 32;

/** GGML's numbers for the formats that are read. */
export const dtypeOfGgml: ReadonlyMap<number, StoredDtype> = new Map([
  [0, "F32"],
  [1, "F16"],
  [2, "Q4_0"],
  [3, "Q4_1"],
  [6, "Q5_0"],
  [7, "Q5_1"],
  [8, "Q8_0"],
  [12, "Q4_K"],
  [13, "Q5_K"],
  [14, "Q6_K"],
  [30, "BF16"],
]);

/** GGUF's numbers for the types of metadata values. */
export const valueType = {
  u8: 0,
  i8: 1,
  u16: 2,
  i16: 3,
  u32: 4,
  i32: 5,
  f32: 6,
  bool: 7,
  string: 8,
  array: 9,
  u64: 10,
  i64: 11,
  f64: 12,
} as const;

/** Bytes of each scalar metadata type. */
const scalarBytes: Readonly<Record<number, number>> = {
  [valueType.u8]: 1,
  [valueType.i8]: 1,
  [valueType.u16]: 2,
  [valueType.i16]: 2,
  [valueType.u32]: 4,
  [valueType.i32]: 4,
  [valueType.f32]: 4,
  [valueType.bool]: 1,
  [valueType.u64]: 8,
  [valueType.i64]: 8,
  [valueType.f64]: 8,
};
/** Longest name of a tensor that GGML accepts is 64 bytes; keys may have 65,535. */
const longestKeyBytes = 65_535;
const mostDimensions = 4;
const windowBytes = 256 * 1024;

/** The metadata of a GGUF file alone: its tokenizer and its settings. @throws WeightsError naming the file. */
export function readGgufMetadata(path: string): ReadonlyMap<string, GgufValue> {
  const file = new WeightFile(path);
  try {
    return readGgufHeader(file).metadata;
  } finally {
    file.close();
  }
}

/** Reads and checks the header of an open file. @throws WeightsError naming the file and, where there is one, the tensor. */
export function readGgufHeader(file: WeightFile): GgufHeader {
  const cursor = new Cursor(file);
  if (file.size < 24 || cursor.u32() !== ggufMagic) throw cursor.refuse("this is not a GGUF file", "bad_header");
  const version = cursor.u32();
  if (version !== 2 && version !== 3) {
    const swapped = version === 0x02000000 || version === 0x03000000;
    throw cursor.refuse(
      swapped ? "big-endian GGUF is not supported" : `GGUF version ${version} is not supported`,
      "bad_header",
    );
  }
  // The least a tensor can take in the table is 8 + 4 + 8 + 4 + 8 bytes, the least a key-value pair 8 + 4 + 1.
  const tensorCount = cursor.count("tensors", 32);
  const pairCount = cursor.count("metadata pairs", 13);

  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < pairCount; i++) {
    const key = cursor.string("a metadata key", longestKeyBytes);
    if (metadata.has(key)) throw cursor.refuse(`metadata key ${JSON.stringify(key)} appears twice`, "bad_header");
    metadata.set(key, readValue(cursor, cursor.u32(), key));
  }

  const alignment = metadata.get("general.alignment") ?? defaultAlignment;
  if (
    typeof alignment !== "number" ||
    !Number.isInteger(Math.log2(alignment)) ||
    alignment < 8 ||
    alignment > 1 << 20
  ) {
    throw cursor.refuse(`general.alignment is ${String(alignment)}, not a power of two from 8 up`, "bad_header");
  }
  const align = (position: number) => Math.ceil(position / alignment) * alignment;

  const rows = Array.from({ length: tensorCount }, () => readTensorRow(cursor));
  const names = new Set<string>();
  const dataStart = align(cursor.position);
  let expected = 0; // tensors follow each other in the order of the table, each padded to the alignment
  const tensors = rows.map(({ name, dtype, dimensions, relativeOffset }) => {
    if (names.has(name)) throw cursor.refuse("the name appears twice", "duplicate_tensor", name);
    names.add(name);
    const count = countValues(dimensions) as number;
    const byteLength = storedBytes(dtype, count) as number;
    if (relativeOffset !== expected) {
      throw cursor.refuse(
        `its data are said to start at ${relativeOffset} instead of ${expected}`,
        "bad_offsets",
        name,
      );
    }
    const offset = dataStart + relativeOffset;
    if (offset + byteLength > file.size) {
      const message = `bytes ${offset} to ${offset + byteLength} are beyond the file's ${file.size}`;
      throw cursor.refuse(message, "truncated", name);
    }
    expected = align(relativeOffset + byteLength);
    return { name, dtype, dimensions, offset, byteLength };
  });
  // Writers may or may not pad after the last tensor.
  const last = tensors.at(-1);
  const end = last ? last.offset + last.byteLength : dataStart;
  if (last && file.size > Math.max(end, dataStart + expected)) {
    throw cursor.refuse(`${file.size - end} bytes after the last tensor belong to nothing`, "bad_offsets");
  }
  return { version, metadata, tensors };
}

function readTensorRow(cursor: Cursor) {
  const name = cursor.string("a tensor's name", longestKeyBytes);
  const rank = cursor.u32();
  if (rank < 1 || rank > mostDimensions) throw cursor.refuse(`it has ${rank} dimensions`, "bad_shape", name);
  const dimensions = Array.from({ length: rank }, () => cursor.u64());
  const type = cursor.u32();
  const relativeOffset = cursor.u64();
  const dtype = dtypeOfGgml.get(type);
  if (!dtype) {
    throw cursor.refuse(`its format (GGML type ${type}) is not supported`, "unsupported_dtype", name, {
      hint: `supported: ${Object.keys(codecs).join(", ")}`,
    });
  }
  if (rank === 1 && codecs[dtype].blockValues > 1) {
    // GGML keeps norms and biases as floats; the rows of a bias could not be put in order if several shared a block.
    throw cursor.refuse(
      `it has one dimension and is stored as ${dtype}, which is for matrices`,
      "unsupported_dtype",
      name,
      {
        hint: "convert the model again with llama.cpp, which keeps such tensors as F32",
      },
    );
  }
  const count = countValues(dimensions);
  const rowFits = (dimensions[0] as number) % codecs[dtype].blockValues === 0; // blocks never cross rows
  if (count === undefined || count === 0 || !rowFits || storedBytes(dtype, count) === undefined) {
    throw cursor.refuse(`dimensions [${dimensions}] are not possible for ${dtype}`, "bad_shape", name);
  }
  return { name, dtype, dimensions, relativeOffset };
}

function readValue(cursor: Cursor, type: number, key: string): GgufValue {
  if (type === valueType.string) return cursor.string(`the value of ${key}`);
  if (type !== valueType.array) return readScalar(cursor, type, key);
  const itemType = cursor.u32();
  if (itemType === valueType.string) {
    const count = cursor.count(`items of ${key}`, 8);
    return Array.from({ length: count }, () => cursor.string(`an item of ${key}`));
  }
  const itemBytes = scalarBytes[itemType];
  if (itemBytes === undefined) {
    throw cursor.refuse(`${key} is an array of type ${itemType}, which is not supported`, "bad_header");
  }
  const count = cursor.count(`items of ${key}`, itemBytes);
  const values = new Float64Array(count); // at most 8 times the bytes that are really in the file
  for (let i = 0; i < count; i++) values[i] = Number(readScalar(cursor, itemType, key));
  return values;
}

function readScalar(cursor: Cursor, type: number, key: string): number | boolean {
  const bytes = scalarBytes[type];
  if (bytes === undefined) throw cursor.refuse(`${key} has the unknown type ${type}`, "bad_header");
  const { view, at } = cursor.take(bytes);
  switch (type) {
    case valueType.u8:
      return view.getUint8(at);
    case valueType.i8:
      return view.getInt8(at);
    case valueType.u16:
      return view.getUint16(at, true);
    case valueType.i16:
      return view.getInt16(at, true);
    case valueType.u32:
      return view.getUint32(at, true);
    case valueType.i32:
      return view.getInt32(at, true);
    case valueType.f32:
      return shortestDecimal(view.getFloat32(at, true));
    case valueType.bool: {
      const value = view.getUint8(at);
      if (value > 1) throw cursor.refuse(`${key} is a boolean of value ${value}`, "bad_header");
      return value === 1;
    }
    case valueType.u64:
      return Number(view.getBigUint64(at, true)); // only counts and ids that fit are of use; the users of a key check it
    case valueType.i64:
      return Number(view.getBigInt64(at, true));
    default:
      return view.getFloat64(at, true);
  }
}

/** The decimal that a person meant: 1e-5, and not 0.000009999999747378752, which is what float32 makes of it. */
function shortestDecimal(value: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Reads forward through a file in windows; everything it returns was really in the file. */
class Cursor {
  readonly #file: WeightFile;
  readonly #window: Uint8Array;
  readonly #view: DataView;
  #windowStart = 0;
  #windowEnd = 0;
  position = 0;

  constructor(file: WeightFile) {
    this.#file = file;
    this.#window = new Uint8Array(Math.min(windowBytes, Math.max(file.size, 8)));
    this.#view = new DataView(this.#window.buffer);
  }

  refuse(message: string, code: string, tensor?: string, options: { hint?: string } = {}): WeightsError {
    const file = this.#file.path;
    const subject = tensor === undefined ? file : `${file}: tensor ${tensor}`;
    return new WeightsError(`${subject}: ${message}`, {
      code,
      file,
      ...(tensor !== undefined && { tensor }),
      ...options,
    });
  }

  /** Moves past `bytes` (at most 8) and says where in the window they are. */
  take(bytes: number): { view: DataView; at: number } {
    if (this.position + bytes > this.#windowEnd) this.#load(bytes);
    const at = this.position - this.#windowStart;
    this.position += bytes;
    return { view: this.#view, at };
  }

  u32(): number {
    const { view, at } = this.take(4);
    return view.getUint32(at, true);
  }

  /** Values beyond 2^53 lose precision here and are then refused by whoever uses them, since they are not safe integers. */
  u64(): number {
    const { view, at } = this.take(8);
    return Number(view.getBigUint64(at, true));
  }

  /** A count of things that take at least `leastBytes` each. */
  count(what: string, leastBytes: number): number {
    const count = this.u64();
    if (count * leastBytes > this.#file.size - this.position) {
      throw this.refuse(`it claims ${count} ${what}, more than fit in the file`, "bad_header");
    }
    return count;
  }

  string(what: string, longest = Number.POSITIVE_INFINITY): string {
    const length = this.u64();
    if (length > longest || length > this.#file.size - this.position) {
      throw this.refuse(`${what} is said to have ${length} bytes`, "bad_header");
    }
    let bytes: Uint8Array;
    if (length <= this.#windowEnd - this.position) {
      const at = this.position - this.#windowStart;
      bytes = this.#window.subarray(at, at + length);
    } else if (length <= this.#window.length) {
      this.#load(length);
      bytes = this.#window.subarray(0, length);
    } else {
      bytes = new Uint8Array(length);
      this.#file.read(bytes, this.position);
    }
    this.position += length;
    return utf8.decode(bytes);
  }

  #load(least: number): void {
    const length = Math.min(this.#window.length, this.#file.size - this.position);
    if (length < least) throw this.#file.truncated(this.position, least);
    this.#file.read(this.#window.subarray(0, length), this.position);
    this.#windowStart = this.position;
    this.#windowEnd = this.position + length;
  }
}

// Token strings of some published models are not UTF-8; they become U+FFFD there, as in every other reader.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
