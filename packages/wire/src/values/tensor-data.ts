/**
 * `TensorData`: the tensors of a datum, dense or sparse (CSR), as `float32` or `int64`. Values are in little-endian typed arrays, so that
 * encoding is a copy of bytes; int64 beyond 2^53 is exact.
 */

import { describe } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";
import { omitUndefined } from "../omit-undefined.ts";

/** The element types of the service. */
export type TensorDtype = "int64" | "float32";

/** Nested lists of numbers; must be rectangular. `null` is read as NaN if the element type is float32. */
export type NestedNumbers = readonly (number | bigint | boolean | null | NestedNumbers)[];

/** A tensor of another library: values, a shape and the name of an element type. */
export interface ForeignTensor {
  readonly data: ArrayLike<number> | ArrayLike<bigint>;
  readonly shape?: readonly number[];
  readonly dims?: readonly number[];
  readonly dtype?: string;
  readonly type?: string;
}

type FloatArray = Float32Array | Float64Array;
type IntArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint8ClampedArray
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** Every value that can be converted to a tensor. */
export type TensorLike = TensorData | FloatArray | IntArray | ForeignTensor | NestedNumbers | number | bigint;

interface TensorParts {
  readonly dtype: TensorDtype;
  readonly values: Float32Array | BigInt64Array;
  readonly shape?: readonly number[] | undefined;
  readonly sparseCrowIndices?: BigInt64Array | undefined;
  readonly sparseColIndices?: BigInt64Array | undefined;
}

const maxInt64 = 2n ** 63n - 1n;

/**
 * A tensor. An array that has the right element type is not copied. Client methods encode their tensors before they return, so the
 * caller may write to the array again after that.
 *
 * @example
 * ```ts
 * TensorData.from(Float32Array.of(0, 1, 1));                    // float32, shape [3]
 * TensorData.from([[1, 2], [3, 4]], { dtype: "int64" });        // int64, shape [2, 2]
 * ```
 */
export class TensorData {
  /** The element type on the wire. */
  readonly dtype: TensorDtype;
  /** The values in row-major order; for a sparse tensor only the stored ones. Do not write into it. */
  readonly values: Float32Array | BigInt64Array;
  /** The (dense) shape; absent means one-dimensional. */
  readonly shape: readonly number[] | undefined;
  /** CSR: the start of each row in `values`; `rows + 1` entries. */
  readonly sparseCrowIndices: BigInt64Array | undefined;
  /** CSR: the column of each value. */
  readonly sparseColIndices: BigInt64Array | undefined;

  private constructor(parts: TensorParts) {
    this.dtype = parts.dtype;
    this.values = parts.values;
    this.shape = parts.shape;
    this.sparseCrowIndices = parts.sparseCrowIndices;
    this.sparseColIndices = parts.sparseColIndices;
  }

  /**
   * Makes a tensor from a typed array (floats become float32, integers int64), from a tensor of another library, or from numbers, which
   * need a `dtype`.
   *
   * @throws {@link InvalidInputError} naming `field` when a value is not a number, rows differ in length, or the shape does not match.
   */
  static from(
    value: TensorLike,
    options: { readonly dtype?: TensorDtype; readonly shape?: readonly number[]; readonly field?: string } = {},
  ): TensorData {
    const field = options.field ?? "tensor";
    if (value instanceof TensorData) return value;
    const dtype = options.dtype;
    if (dtype !== undefined && dtype !== "int64" && dtype !== "float32") {
      throw new InvalidInputError(`${field}.dtype`, `must be "int64" or "float32", not ${describe(dtype)}`);
    }
    if (ArrayBuffer.isView(value)) return fromTypedArray(value, dtype, options.shape, field);
    if (Array.isArray(value) || typeof value === "number" || typeof value === "bigint") {
      if (dtype === undefined) {
        throw new InvalidInputError(field, "a list of numbers needs a dtype: int64 or float32", {
          hint: 'Pass { dtype: "int64" } or { dtype: "float32" }, or a typed array.',
        });
      }
      return fromNumbers(value as NestedNumbers | number | bigint, dtype, options.shape, field);
    }
    if (typeof value === "object" && value !== null && "data" in value) {
      return fromForeign(value as ForeignTensor, dtype, options.shape, field);
    }
    throw new InvalidInputError(field, `must be numbers or a tensor, not ${describe(value)}`);
  }

