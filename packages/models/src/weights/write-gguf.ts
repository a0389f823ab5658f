/**
 * Writes GGUF files: typed metadata, a table of tensors, and their aligned data. This module does not interpret keys or tensors.
 */

import { WeightsError } from "../errors.ts";
import { assertLittleEndian, codecs, countValues, storedBytes } from "./codecs.ts";
import type { WrittenDtype } from "./encode.ts";
import type { TensorToWrite } from "./encode-safetensors.ts";
import { defaultAlignment, dtypeOfGgml, ggufMagic, valueType } from "./gguf.ts";
import { writeFileAtomically } from "./write-file.ts";
import { appendTensor } from "./write-safetensors.ts";

/** A metadata value with the type that readers expect for its key. */
export type GgufField =
  | { readonly type: "u32" | "i32" | "f32"; readonly value: number }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] }
  | { readonly type: "i32s" | "f32s"; readonly value: ArrayLike<number> };

/** Metadata in the order of writing. */
export type GgufFields = ReadonlyMap<string, GgufField>;

/** A tensor with Hugging Face's dimension order and GGUF's name. */
export type GgufTensorToWrite = Omit<TensorToWrite, "dtype"> & { readonly dtype: WrittenDtype };

const formatVersion = 3;
/** Limit of tensor names in bytes: GGML's buffer has 64 bytes including the terminating zero. */
const longestNameBytes = 63;

const typeOfDtype = new Map([...dtypeOfGgml].map(([type, dtype]) => [dtype, type]));
const utf8 = new TextEncoder();
const aligned = (bytes: number) => Math.ceil(bytes / defaultAlignment) * defaultAlignment;

/**
 * Writes a file atomically, one tensor at a time.
 * @throws WeightsError naming a tensor that cannot be stored in its dtype.
 */
export async function writeGguf(
  file: string,
  fields: GgufFields,
  tensors: readonly GgufTensorToWrite[],
): Promise<void> {
  assertLittleEndian();
  const header = encodeHeader(fields, tensors, file);
  await writeFileAtomically(file, async (append) => {
    await append(header);
    for (const tensor of tensors) {
      await appendTensor(tensor, append, file);
      const bytes = bytesOf(tensor, file);
      await append(new Uint8Array(aligned(bytes) - bytes));
    }
  });
}

function bytesOf({ name, shape, dtype }: GgufTensorToWrite, file: string): number {
  const count = countValues(shape);
  const bytes = count === undefined ? undefined : storedBytes(dtype, count);
  const isWholeRows = ((shape.at(-1) ?? 0) as number) % codecs[dtype].blockValues === 0; // blocks never cross rows
  if (bytes !== undefined && bytes > 0 && isWholeRows) return bytes;
  throw new WeightsError(`tensor ${name}: shape [${shape}] is not valid for ${dtype}`, {
    code: "bad_shape",
    tensor: name,
    file,
  });
}

function encodeHeader(fields: GgufFields, tensors: readonly GgufTensorToWrite[], file: string): Uint8Array {
  const out = new Bytes();
  out.u32(ggufMagic);
  out.u32(formatVersion);
  out.u64(tensors.length);
  out.u64(fields.size);
  for (const [key, field] of fields) {
    out.string(key);
    appendField(out, field);
  }
  const names = new Set<string>();
  let offset = 0;
  for (const tensor of tensors) {
    const { name, shape, dtype } = tensor;
    if (names.has(name) || utf8.encode(name).byteLength > longestNameBytes) {
      throw new WeightsError(`tensor ${name}: the name must be unique and have at most ${longestNameBytes} bytes`, {
        tensor: name,
        file,
      });
    }
    names.add(name);
    out.string(name);
    out.u32(shape.length);
    for (const size of [...shape].reverse()) out.u64(size); // fastest dimension first
    out.u32(typeOfDtype.get(dtype) as number);
    out.u64(offset);
    offset = aligned(offset + bytesOf(tensor, file));
  }
  return out.padded(aligned(out.length));
}

function appendField(out: Bytes, field: GgufField): void {
  switch (field.type) {
    case "u32":
    case "i32":
    case "f32":
      out.u32(valueType[field.type]);
      out[field.type](field.value);
      break;
    case "bool":
      out.u32(valueType.bool);
      out.u8(field.value ? 1 : 0);
      break;
    case "string":
      out.u32(valueType.string);
      out.string(field.value);
      break;
    case "strings":
      out.u32(valueType.array);
      out.u32(valueType.string);
      out.u64(field.value.length);
      for (const text of field.value) out.string(text);
      break;
    default: {
      const item = field.type === "i32s" ? "i32" : "f32";
      out.u32(valueType.array);
      out.u32(valueType[item]);
      out.u64(field.value.length);
      for (let i = 0; i < field.value.length; i++) out[item](field.value[i] as number);
    }
  }
}

/** A little-endian buffer that grows by doubling. */
class Bytes {
  #bytes = new Uint8Array(64 * 1024);
  #view = new DataView(this.#bytes.buffer);
  length = 0;

  #take(bytes: number): number {
    const at = this.length;
    this.length += bytes;
    if (this.length > this.#bytes.byteLength) {
      const larger = new Uint8Array(Math.max(this.length, this.#bytes.byteLength * 2));
      larger.set(this.#bytes.subarray(0, at));
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }

  u8(value: number): void {
    const at = this.#take(1);
    this.#view.setUint8(at, value);
  }

  u32(value: number): void {
    const at = this.#take(4);
    this.#view.setUint32(at, value, true);
  }

  i32(value: number): void {
    const at = this.#take(4);
    this.#view.setInt32(at, value, true);
  }

  f32(value: number): void {
    const at = this.#take(4);
    this.#view.setFloat32(at, value, true);
  }

  u64(value: number): void {
    const at = this.#take(8);
    this.#view.setBigUint64(at, BigInt(value), true);
  }

  string(text: string): void {
    const bytes = utf8.encode(text);
    this.u64(bytes.byteLength);
    const at = this.#take(bytes.byteLength);
    this.#bytes.set(bytes, at);
  }

  /** The written bytes, padded with zeros to `length`. */
  padded(length: number): Uint8Array {
    this.#take(length - this.length);
    return this.#bytes.subarray(0, length);
  }
}
