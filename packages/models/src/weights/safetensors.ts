/**
 * Reads safetensors: eight bytes of header length, a JSON header, then the tensor data. The header is validated before use: lengths against
 * the file size, shapes against byte ranges, ranges against each other (no overlap, no gap, no trailing bytes), and names for duplicates.
 */

import { WeightsError } from "../errors.ts";
import { type ByteSource, bytesInMemory } from "./byte-source.ts";
import { assertLittleEndian, codecs, countValues } from "./codecs.ts";
import { fileWeights } from "./file-weights.ts";
import { parseStrictJson } from "./strict-json.ts";
import type { NamedTensor, StoredDtype, TensorInfo, WeightSource } from "./types.ts";

/** The limit of the format; real headers have a few hundred kilobytes. */
const largestHeaderBytes = 100_000_000;
/** Bytes per value of dtypes that are valid but not supported by the engine. */
const otherDtypeBytes: Readonly<Record<string, number>> = {
  F64: 8,
  I64: 8,
  U64: 8,
  I32: 4,
  U32: 4,
  I16: 2,
  U16: 2,
  I8: 1,
  U8: 1,
  BOOL: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
};

/** The validated header of one file. */
export interface SafetensorsHeader {
  readonly tensors: Map<string, TensorInfo>;
  readonly unreadable: Map<string, { dtype: string; file: string }>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Reads and validates the header of an open file.
 *
 * @param mostHeaderBytes - maximum header size; a larger header is rejected before it is read.
 * @throws WeightsError naming the file and, if applicable, the tensor.
 */
export function readSafetensorsHeader(file: ByteSource, mostHeaderBytes = largestHeaderBytes): SafetensorsHeader {
  const refuse = (message: string, code: string, tensor?: string): WeightsError =>
    new WeightsError(`${file.path}: ${tensor === undefined ? "" : `tensor ${tensor}: `}${message}`, {
      code,
      file: file.path,
      ...(tensor !== undefined && { tensor }),
    });

  if (file.size < 8) throw refuse(`${file.size} bytes are too few for a safetensors file`, "truncated");
  const prefix = new Uint8Array(8);
  file.read(prefix, 0);
  const headerBytes = Number(new DataView(prefix.buffer).getBigUint64(0, true));
  if (headerBytes > mostHeaderBytes) {
    throw refuse(`the header must have at most ${mostHeaderBytes} bytes, got ${headerBytes}`, "bad_header");
  }
  if (headerBytes > file.size - 8) throw refuse(`the header is longer than the file`, "truncated");
  const raw = new Uint8Array(headerBytes);
  file.read(raw, 8);

  let header: unknown;
  try {
    header = parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(raw));
  } catch (cause) {
    throw refuse(`the header is not valid JSON: ${(cause as Error).message}`, "bad_header");
  }
  if (!isRecord(header)) throw refuse("the header must be a JSON object", "bad_header");