  /** Makes a sparse CSR tensor; `shape` is the dense `[rows, cols]`. */
  static fromSparse(
    parts: {
      readonly values: TensorLike;
      readonly crowIndices: TensorLike;
      readonly colIndices: TensorLike;
      readonly shape: readonly number[];
      readonly dtype?: TensorDtype;
    },
    field = "tensor",
  ): TensorData {
    const values = TensorData.from(parts.values, {
      field: `${field}.values`,
      ...omitUndefined({ dtype: parts.dtype }),
    });
    const index = (value: TensorLike, name: string) =>
      TensorData.from(value, { dtype: "int64", field: `${field}.${name}` }).values as BigInt64Array;
    return TensorData.ofParts(
      {
        dtype: values.dtype,
        values: values.values,
        shape: [...parts.shape],
        sparseCrowIndices: index(parts.crowIndices, "sparseCrowIndices"),
        sparseColIndices: index(parts.colIndices, "sparseColIndices"),
      },
      field,
    );
  }

  /** Makes a tensor from arrays of the right types; checks that they are consistent. */
  static ofParts(parts: TensorParts, field = "tensor"): TensorData {
    const { shape, sparseCrowIndices, sparseColIndices, values } = parts;
    if (shape !== undefined) checkShape(shape, field);
    if (sparseCrowIndices !== undefined || sparseColIndices !== undefined) checkSparse(parts, field);
    else if (shape !== undefined && product(shape) !== values.length) {
      throw new InvalidInputError(
        `${field}.shape`,
        `[${shape.join(", ")}] has ${product(shape)} elements, but there are ${values.length} values`,
      );
    }
    return new TensorData(parts);
  }

  /** Whether the tensor is sparse (CSR). */
  get isSparse(): boolean {
    return this.sparseCrowIndices !== undefined;
  }

  /** The values as a flat list; int64 values beyond 2^53 are `bigint`. */
  get data(): (number | bigint)[] {
    return flatNumbers(this.values);
  }

  /** The dense values as nested lists; a scalar as its number. */
  toList(): unknown {
    const dense = this.toDense();
    const nest = (shape: readonly number[], flat: (number | bigint)[]): unknown => {
      const [size, ...rest] = shape;
      if (size === undefined) return flat[0];
      if (rest.length === 0) return flat;
      const stride = product(rest);
      return Array.from({ length: size }, (_, i) => nest(rest, flat.slice(i * stride, (i + 1) * stride)));
    };
    return nest(dense.shape ?? [dense.values.length], dense.data);
  }

  /** A copy that does not share memory. */
  copy(): TensorData {
    const { dtype, values, shape, sparseCrowIndices, sparseColIndices } = this;
    return new TensorData({
      dtype,
      values: values.slice(),
      shape,
      sparseCrowIndices: sparseCrowIndices?.slice(),
      sparseColIndices: sparseColIndices?.slice(),
    });
  }

  /** The same tensor in dense form. */
  toDense(): TensorData {
    const { sparseCrowIndices: crow, sparseColIndices: col, shape } = this;
    if (crow === undefined || col === undefined || shape === undefined) return this;
    const [rows, cols] = shape as [number, number];
    const dense = this.dtype === "float32" ? new Float32Array(rows * cols) : new BigInt64Array(rows * cols);
    for (let row = 0; row < rows; row++) {
      for (let i = Number(crow[row]); i < Number(crow[row + 1]); i++) {
        (dense as Float32Array)[row * cols + Number(col[i])] = this.values[i] as number;
      }
    }
    return new TensorData({ dtype: this.dtype, values: dense, shape });
  }

