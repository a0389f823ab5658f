/**
 * Values that stay in a device's memory between runs. A runtime that has a device computes on it and can leave outputs there, so that
 * frozen weights, adapters, gradients, optimizer state and the KV cache cross the bus once or never. Two implementations: onnxruntime's
 * GPU providers (`device/`), and the interpreter, which only pretends, as the second opinion of tests.
 *
 * Which outputs stay is known when a program is compiled, and where one is to be written when it runs. Both also hold for the GPU buffers
 * of `onnxruntime-web` (`preferredOutputLocation` of a session, `fetches` of a run).
 */
import { EngineError } from "../errors.ts";
import type { Dtype, Graph } from "../graph/graph.ts";
import type { Program, Value, WeightMap } from "./runtime.ts";

/** A tensor on a device. It belongs to the code that asked for it, which releases it. */
export interface DeviceValue {
  readonly dtype: Dtype;
  readonly dims: readonly number[];
  readonly byteLength: number;
  readonly isReleased: boolean;
  /** Frees the memory. Idempotent. Any later use of the value is an EngineError with code `released`. */
  release(): void;
}

/** What a program can be given. */
export type RunInput = Value | DeviceValue;

export const isDeviceValue = (value: RunInput): value is DeviceValue => "release" in value;

export interface DeviceRunOptions {
  /**
   * Resident outputs that are written over these values instead of into new memory. A value may also be the input that a `ScatterND` makes
   * the output from, and that no other node reads: then nothing is copied, and only the rows of the scatter are written. (Any other
   * operation would read and write one buffer at once, which WebGPU refuses.)
   */
  readonly into?: Readonly<Record<string, DeviceValue>>;
}

export interface DeviceOutputs {
  /** Outputs that were copied to the host. */
  readonly values: Readonly<Record<string, Value>>;
  /** New values of the caller's: the resident outputs that were not written into given ones. */
  readonly resident: Readonly<Record<string, DeviceValue>>;
}

export interface DeviceProgram extends Program {
  /** As `run`, with values of the device among inputs and outputs. */
  runOnDevice(inputs: Readonly<Record<string, RunInput>>, options?: DeviceRunOptions): Promise<DeviceOutputs>;
}

export interface DeviceCompileOptions {
  /** Names of outputs that stay on the device. */
  readonly resident?: readonly string[];
}

/** Bytes that have crossed the bus, counted by the runtime: everything that a run is given from the host, and everything it returns there. */
export interface BusTraffic {
  readonly toDevice: number;
  readonly fromDevice: number;
}

/** How much work a device wants at once. */
export interface DevicePlan {
  /** Tokens beyond which a larger training run is no faster per token. */
  readonly trainingTokens: number;
  /** Tokens of a training run that shares more than it would repeat if it were cut. */
  readonly mostTrainingTokens: number;
  /** Tokens of prompts in one run. */
  readonly promptTokens: number;
  /** Sequences that decode at once, where an engine is not told. */
  readonly sequences: number;
}

export interface Device {
  readonly kind: "cuda" | "webgpu" | "cpu";
  /** For people, for example `NVIDIA H200`. */
  readonly name: string;
  /** Bytes that values and runs may take on it together. */
  readonly memoryBytes: number;
  readonly plan: DevicePlan;
  /** Since the device was opened. */
  readonly traffic: BusTraffic;
  /** Bytes of the values that are not released. */
  readonly valueBytes: number;
  /** Frozen weights are uploaded at the first compilation that names them, and shared by all programs. */
  compile(graph: Graph, weights: WeightMap, options?: DeviceCompileOptions): Promise<DeviceProgram>;
  upload(value: Value): Promise<DeviceValue>;
  download(value: DeviceValue): Promise<Value>;
}

/** @throws EngineError when the value was released. */
export function checkUsable(value: DeviceValue, use: string): void {
  if (!value.isReleased) return;
  throw new EngineError(
    "released",
    `${use}: a device value of shape [${value.dims.join(", ")}] is used after its release`,
  );
}
