/**
 * Host memory for the inputs of runs. onnxruntime allocates it, because small typed arrays can move; it is reused from run to run, with the
 * inputs of a run stored one after the other.
 */
import type { Dtype } from "../graph/graph.ts";
import { dtypeCodes } from "../onnx/model.ts";
import type { Value } from "../runtime/runtime.ts";
import { bytesOf, writeElements } from "./element-types.ts";
import type { OrtApi, Pointer } from "./ort-api.ts";

/** Alignment of tensors in onnxruntime's own allocator. */
const alignment = 64;

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** A value to stage, and its element type. */
export interface Staged {
  readonly name: string;
  readonly dtype: Dtype;
  readonly value: Value;
}

export class HostStage {
  readonly #api: OrtApi;
  readonly #memoryInfo: Pointer;
  readonly #allocator: Pointer;
  #address: Pointer = 0n;
  #memory = new ArrayBuffer(0);

  /** @param memoryInfo - describes host memory */
  constructor(api: OrtApi, memoryInfo: Pointer) {
    this.#api = api;
    this.#memoryInfo = memoryInfo;
    this.#allocator = api.make("GetAllocatorWithDefaultOptions");
  }

  /**
   * Copies values into the memory, overwriting those of the previous run, and calls `use` with a tensor over each. The tensors are released
   * when it returns; the memory stays valid until the next call.
   */
  with<T>(values: readonly Staged[], use: (tensors: readonly Pointer[]) => T): T {
    const offsets: number[] = [];
    let end = 0;
    for (const { dtype, value } of values) {
      offsets.push(end);
      end += aligned(bytesOf(dtype, value.dims));
    }
    this.#reserve(end);
    const tensors: Pointer[] = [];
    try {
      values.forEach(({ dtype, value }, i) => {
        writeElements(this.#memory, offsets[i]!, dtype, value);
        tensors.push(
          this.#api.make(
            "CreateTensorWithDataAsOrtValue",
            this.#memoryInfo,
            this.#address + BigInt(offsets[i]!),
            bytesOf(dtype, value.dims),
            BigInt64Array.from(value.dims, BigInt),
            value.dims.length,
            dtypeCodes[dtype],
          ),
        );
      });
      return use(tensors);
    } finally {
      for (const tensor of tensors) this.#api.release("ReleaseValue", tensor);
    }
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#memory.byteLength) return;
    const size = Math.max(aligned(bytes), 2 * this.#memory.byteLength, 2 ** 16);
    this.free();
    this.#address = this.#api.make("AllocatorAlloc", this.#allocator, size);
    this.#memory = this.#api.view(this.#address, size);
  }

  free(): void {
    if (this.#address !== 0n) this.#api.act("AllocatorFree", this.#allocator, this.#address);
    this.#address = 0n;
    this.#memory = new ArrayBuffer(0);
  }
}