  /** CSR form of a matrix if that is smaller (Python's rule: `rows + 1 + 2·nonzeros < rows·cols`), else this tensor. */
  toSparse(): TensorData {
    if (this.isSparse || this.shape?.length !== 2) return this;
    const [rows, cols] = this.shape as [number, number];
    const stored: number[] = [];
    const crow = new BigInt64Array(rows + 1);
    for (let row = 0; row < rows; row++) {
      for (let i = row * cols; i < (row + 1) * cols; i++) if (Number(this.values[i]) !== 0) stored.push(i);
      crow[row + 1] = BigInt(stored.length);
    }
    if (rows + 1 + 2 * stored.length >= rows * cols) return this;
    const values = this.dtype === "float32" ? new Float32Array(stored.length) : new BigInt64Array(stored.length);
    stored.forEach((at, i) => {
      (values as Float32Array)[i] = this.values[at] as number;
    });
    return new TensorData({
      dtype: this.dtype,
      values,
      shape: this.shape,
      sparseCrowIndices: crow,
      sparseColIndices: BigInt64Array.from(stored, (at) => BigInt(at % cols)),
    });
  }

  /** Estimated size in a request, in bytes, by the official client's formula. */
  get byteLength(): number {
    const indices = (this.sparseCrowIndices?.length ?? 0) + (this.sparseColIndices?.length ?? 0);
    return this.values.byteLength + 8 * indices;
  }

  /** A plain object, for `JSON.stringify`. */
  toJSON(): unknown {
    return { dtype: this.dtype, shape: this.shape ?? [this.values.length], data: this.toDense().data };
  }
}

function checkShape(shape: readonly number[], field: string): void {
  for (const [i, size] of shape.entries()) {
    if (!Number.isSafeInteger(size) || size < 0) {
      throw new InvalidInputError(`${field}.shape[${i}]`, `must be a non-negative integer, not ${describe(size)}`);
    }
  }
}

function checkSparse({ values, shape, sparseCrowIndices: crow, sparseColIndices: col }: TensorParts, field: string) {
  const fail = (name: string, problem: string): never => {
    throw new InvalidInputError(`${field}.${name}`, problem);
  };
  if (crow === undefined || col === undefined) {
    return fail(crow === undefined ? "sparseCrowIndices" : "sparseColIndices", "CSR needs both row and column indices");
  }
  if (shape?.length !== 2) return fail("shape", "a sparse tensor needs its dense [rows, cols] shape");
  const [rows, cols] = shape as [number, number];
  if (crow.length !== rows + 1)
    fail("sparseCrowIndices", `must have rows + 1 = ${rows + 1} entries, not ${crow.length}`);
  if (col.length !== values.length) fail("sparseColIndices", `must have ${values.length} entries, not ${col.length}`);
  if (crow[0] !== 0n || crow[rows] !== BigInt(values.length)) {
    fail("sparseCrowIndices", `must run from 0 to ${values.length}`);
  }
  for (let i = 0; i < rows; i++) {
    if (crow[i + 1]! < crow[i]!) fail("sparseCrowIndices", `decreases at row ${i}`);
  }
  const limit = BigInt(cols);
  for (const [i, column] of col.entries()) {
    if (column < 0n || column >= limit) fail(`sparseColIndices[${i}]`, `${column} is outside the ${cols} columns`);
  }
}

const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Typed values as numbers; int64 values beyond 2^53 are `bigint`. */
export function flatNumbers(values: Float32Array | BigInt64Array): (number | bigint)[] {
  if (values instanceof Float32Array) return Array.from(values);
  return Array.from(values, (value) => {
    const small = Number(value);
    return Number.isSafeInteger(small) ? small : value;
  });
}

const shapeOrLength = (shape: readonly number[] | undefined, length: number) => (shape ? [...shape] : [length]);

