/**
 * A device behind onnxruntime's C API: its environment, shared allocator, values and programs. One run at a time; each run is synchronised
 * before its results are used, so that sessions never read unfinished results of each other. Differences between providers are in
 * `providers.ts`, calls of the library in `koffi-api.ts`.
 */
import { EngineError } from "../errors.ts";
import { type Dtype, Graph, type Tensor } from "../graph/graph.ts";
import { encodeModel } from "../onnx/model.ts";
import type {
  BusTraffic,
  Device,
  DeviceCompileOptions,
  DevicePlan,
  DeviceProgram,
  DeviceValue,
} from "../runtime/device.ts";
import type { Value, WeightMap } from "../runtime/runtime.ts";
import type { Precision } from "../types.ts";
import { explainFailure } from "./failures.ts";
import { HostStage } from "./host-stage.ts";
import { type OrtApi, OrtFailure, type Pointer } from "./ort-api.ts";
import { OrtProgram } from "./ort-program.ts";
import { OrtValue } from "./ort-value.ts";
import { type Provider, providers } from "./providers.ts";

/** Options for opening a device. */
export interface OrtDeviceOptions {
  readonly api: OrtApi;
  readonly kind: Device["kind"];
  readonly name: string;
  /** Limit of the shared allocator, if the provider has one. */
  readonly memoryBytes: number;
  /** @defaultValue "float32" */
  readonly precision?: Precision;
  /** Writes a profile of each session to files with this prefix, for measurements. */
  readonly profilePrefix?: string;
  /** Threads of operations that run on the CPU. */
  readonly threads: number;
  /** @defaultValue the only one, or the fastest */
  readonly deviceIndex?: number;
  /** Lock held during a run, shared by all threads that use the device: 0 is free, 1 is held. */
  readonly lock?: Int32Array<SharedArrayBuffer>;
}

const severityError = 3;
const noOptimization = 0;
/** Not empty, because some providers cannot copy an empty tensor. */
const placeholder: Value = { data: new Float32Array(1), dims: [1] };
/** `OrtAllocatorType`. */
const allocatorType = { device: 0, arena: 1 } as const;

const dtypeOf = ({ data }: Value): Dtype =>
  data instanceof Int32Array ? "int32" : data instanceof BigInt64Array ? "int64" : "float32";

/** Session options, allocator and bookkeeping shared by all programs of a device. */
export class OrtDevice implements Device {
  readonly kind: Device["kind"];
  readonly name: string;
  readonly precision: Precision;
  readonly memoryBytes: number;
  readonly api: OrtApi;
  readonly provider: Provider;
  readonly stage: HostStage;
  /** Memory of outputs for the host. */
  readonly hostMemory: Pointer;
  readonly deviceMemory: Pointer;
  /** One for all runs, so that another thread can terminate the current run. */
  readonly runOptions: Pointer;
  readonly traffic: BusTraffic & { toDevice: number; fromDevice: number } = { toDevice: 0, fromDevice: 0 };
  readonly #env: Pointer;
  readonly #threads: number;
  readonly #profilePrefix: string | undefined;
  readonly #lock: Int32Array<SharedArrayBuffer> | undefined;
  readonly #values = new Set<OrtValue>();
  readonly #programs = new Set<OrtProgram>();
  /** Keyed by the weight's array on the host. */
  readonly #weights = new Map<Float32Array, OrtValue>();
  /** One-node programs that copy values, by element type and rank. */
  readonly #movers = new Map<string, Promise<DeviceProgram>>();
  #lost: EngineError | undefined;
  #disposed = false;

  constructor(options: OrtDeviceOptions) {
    const { api, kind, memoryBytes } = options;
    this.api = api;
    this.kind = kind;
    this.name = options.name;
    this.precision = options.precision ?? "float32";
    this.memoryBytes = memoryBytes;
    this.provider = providers[kind](options.deviceIndex ?? 0, this.precision);
    this.#threads = options.threads;
    this.#profilePrefix = options.profilePrefix;
    this.#lock = options.lock;
    this.#env = api.make("CreateEnv", severityError, "tinklet");
    this.hostMemory = api.make("CreateMemoryInfo", "Cpu", allocatorType.device, 0, 0);
    this.deviceMemory = api.make(
      "CreateMemoryInfo",
      this.provider.memoryName,
      allocatorType.arena,
      this.provider.index,
      0,
    );
    this.runOptions = api.make("CreateRunOptions");
    this.stage = new HostStage(api, this.hostMemory);
    this.#guard(() => this.provider.shareAllocator?.(api, this.#env, this.deviceMemory, memoryBytes));
  }

  get plan(): DevicePlan {
    return this.provider.plan;
  }

