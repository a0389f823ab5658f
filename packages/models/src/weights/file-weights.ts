/**
 * The implementation of `WeightSource`: reads tensors at validated offsets in open files and decodes them through a small scratch buffer,
 * so that memory holds only the float32 result.
 */

import { WeightsError } from "../errors.ts";
import type { ByteSource } from "./byte-source.ts";
import { codecs, countValues } from "./codecs.ts";
import { halfRotationRow } from "./gguf-names.ts";
import type { TensorInfo, WeightSource } from "./types.ts";

/** Bytes decoded at a time: large enough to amortize system calls, small enough for the CPU cache. */
const scratchBytes = 1024 * 1024;

/** The tensors of a model and the properties of their file format. */
export interface FileWeightsOptions {
  readonly files: ReadonlyMap<string, ByteSource>;
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /** Tensors in the files with unsupported dtypes, by name. */
  readonly unreadable?: ReadonlyMap<string, { dtype: string; file: string }>;
  /** Number of heads of tensors whose rows are in GGUF's interleaved order, by tensor name. */
  readonly interleavedHeads?: ReadonlyMap<string, number>;
}

export function fileWeights(options: FileWeightsOptions): WeightSource {
  const { files, tensors, unreadable, interleavedHeads } = options;
  let scratch: Uint8Array | undefined;
  let closed = false;

  const find = (name: string): TensorInfo => {
    if (closed) throw new WeightsError(`cannot read ${name}: the weights are closed`, { code: "closed", tensor: name });
    const info = tensors.get(name);
    if (info) return info;
    const other = unreadable?.get(name);
    if (!other) throw new WeightsError(`there is no tensor ${name}`, { code: "missing_tensor", tensor: name });
    throw new WeightsError(`tensor ${name} is stored as ${other.dtype}, which is not supported`, {
      code: "unsupported_dtype",
      tensor: name,
      file: other.file,
      hint: `supported: ${Object.keys(codecs).join(", ")}`,
    });
  };

  /** Reads stored bytes through the scratch buffer, in multiples of `unit` bytes, the smallest size that can be decoded. */
  const eachChunk = (info: TensorInfo, unit: number, use: (bytes: Uint8Array, done: number) => void): void => {
    const file = files.get(info.file) as ByteSource;
    const chunkBytes = Math.max(unit, Math.floor(scratchBytes / unit) * unit);
    if (!scratch || scratch.byteLength < Math.min(chunkBytes, info.byteLength)) scratch = new Uint8Array(chunkBytes);
    for (let done = 0; done < info.byteLength; done += chunkBytes) {
      const bytes = scratch.subarray(0, Math.min(chunkBytes, info.byteLength - done));
      file.read(bytes, info.offset + done);
      use(bytes, done);
    }
  };

  return {
    tensors,
    readFloat32(name, out) {
      const info = find(name);
      const count = countValues(info.shape) as number; // validated when the header was read
      const values = out ?? new Float32Array(count);
      if (values.length !== count) {
        throw new WeightsError(`out must have the ${count} values of tensor ${name}, got ${values.length}`, {
          code: "bad_length",
          tensor: name,
          file: info.file,
        });
      }
      try {
        const codec = codecs[info.dtype];
        const heads = interleavedHeads?.get(name);
        if (heads !== undefined) {
          const rows = info.shape[0] as number;
          const width = count / rows; // 1 for a bias, which never has a block format (checked with the header)
          const rowBytes = info.byteLength / rows;
          eachChunk(info, rowBytes, (bytes, done) => {
            for (let at = 0, row = done / rowBytes; at < bytes.byteLength; at += rowBytes, row++) {
              const target = halfRotationRow(row, rows / heads) * width;
              codec.decode(bytes.subarray(at, at + rowBytes), width / codec.blockValues, values, target);
            }
          });
          refuseNonFinite(values, 0, count, info);
        } else if (info.dtype === "F32") {
          (files.get(info.file) as ByteSource).read(
            new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
            info.offset,
          );
          refuseNonFinite(values, 0, count, info);
        } else {
          eachChunk(info, codec.blockBytes, (bytes, done) => {
            const start = (done / codec.blockBytes) * codec.blockValues;
            const blocks = bytes.byteLength / codec.blockBytes;
            codec.decode(bytes, blocks, values, start);
            const isSound = (info.dtype === "BF16" || info.dtype === "F16") && !mayBeNonFinite(info.dtype, bytes);
            if (!isSound) refuseNonFinite(values, start, start + blocks * codec.blockValues, info); // while the chunk is in the CPU cache
          });
        }
      } catch (error) {
        if (!(error instanceof WeightsError) || error.tensor !== undefined) throw error;
        const { message, code, file } = error; // a truncated or unreadable file: add the tensor's name
        throw new WeightsError(`tensor ${name}: ${message}`, {
          code,
          tensor: name,
          ...(file && { file }),
          cause: error,
        });
      }
      return values;
    },
    close() {
      closed = true;
      scratch = undefined;
      for (const file of files.values()) file.close();
    },
  };
}

/** Throws on NaN or infinity, which would propagate into all results, and reports its index. */
function refuseNonFinite(values: Float32Array, from: number, to: number, info: TensorInfo): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = from; i < to; i++) {
    if (((bits[i] as number) & 0x7f800000) === 0x7f800000) {
      throw new WeightsError(`tensor ${info.name} contains ${values[i]} at index ${i}`, {
        code: "non_finite",
        tensor: info.name,
        file: info.file,
        hint: "the file is damaged, or the model was saved after it had diverged",
      });
    }
  }
}

/**
 * Whether a chunk of 16-bit floats may contain a NaN or an infinity. Tests two values per operation: adding one to the exponent field carries
 * into the (masked) sign bit only if the field was all ones. Costs half as much as testing the float32 results.
 */
function mayBeNonFinite(dtype: "F16" | "BF16", bytes: Uint8Array): boolean {
  if (bytes.byteLength % 4 !== 0) return true; // odd number of values: use the full check
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const [exponents, one] = dtype === "BF16" ? [0x7f807f80, 0x00800080] : [0x7c007c00, 0x04000400];
  let carried = 0;
  for (let i = 0; i < words.length; i++) carried |= (((words[i] as number) & exponents) + one) | 0;
  return (carried & 0x80008000) !== 0;
}
