/**
 * Reads the header of a GGUF file: a magic number, key-value metadata, and a table of tensors whose data follow, each aligned. The header
 * is read sequentially through a window. Every count and length is checked against the remaining bytes of the file before anything is
 * allocated, so a small file cannot cause a large allocation.
 */

import { WeightsError } from "../errors.ts";
import { codecs, countValues, storedBytes } from "./codecs.ts";
import type { StoredDtype } from "./types.ts";
import { WeightFile } from "./weight-file.ts";

/** A metadata value. 64-bit integers become numbers; code that uses a key rejects values that are not safe integers. */
export type GgufValue = string | number | boolean | readonly string[] | Float64Array;

/** One row of the tensor table, with GGUF's name and dimension order (fastest first). */
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

/** Magic number at the start of a GGUF file: "GGUF" as a little-endian integer. */
export const ggufMagic = 0x46554747;
/** Alignment of tensor data in bytes if `general.alignment` is absent. */
export const defaultAlignment = 32;

/** The supported dtypes by GGML's type numbers. */
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
/** GGUF's limit for keys. The limit is also used for tensor names, which GGML limits to 64 bytes. */
const longestKeyBytes = 65_535;
const mostDimensions = 4;
const windowBytes = 256 * 1024;

/** Reads only the metadata of a GGUF file. @throws WeightsError naming the file. */
export function readGgufMetadata(path: string): ReadonlyMap<string, GgufValue> {
  const file = new WeightFile(path);
  try {
    return readGgufHeader(file).metadata;
  } finally {
    file.close();
  }
}

/** Reads and validates the header of an open file. @throws WeightsError naming the file and, if applicable, the tensor. */
export function readGgufHeader(file: WeightFile): GgufHeader {
  const cursor = new Cursor(file);
  if (file.size < 24 || cursor.u32() !== ggufMagic) throw cursor.refuse("it is not a GGUF file", "bad_header");
  const version = cursor.u32();
  if (version !== 2 && version !== 3) {
    const swapped = version === 0x02000000 || version === 0x03000000;
    throw cursor.refuse(
      swapped ? "big-endian GGUF is not supported" : `GGUF version ${version} is not supported`,
      "bad_header",
    );
  }
  // A row of the tensor table has at least 8 + 4 + 8 + 4 + 8 bytes, a key-value pair at least 8 + 4 + 1.
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
    throw cursor.refuse(
      `general.alignment must be a power of two of at least 8, got ${String(alignment)}`,
      "bad_header",
    );
  }
  const align = (position: number) => Math.ceil(position / alignment) * alignment;

  const rows = Array.from({ length: tensorCount }, () => readTensorRow(cursor));
  const names = new Set<string>();
  const dataStart = align(cursor.position);
  let expected = 0; // tensors are stored in table order, each padded to the alignment
  const tensors = rows.map(({ name, dtype, dimensions, relativeOffset }) => {
    if (names.has(name)) throw cursor.refuse("the name appears twice", "duplicate_tensor", name);
    names.add(name);
    const count = countValues(dimensions) as number;
    const byteLength = storedBytes(dtype, count) as number;
    if (relativeOffset !== expected) {
      throw cursor.refuse(`its data must start at offset ${expected}, got ${relativeOffset}`, "bad_offsets", name);
    }
    const offset = dataStart + relativeOffset;
    if (offset + byteLength > file.size) {
      const message = `bytes ${offset} to ${offset + byteLength} are beyond the end of the file at ${file.size}`;
      throw cursor.refuse(message, "truncated", name);
    }
    expected = align(relativeOffset + byteLength);
    return { name, dtype, dimensions, offset, byteLength };
  });
  // Padding after the last tensor is optional.
  const last = tensors.at(-1);
  const end = last ? last.offset + last.byteLength : dataStart;
  if (last && file.size > Math.max(end, dataStart + expected)) {
    throw cursor.refuse(`${file.size - end} unexpected bytes after the last tensor`, "bad_offsets");
  }
  return { version, metadata, tensors };
}

function readTensorRow(cursor: Cursor) {
  const name = cursor.string("a tensor's name", longestKeyBytes);
  const rank = cursor.u32();
  if (rank < 1 || rank > mostDimensions)
    throw cursor.refuse(`it must have 1 to ${mostDimensions} dimensions, got ${rank}`, "bad_shape", name);
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
    // GGML stores norms and biases as floats. Rows of a bias could not be reordered if several shared a block.
    throw cursor.refuse(
      `it has one dimension, but ${dtype} is supported only for matrices`,
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
    throw cursor.refuse(`dimensions [${dimensions}] are not valid for ${dtype}`, "bad_shape", name);
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
  const values = new Float64Array(count); // at most 8 times the bytes in the file
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
      if (value > 1) throw cursor.refuse(`${key} must be 0 or 1 as a boolean, got ${value}`, "bad_header");
      return value === 1;
    }
    case valueType.u64:
      return Number(view.getBigUint64(at, true)); // code that uses a key checks for safe integers
    case valueType.i64:
      return Number(view.getBigInt64(at, true));
    default:
      return view.getFloat64(at, true);
  }
}

/** The shortest decimal that rounds to the float32: 1e-5 instead of 0.000009999999747378752. */
function shortestDecimal(value: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}

/** Reads a file sequentially through a window. */
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

  /** Advances by `bytes` (at most 8) and returns their position in the window. */
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

  /** Values above 2^53 lose precision; callers reject them because they are not safe integers. */
  u64(): number {
    const { view, at } = this.take(8);
    return Number(view.getBigUint64(at, true));
  }

  /** Reads a count of items of at least `leastBytes` each, and checks that they fit in the file. */
  count(label: string, leastBytes: number): number {
    const count = this.u64();
    if (count * leastBytes > this.#file.size - this.position) {
      throw this.refuse(`${count} ${label} do not fit in the file`, "bad_header");
    }
    return count;
  }

  string(label: string, longest = Number.POSITIVE_INFINITY): string {
    const length = this.u64();
    if (length > longest || length > this.#file.size - this.position) {
      throw this.refuse(
        `${label} must have at most ${Math.min(longest, this.#file.size - this.position)} bytes, got ${length}`,
        "bad_header",
      );
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

// Tokens of some published models are not valid UTF-8; invalid bytes become U+FFFD, as in other GGUF readers.
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
