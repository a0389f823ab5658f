/**
 * A session and its I/O binding. Frozen weights are bound once; a device value stays bound until another value replaces it or it is
 * released; host values are staged and bound at every run.
 */
import { EngineError } from "../errors.ts";
import type { Dtype, Graph, Tensor } from "../graph/graph.ts";
import { dtypeCodes } from "../onnx/model.ts";
import {
  type DeviceOutputs,
  type DeviceProgram,
  type DeviceRunOptions,
  type DeviceValue,
  isDeviceValue,
  type RunInput,
} from "../runtime/device.ts";
import { inputValue, type Value } from "../runtime/runtime.ts";
import { bytesOf, readElements } from "./element-types.ts";
import type { Staged } from "./host-stage.ts";
import type { Pointer } from "./ort-api.ts";
import type { OrtDevice } from "./ort-device.ts";
import type { OrtValue } from "./ort-value.ts";

/** No size may be 0, independent of the graph: WebGPU fails on empty tensors, so device code has none. */
const nothingEmpty: ReadonlySet<string> = new Set();

export interface OrtProgramParts {
  readonly session: Pointer;
  readonly graph: Graph;
  readonly weights: readonly (readonly [name: string, value: OrtValue])[];
  readonly resident: readonly string[];
}

interface Output {
  readonly name: string;
  readonly dtype: Dtype;
  readonly isResident: boolean;
}

export class OrtProgram implements DeviceProgram {
  readonly #device: OrtDevice;
  readonly #inputs: readonly Tensor[];
  readonly #outputs: readonly Output[];
  readonly #bound = new Map<string, OrtValue>();
  /** Unreleased outputs of its runs: on WebGPU they are freed with the session's allocator. */
  #liveValues = 0;
  #isClosed = false;
  #session: Pointer;
  #binding: Pointer;

