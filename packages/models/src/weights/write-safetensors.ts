/** Writes safetensors files: the header, then the values of one tensor at a time. */

import { WeightsError } from "../errors.ts";
import { assertLittleEndian, countValues, storedBytes } from "./codecs.ts";
import { encodedChunks, type WrittenDtype } from "./encode.ts";
import type { NamedTensor } from "./types.ts";
import { writeFileAtomically } from "./write-file.ts";

/** A tensor to write; F16 and BF16 round to nearest, ties to even. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: Exclude<WrittenDtype, "Q8_0">;
  readonly shape: readonly number[];
  /** The values, or a function that computes them on demand, so that a merged model is never held in memory as a whole. */
  readonly data: Float32Array | (() => Float32Array | Promise<Float32Array>);
}

/**
 * Writes tensors in the given order.
 * @param metadata Arbitrary strings; transformers expects `{ format: "pt" }`.
 * @throws WeightsError for a duplicate name or a shape that does not match its data; an existing file is then unchanged.
 */
export async function writeSafetensors(
  file: string,
  tensors: Iterable<TensorToWrite>,
  metadata?: Readonly<Record<string, string>>,
): Promise<void> {
  assertLittleEndian();
  const list = [...tensors];
  const header = encodeHeader(list, metadata, file);
  await writeFileAtomically(file, async (append) => {
    await append(header);
    for (const tensor of list) await appendTensor(tensor, append, file);
  });
}

/**
 * Encodes a file in memory as a list of parts to concatenate. The values are not copied.
 * @throws WeightsError for a duplicate name or a shape that does not match its data.
 */
export function encodeSafetensors(
  tensors: readonly NamedTensor[],
  metadata?: Readonly<Record<string, string>>,
): Uint8Array[] {
  assertLittleEndian();
  const list = tensors.map((tensor) => ({ ...tensor, dtype: "F32" as const }));
  for (const { name, shape, data } of list) checkCount(name, shape, data);
  const header = encodeHeader(list, metadata);
  return [header, ...list.map(({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength))];
}

function encodeHeader(
  tensors: readonly Pick<TensorToWrite, "name" | "dtype" | "shape">[],
  metadata?: Readonly<Record<string, string>>,
  file?: string,
): Uint8Array {
  const header = new Map<string, unknown>(metadata ? [["__metadata__", metadata]] : []);
  let end = 0;
  for (const { name, dtype, shape } of tensors) {
    const count = countValues(shape);
    const refuse = (message: string) =>
      new WeightsError(`tensor ${name}: ${message}`, { tensor: name, ...(file !== undefined && { file }) });
    if (header.has(name) || name === "__metadata__") throw refuse("the name must be unique");
    if (count === undefined) throw refuse(`shape [${shape}] is not valid`);
    const begin = end;
    end += storedBytes(dtype, count) as number;
    header.set(name, { dtype, shape, data_offsets: [begin, end] });
  }
  return frameHeader(header);
}

/** Eight bytes of length and the JSON header, padded so that the data are aligned to eight bytes. */
export function frameHeader(header: ReadonlyMap<string, unknown>): Uint8Array {
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  const padded = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - 8), true);
  padded.set(json, 8);
  return padded;
}

function checkCount(name: string, shape: readonly number[], values: Float32Array, file?: string): void {
  if (values.length === countValues(shape)) return;
  const message = `tensor ${name}: shape [${shape}] does not match ${values.length} values`;
  throw new WeightsError(message, { tensor: name, ...(file !== undefined && { file }) });
}

/** Appends the values of one tensor, computing them if needed. @throws WeightsError naming the tensor. */
export async function appendTensor(
  { name, shape, dtype, data }: Omit<TensorToWrite, "dtype"> & { readonly dtype: WrittenDtype },
  append: (bytes: Uint8Array) => Promise<void>,
  file: string,
): Promise<void> {
  const values = typeof data === "function" ? await data() : data;
  checkCount(name, shape, values, file);
  try {
    for (const bytes of encodedChunks(dtype, values)) await append(bytes);
  } catch (error) {
    if (!(error instanceof WeightsError)) throw error;
    const { message, code, hint } = error;
    const withoutHint = hint === undefined ? message : message.replace(` (${hint})`, "");
    throw new WeightsError(`tensor ${name}: ${withoutHint}`, {
      code,
      tensor: name,
      file,
      ...(hint && { hint }),
      cause: error,
    });
  }
}