  get valueBytes(): number {
    let bytes = 0;
    for (const { byteLength } of this.#values) bytes += byteLength;
    return bytes;
  }

  // ---- programs

  async compile(graph: Graph, weights: WeightMap, options: DeviceCompileOptions = {}): Promise<DeviceProgram> {
    this.#checkOpen();
    const bound: [string, OrtValue][] = [];
    const lowered = this.provider.lower(graph);
    for (const { name, dtype } of lowered.weights) bound.push([name, await this.#weight({ name, dtype }, weights)]);
    const model = encodeModel(lowered);
    const program = this.exclusively(() => {
      const settings = this.#sessionOptions();
      try {
        const session = this.api.make("CreateSessionFromArray", this.#env, model, model.length, settings);
        return new OrtProgram(this, { session, graph, weights: bound, resident: options.resident ?? [] });
      } finally {
        this.api.release("ReleaseSessionOptions", settings);
      }
    });
    this.#programs.add(program);
    return program;
  }

  #sessionOptions(): Pointer {
    const { api } = this;
    const settings = api.make("CreateSessionOptions");
    api.act("SetSessionLogSeverityLevel", settings, severityError);
    // As in the native runtime: graphs already use fused operations, and shapes rarely recur.
    api.act("SetSessionGraphOptimizationLevel", settings, noOptimization);
    api.act("DisableMemPattern", settings);
    api.act("SetIntraOpNumThreads", settings, this.#threads);
    api.act("AddSessionConfigEntry", settings, "session.use_env_allocators", "1");
    api.act("SetDeterministicCompute", settings, true);
    // Makes a node that the provider lacks an error: otherwise it would run on the CPU, and its inputs would cross the bus uncounted.
    if (this.kind === "webgpu") api.act("AddSessionConfigEntry", settings, "session.disable_cpu_ep_fallback", "1");
    if (this.#profilePrefix !== undefined) api.act("EnableProfiling", settings, this.#profilePrefix);
    this.provider.append?.(api, settings);
    return settings;
  }

  /** A weight on the device, uploaded by the first program that uses it. */
  async #weight({ name, dtype }: Pick<Tensor, "name" | "dtype">, weights: WeightMap): Promise<OrtValue> {
    const weight = weights.get(name);
    if (!weight) throw new EngineError("missing_weight", `weight ${name} is not bound`);
    const known = this.#weights.get(weight.data);
    if (known) return known;
    const value = (await this.upload(weight, dtype)) as OrtValue;
    this.#weights.set(weight.data, value);
    return value;
  }

  forgetProgram(program: OrtProgram): void {
    this.#programs.delete(program);
  }

  // ---- values

  /** Takes ownership of an onnxruntime value. `onFree` is called when its memory is freed. */
  adopt(pointer: Pointer, type: { dtype: Dtype; dims: readonly number[] }, onFree: () => void): OrtValue {
    const value = new OrtValue(pointer, type, () => {
      this.#values.delete(value);
      this.api.release("ReleaseValue", pointer);
      onFree();
    });
    this.#values.add(value);
    return value;
  }

  /** @throws EngineError if the value belongs to another device or to none */
  own(value: DeviceValue): OrtValue {
    if (value instanceof OrtValue && (this.#values.has(value) || value.isReleased)) return value;
    throw new EngineError("foreign_value", "a value of another device cannot be used here");
  }

  async upload(value: Value, dtype: Dtype = dtypeOf(value)): Promise<DeviceValue> {
    const mover = await this.#mover(dtype, value.dims.length, true);
    const { resident } = await mover.runOnDevice({ x: value });
    return resident["y"]!;
  }

  async download(value: DeviceValue): Promise<Value> {
    const mover = await this.#mover(value.dtype, value.dims.length, false);
    return (await mover.runOnDevice({ x: value })).values["y"]!;
  }

  #mover(dtype: Dtype, rank: number, resident: boolean): Promise<DeviceProgram> {
    const key = `${dtype} ${rank} ${resident}`;
    const known = this.#movers.get(key);
    if (known) return known;
    const graph = new Graph();
    const shape = Array.from({ length: rank }, (_, axis) => `d${axis}`);
    graph.output("y", graph.node("Identity", [graph.input("x", shape, { dtype })], shape, { dtype }));
    const mover = this.compile(graph, new Map(), { resident: resident ? ["y"] : [] });
    this.#movers.set(key, mover);
    return mover;
  }

  /** Binds a one-element tensor in place of an input, so that the binding releases the previous one. */
  bindPlaceholder(binding: Pointer, name: string): void {
    this.stage.with([{ name, dtype: "float32", value: placeholder }], ([tensor]) =>
      this.api.act("BindInput", binding, name, tensor),
    );
  }

  // ---- runs

  /** Runs native work exclusively on the device and classifies its failure. */
  exclusively<T>(work: () => T): T {
    this.#checkOpen();
    this.#acquire();
    try {
      return this.#guard(work);
    } finally {
      this.#freeLock();
    }
  }

  #acquire(): void {
    const lock = this.#lock;
    if (!lock) return;
    while (Atomics.compareExchange(lock, 0, 0, 1) !== 0) Atomics.wait(lock, 0, 1);
  }

  #freeLock(): void {
    const lock = this.#lock;
    if (!lock) return;
    Atomics.store(lock, 0, 0);
    Atomics.notify(lock, 0, 1);
  }

  /** Classifies a failure of native work. After one that leaves the device in an unknown state, all later calls fail. */
  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      const explained = explainFailure(error, this);
      if (explained instanceof EngineError && explained.code === "device_lost") this.#lost = explained;
      throw explained;
    }
  }

  #checkOpen(): void {
    if (this.#lost) throw this.#lost;
    if (this.#disposed) throw new EngineError("closed", "the device was closed");
  }

  // ---- closing

  /** Frees all programs and values, including unreleased ones. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    // Values first: with some providers the allocators are freed with their sessions.
    for (const program of this.#programs) program.unbindAll();
    for (const value of [...this.#values]) value.release();
    for (const program of [...this.#programs]) program.free();
    this.#weights.clear();
    this.#movers.clear();
    this.stage.free();
    const { api } = this;
    if (this.provider.shareAllocator) {
      try {
        api.act("UnregisterAllocator", this.#env, this.deviceMemory);
      } catch (error) {
        // The process has one environment, and closing another engine may have unregistered the allocator. Sessions keep what they use.
        if (!(error instanceof OrtFailure)) throw error;
      }
    }
    api.release("ReleaseRunOptions", this.runOptions);
    api.release("ReleaseMemoryInfo", this.deviceMemory);
    api.release("ReleaseMemoryInfo", this.hostMemory);
    api.release("ReleaseEnv", this.#env);
  }
}
