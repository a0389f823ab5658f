/**
 * Writing safetensors. The file appears under its name only when it is complete and on the disk: a crash leaves the old file, or
 * none, and never half of one.
 */

import { randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { WeightsError } from "../errors.ts";
import { assertLittleEndian, countValues } from "./codecs.ts";
import type { NamedTensor } from "./types.ts";

/** One tensor to be written; BF16 is rounded to nearest, ties to even. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: "F32" | "BF16";
  readonly shape: readonly number[];
  /** The values, or how to compute them when their turn comes, so that a merged model need not exist in memory as a whole. */
  readonly data: Float32Array | (() => Float32Array | Promise<Float32Array>);
}

/** Values converted to bfloat16 at a time. */
const chunkValues = 512 * 1024;

/**
 * Writes tensors in the order given.
 * @param metadata Free strings; loaders of transformers expect `{ format: "pt" }`.
 * @throws WeightsError for a repeated name or a shape that does not fit its data; then the file is as it was.
 */
export async function writeSafetensors(
  file: string,
  tensors: Iterable<TensorToWrite>,
  metadata?: Readonly<Record<string, string>>,
): Promise<void> {
  assertLittleEndian();
  const list = [...tensors];
  const header = encodeHeader(list, metadata, file);
  const temporary = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString("hex")}.tmp`);
  let handle: FileHandle | undefined;
  try {
    handle = await open(temporary, "wx");
    await writeAll(handle, header);
    for (const tensor of list) {
      const { dtype } = tensor;
      const data = await valuesOf(tensor, file);
      if (dtype === "F32") await writeAll(handle, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
      else for (const bytes of bfloat16Chunks(data)) await writeAll(handle, bytes);
    }
    await handle.sync();
    await handle.close();
    handle = undefined;
    await rename(temporary, file);
    await syncFolder(dirname(file));
  } catch (error) {
    await handle?.close();
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * The same in memory: the parts of a file, to be written one after the other. The values are not copied.
 * @throws WeightsError for a repeated name or a shape that does not fit its data.
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

/** Eight bytes of length and the JSON, padded so that the data start at a multiple of eight. */
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
    if (header.has(name) || name === "__metadata__") throw refuse("the name is already taken");
    if (count === undefined) throw refuse(`shape [${shape}] is not possible`);
    const begin = end;
    end += count * (dtype === "F32" ? 4 : 2);
    header.set(name, { dtype, shape, data_offsets: [begin, end] });
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(header)));
  const padded = new Uint8Array(8 + Math.ceil(json.length / 8) * 8).fill(0x20);
  new DataView(padded.buffer).setBigUint64(0, BigInt(padded.length - 8), true);
  padded.set(json, 8);
  return padded;
}

function checkCount(name: string, shape: readonly number[], values: Float32Array, file?: string): void {
  if (values.length === countValues(shape)) return;
  const message = `tensor ${name}: shape [${shape}] does not fit ${values.length} values`;
  throw new WeightsError(message, { tensor: name, ...(file !== undefined && { file }) });
}

async function valuesOf({ name, shape, data }: TensorToWrite, file: string): Promise<Float32Array> {
  const values = typeof data === "function" ? await data() : data;
  checkCount(name, shape, values, file);
  return values;
}

async function writeAll(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const length = Math.min(bytes.byteLength - done, 64 * 1024 * 1024);
    done += (await handle.write(bytes, done, length)).bytesWritten;
  }
}

function* bfloat16Chunks(data: Float32Array): Generator<Uint8Array> {
  const bits = new Uint32Array(data.buffer, data.byteOffset, data.length);
  const words = new Uint16Array(Math.min(chunkValues, data.length));
  for (let start = 0; start < data.length; start += words.length) {
    const count = Math.min(words.length, data.length - start);
    for (let i = 0; i < count; i++) {
      const value = bits[start + i] as number;
      // Adding half of the dropped part (less one when the kept part is even) rounds to nearest, ties to even. A NaN could
      // carry into an infinity that way, so its quiet bit is set instead.
      const quiet = (value & 0x7fffffff) > 0x7f800000;
      words[i] = quiet ? (value >>> 16) | 0x40 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16;
    }
    yield new Uint8Array(words.buffer, 0, count * 2);
  }
}

/** So that the rename itself survives a power cut. Folders cannot be opened on Windows, where it is not needed. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => undefined);
  await handle?.sync().catch(() => undefined);
  await handle?.close();
}