function fromTypedArray(
  value: ArrayBufferView,
  dtype: TensorDtype | undefined,
  shape: readonly number[] | undefined,
  field: string,
): TensorData {
  const values = widen(value, field);
  const own: TensorDtype = values instanceof Float32Array ? "float32" : "int64";
  if (dtype !== undefined && dtype !== own) {
    if (own === "float32") {
      throw new InvalidInputError(field, `contains floats, but the dtype is ${dtype}`, {
        hint: "Round the values into an Int32Array or a BigInt64Array first.",
      });
    }
    return TensorData.ofParts(
      { dtype, values: Float32Array.from(values as BigInt64Array, Number), shape: shapeOrLength(shape, values.length) },
      field,
    );
  }
  return TensorData.ofParts({ dtype: own, values, shape: shapeOrLength(shape, values.length) }, field);
}

/** Converts a numeric typed array to float32 or int64, without a copy if it is one already. */
function widen(value: ArrayBufferView, field: string): Float32Array | BigInt64Array {
  if (value instanceof Float32Array || value instanceof BigInt64Array) return value;
  if (value instanceof Float64Array || value.constructor.name === "Float16Array") {
    return Float32Array.from(value as Float64Array);
  }
  if (value instanceof BigUint64Array) {
    for (const [i, item] of value.entries()) {
      if (item > maxInt64) throw new InvalidInputError(`${field}[${i}]`, `${item} does not fit into int64`);
    }
    return new BigInt64Array(value.buffer, value.byteOffset, value.length);
  }
  if (value instanceof DataView) throw new InvalidInputError(field, "must be a numeric typed array, not a DataView");
  return int64FromSafeIntegers(value as Int32Array);
}

/** Converts integers of at most 53 bits to int64, as two 32-bit words each: ten times faster than `BigInt()` per element. */
export function int64FromSafeIntegers(values: ArrayLike<number>): BigInt64Array {
  const out = new BigInt64Array(values.length);
  const words = new Int32Array(out.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    words[2 * i] = value | 0;
    words[2 * i + 1] = Math.floor(value / 4294967296);
  }
  return out;
}

const floatNames = new Set(["float32", "float", "f32", "float64", "double", "f64"]);
const intNames = new Set([
  "int8",
  "int16",
  "int32",
  "int64",
  "int",
  "uint8",
  "uint16",
  "uint32",
  "uint64",
  "i32",
  "i64",
]);

function fromForeign(
  tensor: ForeignTensor,
  dtype: TensorDtype | undefined,
  shape: readonly number[] | undefined,
  field: string,
): TensorData {
  const name = (tensor.dtype ?? tensor.type)?.toLowerCase();
  const dims = shape ?? tensor.shape ?? tensor.dims;
  const { data } = tensor;
  if (name === "float16" || name === "f16" || name === "bfloat16" || name === "bf16") {
    const values = data instanceof Uint16Array ? widenHalf(data, name.startsWith("b")) : data;
    return TensorData.from(values as Float32Array, { field, ...(dims ? { shape: dims } : {}) });
  }
  if (name !== undefined && !floatNames.has(name) && !intNames.has(name)) {
    throw new InvalidInputError(`${field}.dtype`, `${JSON.stringify(name)} is not a supported element type`, {
      hint: "Supported: float16, bfloat16, float32, float64 and the integer types.",
    });
  }
  if (!ArrayBuffer.isView(data) && !Array.isArray(data)) {
    throw new InvalidInputError(`${field}.data`, `must be an array or a typed array, not ${describe(data)}`);
  }
  const wanted = dtype ?? (name === undefined ? undefined : floatNames.has(name) ? "float32" : "int64");
  return TensorData.from(data as unknown as Float32Array, {
    field,
    ...omitUndefined({ dtype: wanted }),
    ...(dims ? { shape: dims } : {}),
  });
}

/** Converts the bits of 16-bit floats to float32. */
function widenHalf(bits: Uint16Array, bfloat: boolean): Float32Array {
  const out = new Float32Array(bits.length);
  if (bfloat) {
    const words = new Uint32Array(out.buffer);
    for (let i = 0; i < bits.length; i++) words[i] = bits[i]! << 16;
    return out;
  }
  for (let i = 0; i < bits.length; i++) {
    const [sign, exponent, fraction] = [bits[i]! >> 15, (bits[i]! >> 10) & 31, bits[i]! & 1023];
    const magnitude =
      exponent === 31
        ? fraction === 0
          ? Infinity
          : Number.NaN
        : exponent === 0
          ? fraction * 2 ** -24
          : (1 + fraction / 1024) * 2 ** (exponent - 15);
    out[i] = sign ? -magnitude : magnitude;
  }
  return out;
}

