/** Encodes safetensors in memory: the header, and whole files as lists of parts. */

import { WeightsError } from "../errors.ts";
import { assertLittleEndian, countValues, storedBytes } from "./codecs.ts";
import type { WrittenDtype } from "./encode.ts";
import type { NamedTensor } from "./types.ts";

/** A tensor to write; F16 and BF16 round to nearest, ties to even. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: Exclude<WrittenDtype, "Q8_0">;
  readonly shape: readonly number[];
  /** The values, or a function that computes them on demand, so that a merged model is never held in memory as a whole. */
  readonly data: Float32Array | (() => Float32Array | Promise<Float32Array>);
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

export function encodeHeader(
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

export function checkCount(name: string, shape: readonly number[], values: Float32Array, file?: string): void {
  if (values.length === countValues(shape)) return;
  const message = `tensor ${name}: shape [${shape}] does not match ${values.length} values`;
  throw new WeightsError(message, { tensor: name, ...(file !== undefined && { file }) });
}