  const dataStart = 8 + headerBytes;
  const dataBytes = file.size - dataStart;
  const tensors = new Map<string, TensorInfo>();
  const unreadable = new Map<string, { dtype: string; file: string }>();
  const ranges: { name: string; begin: number; end: number }[] = [];
  let metadata: Record<string, string> = {};

  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") {
      if (!isRecord(entry) || Object.values(entry).some((value) => typeof value !== "string")) {
        throw refuse("__metadata__ must map strings to strings", "bad_header");
      }
      metadata = entry as Record<string, string>;
      continue;
    }
    if (!isRecord(entry)) throw refuse("its entry must be an object", "bad_header", name);
    const { dtype, shape, data_offsets: offsets } = entry;
    const readable = typeof dtype === "string" && Object.hasOwn(codecs, dtype) && !dtype.startsWith("Q");
    const valueBytes =
      typeof dtype !== "string"
        ? undefined
        : readable
          ? codecs[dtype as StoredDtype].blockBytes
          : Object.hasOwn(otherDtypeBytes, dtype)
            ? otherDtypeBytes[dtype]
            : undefined;
    if (valueBytes === undefined)
      throw refuse(`dtype ${JSON.stringify(dtype)} is not supported`, "unsupported_dtype", name);
    const count = Array.isArray(shape) ? countValues(shape) : undefined;
    if (count === undefined) throw refuse(`shape ${JSON.stringify(shape)} is not valid`, "bad_shape", name);
    if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isOffset)) {
      throw refuse(`data_offsets must be two byte offsets, got ${JSON.stringify(offsets)}`, "bad_offsets", name);
    }
    const [begin, end] = offsets as [number, number];
    if (begin > end || end > dataBytes) {
      throw refuse(`bytes ${begin} to ${end} are not within the ${dataBytes} bytes of data`, "bad_offsets", name);
    }
    if (count * valueBytes !== end - begin) {
      const needs = count * valueBytes;
      throw refuse(`shape [${shape}] of ${dtype} needs ${needs} bytes but has ${end - begin}`, "bad_shape", name);
    }
    ranges.push({ name, begin, end });
    if (readable) {
      tensors.set(name, {
        name,
        dtype: dtype as StoredDtype,
        shape: shape as number[],
        file: file.path,
        offset: dataStart + begin,
        byteLength: end - begin,
      });
    } else {
      unreadable.set(name, { dtype: dtype as string, file: file.path });
    }
  }

  ranges.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let covered = 0;
  for (const { name, begin, end } of ranges) {
    if (begin < covered) throw refuse("its bytes overlap with another tensor", "bad_offsets", name);
    if (begin > covered) throw refuse(`there is a gap of ${begin - covered} bytes before it`, "bad_offsets", name);
    covered = end;
  }
  if (covered !== dataBytes)
    throw refuse(`there are ${dataBytes - covered} unexpected bytes after the last tensor`, "bad_offsets");
  return { tensors, unreadable, metadata };
}

/**
 * The tensors of an open file or of bytes in memory; they keep the names in the file. Closes the source if its header is not valid.
 *
 * @param mostHeaderBytes - maximum header size; a larger header is rejected before it is read. @defaultValue the limit of the format
 */
export function safetensorsSource(
  source: ByteSource,
  mostHeaderBytes?: number,
): WeightSource & { readonly metadata: Readonly<Record<string, string>> } {
  assertLittleEndian();
  try {
    const { tensors, unreadable, metadata } = readSafetensorsHeader(source, mostHeaderBytes);
    return { ...fileWeights({ files: new Map([[source.path, source]]), tensors, unreadable }), metadata };
  } catch (error) {
    source.close();
    throw error;
  }
}

/**
 * Decodes a safetensors file in memory with the same validation. Supports only float32, the dtype of stored adapters.
 * @param origin - name of the file, shown in error messages.
 * @throws WeightsError
 */
export function decodeSafetensors(bytes: Uint8Array, origin: string): NamedTensor[] {
  assertLittleEndian();
  const { tensors, unreadable } = readSafetensorsHeader(bytesInMemory(bytes, origin));
  const other = [...unreadable].concat([...tensors].filter(([, { dtype }]) => dtype !== "F32"))[0];
  if (other !== undefined) {
    const [name, { dtype }] = other;
    const message = `${origin}: tensor ${name} is stored as ${dtype} instead of F32`;
    throw new WeightsError(message, { code: "unsupported_dtype", tensor: name, file: origin });
  }
  return [...tensors.values()].map(({ name, shape, offset, byteLength }) => ({
    name,
    shape,
    data: floatsAt(bytes, offset, byteLength),
  }));
}

/** A view if the values are aligned, as in all files written here (copying hundreds of megabytes would block the thread); else a copy. */
function floatsAt(bytes: Uint8Array, offset: number, byteLength: number): Float32Array {
  const at = bytes.byteOffset + offset;
  if (at % Float32Array.BYTES_PER_ELEMENT === 0) return new Float32Array(bytes.buffer, at, byteLength / 4);
  return new Float32Array(new Uint8Array(bytes.subarray(offset, offset + byteLength)).buffer);
}

const isOffset = (value: unknown) => typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
