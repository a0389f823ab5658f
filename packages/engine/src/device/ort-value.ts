/** A tensor of onnxruntime's in device memory, as a value that others hold and release. */
import type { Dtype } from "../graph/graph.ts";
import { checkUsable, type DeviceValue } from "../runtime/device.ts";
import { bytesOf } from "./element-types.ts";
import type { Pointer } from "./ort-api.ts";

export class OrtValue implements DeviceValue {
  readonly dtype: Dtype;
  readonly dims: readonly number[];
  readonly byteLength: number;
  /** Frees the native side. */
  readonly #free: () => void;
  /** Native objects that refer to the memory, and let go of it before it is freed. */
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

  /** @throws EngineError when the value was released. */
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
