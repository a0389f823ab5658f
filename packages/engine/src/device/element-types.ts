/** Element types of tensors: sizes, and conversion of host arrays. */
import { EngineError } from "../errors.ts";
import type { Dtype } from "../graph/graph.ts";
import { readBfloat16, writeBfloat16 } from "../runtime/bfloat16.ts";
import type { Value } from "../runtime/runtime.ts";

const elementBytes: Readonly<Record<Dtype, number>> = { float32: 4, int32: 4, int64: 8, bool: 1, bfloat16: 2 };

export const bytesOf = (dtype: Dtype, dims: readonly number[]): number =>
  dims.reduce((product, dim) => product * dim, elementBytes[dtype]);

/** Writes a value's elements to memory as the given type. @throws EngineError if they are of another type */
export function writeElements(memory: ArrayBuffer, at: number, dtype: Dtype, { data }: Value): void {
  const { length } = data;
  if (dtype === "float32" && (data instanceof Float32Array || data instanceof Float64Array)) {
    new Float32Array(memory, at, length).set(data);
  } else if (dtype === "bfloat16" && data instanceof Float32Array) {
    writeBfloat16(new Uint16Array(memory, at, length), data);
  } else if (dtype === "int32" && data instanceof Int32Array) {
    new Int32Array(memory, at, length).set(data);
  } else if (dtype === "int64" && data instanceof BigInt64Array) {
    new BigInt64Array(memory, at, length).set(data);
  } else if (dtype === "int64" && data instanceof Int32Array) {
    // Two 32-bit halves per value: up to a million bigints would be slow. Low word first on every supported platform.
    const words = new Int32Array(memory, at, 2 * length);
    for (let i = 0; i < length; i++) {
      words[2 * i] = data[i]!;
      words[2 * i + 1] = data[i]! < 0 ? -1 : 0;
    }
  } else {
    throw new EngineError("bad_value", `a ${data.constructor.name} cannot be given where ${dtype} is wanted`);
  }
}

/** A copy of the elements; bfloat16 becomes Float32Array, integers and bools become Int32Array. */
export function readElements(memory: ArrayBuffer, dtype: Dtype): Value["data"] {
  if (dtype === "float32") return new Float32Array(memory).slice();
  if (dtype === "bfloat16") return readBfloat16(new Uint16Array(memory));
  if (dtype === "int32") return new Int32Array(memory).slice();
  if (dtype === "bool") return Int32Array.from(new Uint8Array(memory));
  return Int32Array.from(new BigInt64Array(memory), Number);
}