  constructor(device: OrtDevice, { session, graph, weights, resident }: OrtProgramParts) {
    this.#device = device;
    this.#session = session;
    this.#binding = device.api.make("CreateIoBinding", session);
    this.#inputs = graph.inputs;
    this.#outputs = [...graph.outputs].map(([name, { dtype }]) => ({
      name,
      dtype,
      isResident: resident.includes(name),
    }));
    for (const [name, value] of weights) this.#bind(name, value);
  }

  async run(inputs: Readonly<Record<string, Value>>): Promise<Record<string, Value>> {
    const { values, resident } = await this.runOnDevice(inputs);
    for (const value of Object.values(resident)) value.release();
    return { ...values };
  }

  runOnDevice(inputs: Readonly<Record<string, RunInput>>, options: DeviceRunOptions = {}): Promise<DeviceOutputs> {
    // The library computes on the calling thread.
    return new Promise((resolve) => resolve(this.#device.exclusively(() => this.#run(inputs, options.into ?? {}))));
  }

  #run(inputs: Readonly<Record<string, RunInput>>, into: Readonly<Record<string, DeviceValue>>): DeviceOutputs {
    if (this.#isClosed) throw new EngineError("closed", "the program was released");
    const { api, stage, runOptions } = this.#device;
    const staged: Staged[] = [];
    for (const input of this.#inputs) {
      const { name, dtype, shape } = input;
      const value = inputValue(input, inputs, nothingEmpty);
      checkShape(name, value, shape);
      if (isDeviceValue(value)) this.#bind(name, this.#device.own(value));
      else staged.push({ name, dtype, value });
    }
    return stage.with(staged, (tensors) => {
      staged.forEach(({ name, dtype, value }, i) => {
        this.#letGo(name);
        api.act("BindInput", this.#binding, name, tensors[i]);
        this.#device.traffic.toDevice += bytesOf(dtype, value.dims);
      });
      try {
        this.#bindOutputs(into);
        api.act("SynchronizeBoundInputs", this.#binding);
        api.act("RunWithBinding", this.#session, runOptions, this.#binding);
        api.act("SynchronizeBoundOutputs", this.#binding);
        return this.#takeOutputs(into);
      } finally {
        api.release("ClearBoundOutputs", this.#binding);
      }
    });
  }

  #bindOutputs(into: Readonly<Record<string, DeviceValue>>): void {
    const { api, deviceMemory, hostMemory } = this.#device;
    for (const { name, isResident } of this.#outputs) {
      const target = into[name];
      if (target && !isResident) throw new EngineError("bad_value", `output ${name} does not stay on the device`);
      if (target) {
        api.act("BindOutput", this.#binding, name, this.#device.own(target).pointerFor(`output ${name}`));
      } else {
        api.act("BindOutputToDevice", this.#binding, name, isResident ? deviceMemory : hostMemory);
      }
    }
  }

  #takeOutputs(into: Readonly<Record<string, DeviceValue>>): DeviceOutputs {
    const { api, traffic } = this.#device;
    const values: Record<string, Value> = {};
    const resident: Record<string, DeviceValue> = {};
    const pointers = api.boundOutputs(this.#binding);
    this.#outputs.forEach(({ name, dtype, isResident }, i) => {
      const pointer = pointers[i]!;
      if (isResident && !into[name]) {
        this.#liveValues++;
        resident[name] = this.#device.adopt(pointer, { dtype, dims: api.shapeOf(pointer).dims }, this.#valueFreed);
        return;
      }
      if (!isResident) {
        const { dims, elementType } = api.shapeOf(pointer);
        if (elementType !== dtypeCodes[dtype]) {
          throw new EngineError("bad_value", `output ${name} has element type ${elementType} instead of ${dtype}`);
        }
        const bytes = bytesOf(dtype, dims);
        const memory = bytes > 0 ? api.view(api.make("GetTensorMutableData", pointer), bytes) : new ArrayBuffer(0);
        values[name] = { data: readElements(memory, dtype), dims };
        traffic.fromDevice += bytes;
      }
      api.release("ReleaseValue", pointer);
    });
    return { values, resident };
  }

  #bind(name: string, value: OrtValue): void {
    const pointer = value.pointerFor(`input ${name}`);
    if (this.#bound.get(name) === value) return;
    this.#letGo(name);
    this.#device.api.act("BindInput", this.#binding, name, pointer);
    this.#bound.set(name, value);
    value.addHolder(this.#unbind);
  }

  #letGo(name: string): void {
    this.#bound.get(name)?.removeHolder(this.#unbind);
    this.#bound.delete(name);
  }

  /** Called when a bound value is released: otherwise the binding would keep its memory. */
  readonly #unbind = (value: OrtValue): void => {
    for (const [name, held] of this.#bound) {
      if (held !== value) continue;
      this.#bound.delete(name);
      this.#device.bindPlaceholder(this.#binding, name);
    }
  };

  readonly #valueFreed = (): void => {
    this.#liveValues--;
    if (this.#isClosed && this.#liveValues === 0) this.free();
  };

  /** Releases its bindings. The session is freed with the last of its outputs. Idempotent. */
  dispose(): Promise<void> {
    this.#isClosed = true;
    this.unbindAll();
    if (this.#liveValues === 0) this.free();
    return Promise.resolve();
  }

  unbindAll(): void {
    if (this.#session === 0n) return;
    for (const value of new Set(this.#bound.values())) value.removeHolder(this.#unbind);
    this.#bound.clear();
    this.#device.api.release("ClearBoundInputs", this.#binding);
  }

  /** Idempotent. */
  free(): void {
    if (this.#session === 0n) return;
    this.#isClosed = true;
    const { api } = this.#device;
    this.unbindAll();
    api.release("ReleaseIoBinding", this.#binding);
    api.release("ReleaseSession", this.#session);
    this.#binding = 0n;
    this.#session = 0n;
    this.#device.forgetProgram(this);
  }
}

/** @throws EngineError if a size differs from the graph's, or the number of elements does not match the shape */
function checkShape(name: string, value: RunInput, shape: Tensor["shape"]): void {
  const { dims } = value;
  const fits =
    dims.length === shape.length && shape.every((dim, axis) => typeof dim === "string" || dim === dims[axis]);
  if (!fits) throw new EngineError("shape_mismatch", `input ${name} has shape [${dims}] instead of [${shape}]`);
  if (isDeviceValue(value)) return;
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (count !== value.data.length) {
    throw new EngineError("shape_mismatch", `input ${name} has ${value.data.length} elements for shape [${dims}]`);
  }
}