function fromNumbers(
  value: NestedNumbers | number | bigint,
  dtype: TensorDtype,
  given: readonly number[] | undefined,
  field: string,
): TensorData {
  const inferred = shapeOf(value, field);
  const flat = inferred.length === 1 ? (value as NestedNumbers) : flatten(value, inferred);
  const values = dtype === "float32" ? toFloat32(flat, field) : toInt64(flat, field);
  return TensorData.ofParts({ dtype, values, shape: given ? [...given] : inferred }, field);
}

/** The shape by the first element of each level; `flatten` checks the other elements against it. */
function shapeOf(value: unknown, field: string): number[] {
  const shape: number[] = [];
  for (let at = value; Array.isArray(at); at = at[0]) {
    shape.push(at.length);
    if (shape.length > 32) throw new InvalidInputError(field, "is nested more than 32 levels deep");
  }
  checkRectangular(value, shape, 0, field);
  return shape;
}

function checkRectangular(value: unknown, shape: readonly number[], depth: number, field: string): void {
  if (depth === shape.length) return;
  const rows = value as readonly unknown[];
  const inner = shape[depth + 1];
  if (inner === undefined) {
    // the innermost level: its elements are checked when they are converted
    return;
  }
  for (const [i, row] of rows.entries()) {
    if (!Array.isArray(row) || row.length !== inner) {
      const seen = Array.isArray(row) ? `has ${row.length} elements` : `is ${describe(row)}`;
      throw new InvalidInputError(
        `${field}[${i}]`,
        `${seen}, but row 0 has ${inner}: all rows must have the same length`,
        {
          hint: "Pad the rows, or use a sparse tensor.",
        },
      );
    }
    checkRectangular(row, shape, depth + 1, `${field}[${i}]`);
  }
}

function flatten(value: unknown, shape: readonly number[]): readonly unknown[] {
  return shape.length === 0 ? [value] : (value as readonly unknown[]).flat(shape.length - 1);
}

function elementProblem(item: unknown, i: number, field: string, wanted: string): InvalidInputError {
  if (Array.isArray(item)) {
    return new InvalidInputError(`${field}[${i}]`, "is a list among numbers: all rows must have the same depth");
  }
  return new InvalidInputError(`${field}[${i}]`, `must be ${wanted}, not ${describe(item)}`);
}

function toFloat32(items: readonly unknown[], field: string): Float32Array {
  const out = new Float32Array(items.length);
  for (let i = 0; i < items.length; i++) {
    const item = items[i];
    if (typeof item === "number") out[i] = item;
    else if (item === null) out[i] = Number.NaN;
    else if (typeof item === "boolean" || typeof item === "bigint") out[i] = Number(item);
    else throw elementProblem(item, i, field, "a number");
  }
  return out;
}

function toInt64(items: readonly unknown[], field: string): BigInt64Array {
  const out = new BigInt64Array(items.length);
  const words = new Int32Array(out.buffer);
  for (let i = 0; i < items.length; i++) {
    const item = items[i];
    if (typeof item === "number" && (item | 0) === item) {
      words[2 * i] = item; // the common case of 32 bits: the sign fills the upper word
      words[2 * i + 1] = item >> 31;
    } else if (typeof item === "number" && Number.isSafeInteger(item)) {
      words[2 * i] = item | 0;
      words[2 * i + 1] = Math.floor(item / 4294967296);
    } else if (typeof item === "bigint") {
      if (item !== BigInt.asIntN(64, item)) throw elementProblem(item, i, field, "an integer that fits into int64");
      out[i] = item;
    } else if (typeof item === "boolean") out[i] = item ? 1n : 0n;
    else throw elementProblem(item, i, field, "an integer (beyond 2^53 a bigint)");
  }
  return out;
}
