/**
 * Values that stay in a device's memory between runs, so that frozen weights, adapters, gradients, optimizer state and the KV cache cross
 * the bus at most once. Two implementations: onnxruntime's GPU providers (`device/`) and, for tests, the interpreter
 * (`interpreter-device.ts`).
 *
 * Which outputs stay is fixed when a program is compiled; which memory they are written to is chosen at each run. The GPU buffers of
 * `onnxruntime-web` fit the same interface (`preferredOutputLocation` of a session, `fetches` of a run).
 */
import { EngineError } from "../errors.ts";
import type { Dtype, Graph } from "../graph/graph.ts";
import type { Precision } from "../types.ts";
import type { Program, Value, WeightMap } from "./runtime.ts";

/** A tensor on a device. The code that requested it owns it and must release it. */
export interface DeviceValue {
  readonly dtype: Dtype;
  readonly dims: readonly number[];
  readonly byteLength: number;
  readonly isReleased: boolean;
  /** Frees the memory. Idempotent. Later use of the value throws an EngineError with code `released`. */
  release(): void;
}

/** Inputs of a program. */
export type RunInput = Value | DeviceValue;

export const isDeviceValue = (value: RunInput): value is DeviceValue => "release" in value;

export interface DeviceRunOptions {
  /**
   * Existing values that resident outputs overwrite, instead of new memory. If the value is also the input of the `ScatterND` that makes
   * the output, and no other node reads it, nothing is copied and only the scattered rows are written. (Any other operation would read and
   * write one buffer at once, which WebGPU rejects.)
   */
  readonly into?: Readonly<Record<string, DeviceValue>>;
}

export interface DeviceOutputs {
  /** Outputs copied to the host. */
  readonly values: Readonly<Record<string, Value>>;
  /** New values, owned by the caller: the resident outputs that were not written over existing ones. */
  readonly resident: Readonly<Record<string, DeviceValue>>;
}

export interface DeviceProgram extends Program {
  /** Like `run`, with device values among inputs and outputs. */
  runOnDevice(inputs: Readonly<Record<string, RunInput>>, options?: DeviceRunOptions): Promise<DeviceOutputs>;
}

export interface DeviceCompileOptions {
  /** Names of the outputs that stay on the device. */
  readonly resident?: readonly string[];
}

/** Bytes that crossed the bus, counted by the runtime: all host inputs and all host outputs of runs. */
export interface BusTraffic {
  readonly toDevice: number;
  readonly fromDevice: number;
}

/** Slots of the head on a CPU: what fits the last-level cache of common machines. Products with more rows are no faster there. */
export const cpuSlot = { bytes: 24e6, rows: 512 } as const;

/** Sizes of runs that use a device efficiently. */
export interface DevicePlan {
  /** Tokens of a training run; larger runs are no faster per token. */
  readonly trainingTokens: number;
  /** Maximum tokens of a training run, for prefixes that would be computed twice if the run were split. */
  readonly mostTrainingTokens: number;
  /** Rows of a slot of the head: at most `bytes` of its `[rows, vocabulary]` matrix and at most `rows`, but at least 256 rows. */
  readonly slot: { readonly bytes: number; readonly rows: number };
  /** Prompt tokens of one run. */
  readonly promptTokens: number;
  /** Default number of sequences that decode at once. */
  readonly sequences: number;
}

export interface Device {
  readonly kind: "cuda" | "webgpu" | "cpu";
  /** Display name, for example `NVIDIA H200`. */
  readonly name: string;
  readonly precision: Precision;
  /** Maximum bytes of values and runs together. */
  readonly memoryBytes: number;
  readonly plan: DevicePlan;
  /** Counted since the device was opened. */
  readonly traffic: BusTraffic;
  /** Bytes of values that are not released. */
  readonly valueBytes: number;
  /** Frozen weights are uploaded when the first program that uses them is compiled, and shared by all programs. */
  compile(graph: Graph, weights: WeightMap, options?: DeviceCompileOptions): Promise<DeviceProgram>;
  upload(value: Value): Promise<DeviceValue>;
  download(value: DeviceValue): Promise<Value>;
  /** Frees all programs and values. Idempotent. */
  dispose(): void;
}

/** @throws EngineError when the value was released. */
export function checkUsable(value: DeviceValue, use: string): void {
  if (!value.isReleased) return;
  throw new EngineError(
    "released",
    `${use}: a device value of shape [${value.dims.join(", ")}] is used after its release`,
  );
}
