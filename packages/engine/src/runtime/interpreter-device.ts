/**
 * A simulated device: the interpreter behind the device interface, optionally in float64. Tests run device code on it to check that code
 * apart from the rounding and the defects of a provider.
 */
import { EngineError } from "../errors.ts";
import type { Dtype } from "../graph/graph.ts";
import {
  checkUsable,
  cpuSlot,
  type Device,
  type DeviceCompileOptions,
  type DeviceOutputs,
  type DevicePlan,
  type DeviceProgram,
  type DeviceRunOptions,
  type DeviceValue,
  isDeviceValue,
  type RunInput,
} from "./device.ts";
import { createDeviceRuntime } from "./device-runtime.ts";
import { createInterpreter, type InterpreterOptions } from "./interpreter.ts";
import type { Program, Runtime, Value } from "./runtime.ts";

export interface InterpreterDeviceOptions extends InterpreterOptions {
  /** @defaultValue sizes for small models */
  readonly plan?: Partial<DevicePlan>;
  /** @defaultValue practically unlimited */
  readonly memoryBytes?: number;
}

class InterpreterValue implements DeviceValue {
  readonly dims: readonly number[];
  readonly dtype: Dtype;
  readonly byteLength: number;
  readonly #onRelease: (value: InterpreterValue) => void;
  #value: Value | undefined;

  constructor(value: Value, onRelease: (value: InterpreterValue) => void) {
    // Values on a device share no memory with host arrays.
    this.#value = { data: value.data.slice(), dims: value.dims };
    this.dims = value.dims;
    this.dtype = value.data instanceof Int32Array ? "int32" : "float32";
    this.byteLength = 4 * value.data.length;
    this.#onRelease = onRelease;
  }

  get isReleased(): boolean {
    return this.#value === undefined;
  }

  read(use: string): Value {
    checkUsable(this, use);
    return this.#value!;
  }

  write({ data, dims }: Value): void {
    const { data: own } = this.read("an output");
    if (own.length !== data.length) throw new EngineError("shape_mismatch", `[${dims}] written over [${this.dims}]`);
    own.set(data as never);
  }

  release(): void {
    if (this.#value === undefined) return;
    this.#value = undefined;
    this.#onRelease(this);
  }
}

const bytesOf = ({ data }: Value): number => (data instanceof BigInt64Array ? 8 : 4) * data.length;

/** A runtime on a simulated device. */
export function createInterpreterDevice(options: InterpreterDeviceOptions = {}): Runtime & { readonly device: Device } {
  const interpreter = createInterpreter(options);
  const traffic = { toDevice: 0, fromDevice: 0 };
  const values = new Set<InterpreterValue>();
  const adopt = (value: Value): InterpreterValue => {
    const own = new InterpreterValue(value, (released) => values.delete(released));
    values.add(own);
    return own;
  };
  const read = (value: DeviceValue, use: string): Value => (value as InterpreterValue).read(use);
  const runOnDevice = async (
    program: Program,
    resident: readonly string[],
    { inputs, into = {} }: { inputs: Readonly<Record<string, RunInput>> } & DeviceRunOptions,
  ): Promise<DeviceOutputs> => {
    const given: Record<string, Value> = {};
    for (const [name, value] of Object.entries(inputs)) {
      if (!isDeviceValue(value)) traffic.toDevice += bytesOf(value);
      given[name] = isDeviceValue(value) ? read(value, `input ${name}`) : value;
    }
    const outputs = await program.run(given);
    const result: { values: Record<string, Value>; resident: Record<string, DeviceValue> } = {
      values: {},
      resident: {},
    };
    for (const [name, value] of Object.entries(outputs)) {
      if (!resident.includes(name)) {
        traffic.fromDevice += bytesOf(value);
        result.values[name] = value;
      } else if (into[name]) (into[name] as InterpreterValue).write(value);
      else result.resident[name] = adopt(value);
    }
    return result;
  };
  const device: Device = {
    kind: "cpu",
    name: "interpreter",
    precision: "float32",
    memoryBytes: options.memoryBytes ?? 2 ** 40,
    plan: {
      trainingTokens: 64,
      mostTrainingTokens: 128,
      slot: cpuSlot,
      promptTokens: 64,
      sequences: 8,
      ...options.plan,
    },
    traffic,
    get valueBytes() {
      let bytes = 0;
      for (const { byteLength } of values) bytes += byteLength;
      return bytes;
    },
    compile: async (graph, weights, { resident = [] }: DeviceCompileOptions = {}): Promise<DeviceProgram> => {
      const program = await interpreter.compile(graph, weights);
      return {
        ...program,
        run: async (inputs) => ({ ...(await runOnDevice(program, [], { inputs })).values }),
        runOnDevice: (inputs, given = {}) => runOnDevice(program, resident, { inputs, ...given }),
        dispose: () => program.dispose(),
      };
    },
    upload: (value) => {
      traffic.toDevice += bytesOf(value);
      return Promise.resolve(adopt(value));
    },
    download: (value) => {
      const copy = { ...read(value, "download"), data: read(value, "download").data.slice() } as Value;
      traffic.fromDevice += bytesOf(copy);
      return Promise.resolve(copy);
    },
    dispose: () => {
      for (const value of [...values]) value.release();
    },
  };
  return { ...createDeviceRuntime(device), name: "interpreter", device };
}
