/** An onnxruntime tensor in device memory, with ownership and release. */
import type { Dtype } from "../graph/graph.ts";
import { checkUsable, type DeviceValue } from "../runtime/device.ts";
import { bytesOf } from "./element-types.ts";
import type { Pointer } from "./ort-api.ts";

export class OrtValue implements DeviceValue {
  readonly dtype: Dtype;
  readonly dims: readonly number[];
  readonly byteLength: number;
  /** Frees the native value. */
  readonly #free: () => void;
  /** Bindings that refer to the memory and must drop it before it is freed. */
  readonly #holders = new Set<(value: OrtValue) => void>();
  #pointer: Pointer;

  constructor(pointer: Pointer, { dtype, dims }: { dtype: Dtype; dims: readonly number[] }, free: () => void) {
    this.#pointer = pointer;
    this.#free = free;
    this.dtype = dtype;
    this.dims = dims;
    this.byteLength = bytesOf(dtype, dims);
  }

  get isReleased(): boolean {
    return this.#pointer === 0n;
  }

  /** @throws EngineError if the value was released */
  pointerFor(use: string): Pointer {
    checkUsable(this, use);
    return this.#pointer;
  }

  addHolder(letGo: (value: OrtValue) => void): void {
    this.#holders.add(letGo);
  }

  removeHolder(letGo: (value: OrtValue) => void): void {
    this.#holders.delete(letGo);
  }

  release(): void {
    if (this.#pointer === 0n) return;
    for (const letGo of this.#holders) letGo(this);
    this.#holders.clear();
    this.#pointer = 0n;
    this.#free();
  }
}
