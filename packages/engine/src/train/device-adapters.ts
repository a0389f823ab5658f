/**
 * Adapters on a device: values, matrices, gradients and AdamW moments, which stay there after their first use. The host arrays have the
 * adapter's initial state; `toHost` copies the current one back. Weights that share a host array share device memory, so that a snapshot
 * costs nothing until its adapter changes.
 */
import { loraScale, type ModelConfig } from "@tinklet/models/config";
import { type Adapter, type AdapterWeights, areFinite } from "../adapter/adapter.ts";
import { commonSize } from "../adapter/layout.ts";
import type { Device, DeviceProgram, DeviceValue, RunInput } from "../runtime/device.ts";
import { createProgramCache } from "../runtime/program-cache.ts";
import { f32, type Value } from "../runtime/runtime.ts";
import type { AdamParams, OptimStepResult } from "../types.ts";
import { clipFactor, gradientNotFinite, readParams, stepResult } from "./optimizer.ts";
import { matricesGraph, squaresGraph, stepGraph, sumGraph, valuesInput } from "./optimizer-graph.ts";

/** The values of an adapter at some time. */
interface Version {
  /** Unique over all adapters. */
  readonly id: number;
  readonly values: DeviceValue;
  /** A and B of every module, by names of graph inputs; made when it is first sampled. */
  matrices?: Readonly<Record<string, DeviceValue>>;
  readonly isFinite: boolean;
}

/** State of live adapters only. */
interface Training {
  gradient?: DeviceValue;
  m?: DeviceValue;
  v?: DeviceValue;
}

/** The adapters and weights still in use. */
export interface HeldAdapters {
  /** Host arrays of adapters, of snapshots, and of running samples. */
  readonly values: ReadonlySet<Float32Array>;
  readonly adapters: ReadonlySet<Adapter>;
}

/** Factors for gradients whose squares overflow or underflow in float32. */
const rescues = [2 ** -80, 2 ** 80] as const;
/** Below this, sums of squares are less precise than float32, because some squares are subnormal. */
const smallestSquares = 2 ** -90;

export class DeviceAdapters {
  readonly #config: ModelConfig;
  readonly #device: Device;
  readonly #programs = createProgramCache<DeviceProgram>();
  /** Keyed by host array. */
  readonly #versions = new Map<Float32Array, Version>();
  readonly #training = new Map<Adapter, Training>();
  #nextId = 1;

  constructor(config: ModelConfig, device: Device) {
    this.#config = config;
    this.#device = device;
  }

  get bytes(): number {
    const sum = (values: readonly (DeviceValue | undefined)[]): number =>
      values.reduce((total, value) => total + (value?.byteLength ?? 0), 0);
    let bytes = 0;
    for (const { values, matrices } of this.#versions.values())
      bytes += sum([values, ...Object.values(matrices ?? {})]);
    for (const { gradient, m, v } of this.#training.values()) bytes += sum([gradient, m, v]);
    return bytes;
  }

  /** Inputs of training programs, which take the matrices from the values: they change at every step. */
  async trainingInputs(weights: AdapterWeights): Promise<Record<string, RunInput>> {
    const { values } = await this.version(weights);
    return { ...scaleInput(weights), [valuesInput]: values };
  }

  /** Inputs of sampling programs, which run once per token: the scale and the matrices. */
  async samplingInputs(weights: AdapterWeights): Promise<Record<string, RunInput>> {
    const version = await this.version(weights);
    version.matrices ??= await this.#matrices(weights, version.values);
    return { ...scaleInput(weights), ...version.matrices };
  }

  /** The weights on the device; uploaded at the first use. */
  async version(weights: AdapterWeights): Promise<Version> {
    const known = this.#versions.get(weights.values);
    if (known) return known;
    const values = await this.#device.upload(f32(weights.values, this.#dims(weights)));
    const version = {
      id: this.#nextId++,
      values,
      isFinite: areFinite(weights.values),
    };
    this.#versions.set(weights.values, version);
    return version;
  }

  #dims({ layout }: AdapterWeights): [number, number] {
    const width = commonSize(this.#config, layout.targets) * layout.rank;
    return [layout.size / width, width];
  }

  async #matrices({ layout }: AdapterWeights, values: DeviceValue): Promise<Readonly<Record<string, DeviceValue>>> {
    const { targets } = layout;
    const program = await this.#programs.get(["matrices", targets], () => {
      const graph = matricesGraph(this.#config, targets);
      return this.#device.compile(graph, new Map(), { resident: [...graph.outputs.keys()] });
    });
    return (await program.runOnDevice({ [valuesInput]: values })).resident;
  }

  // ---- gradients

  #trainingOf(adapter: Adapter): Training {
    const known = this.#training.get(adapter) ?? {};
    this.#training.set(adapter, known);
    return known;
  }

  /** Whether a gradient has been accumulated. */
  hasGradient(adapter: Adapter): boolean {
    return this.#training.get(adapter)?.gradient !== undefined;
  }

  /** Adds a gradient to the accumulated one and takes ownership of it. */
  async accumulate(adapter: Adapter, gradient: DeviceValue): Promise<void> {
    const training = this.#trainingOf(adapter);
    training.gradient = await this.sum(training.gradient, gradient);
  }

  /** `sum + part`; takes ownership of both. On failure `sum` is unchanged. */
  async sum(sum: DeviceValue | undefined, part: DeviceValue): Promise<DeviceValue> {
    if (!sum) return part;
    const program = await this.#programs.get("sum", () =>
      this.#device.compile(sumGraph(), new Map(), { resident: ["sum"] }),
    );
    try {
      const { resident } = await program.runOnDevice({ a: sum, b: part });
      sum.release();
      return resident["sum"]!;
    } finally {
      part.release();
    }
  }

  /** Euclidean norm; infinite or NaN if the gradient is not finite. */
  async #norm(gradient: DeviceValue): Promise<number> {
    const program = await this.#programs.get("squares", () => this.#device.compile(squaresGraph(), new Map()));
    const at = async (scale: number): Promise<number> => {
      const { values } = await program.runOnDevice({ gradient, scale: f32(Float32Array.of(scale), []) });
      let total = 0;
      for (const square of values["squares"]!.data as Float32Array) total += square;
      return Math.sqrt(total) / scale;
    };
    const norm = await at(1);
    if (!Number.isFinite(norm)) return at(rescues[0]);
    return norm ** 2 < smallestSquares ? at(rescues[1]) : norm;
  }

  // ---- steps

  /**
   * Like `optimStep` for host arrays, in float32 throughout. New values are allocated next to the old ones, so that a failed step leaves
   * the adapter unchanged; only a gradient that is not finite is dropped.
   */
  async optimStep(adapter: Adapter, given: AdamParams = {}): Promise<OptimStepResult> {
    const params = readParams(given);
    const { values } = await this.version(adapter);
    const training = this.#trainingOf(adapter);
    const zeros = (): Promise<DeviceValue> =>
      this.#device.upload(f32(new Float32Array(adapter.layout.size), this.#dims(adapter)));
    training.gradient ??= await zeros();
    const { gradient } = training;
    const norm = await this.#norm(gradient);
    if (!Number.isFinite(norm)) {
      delete training.gradient;
      gradient.release();
      throw gradientNotFinite();
    }
    training.m ??= await this.#moment(adapter, "m", zeros);
    training.v ??= await this.#moment(adapter, "v", zeros);
    const { m, v } = training;
    const clip = clipFactor(norm, params.gradClipNorm);
    const program = await this.#programs.get("step", () =>
      this.#device.compile(stepGraph(), new Map(), { resident: ["values.next", "m.next", "v.next"] }),
    );
    const factors = factorsOf(params, adapter.step + 1, clip);
    const made = await program.runOnDevice({ values, gradient, m, v, ...factors });
    const next = made.resident as Record<"values.next" | "m.next" | "v.next", DeviceValue>;
    const staysFinite = (made.values["excess"]!.data as Float32Array)[0] === 0;
    this.#replaceVersion(adapter, { id: this.#nextId++, values: next["values.next"], isFinite: staysFinite });
    release([m, v, gradient]);
    delete training.gradient;
    training.m = next["m.next"];
    training.v = next["v.next"];
    adapter.step += 1;
    return stepResult(adapter.step, norm, clip);
  }

  #replaceVersion(adapter: Adapter, version: Version): void {
    if (adapter.frozen) {
      // Snapshots keep the previous version under its host array. The new host array only identifies the new version: its values are on the
      // device.
      adapter.values = new Float32Array(adapter.layout.size);
      delete adapter.frozen;
    } else {
      const { values, matrices } = this.#versions.get(adapter.values)!;
      release([values, ...Object.values(matrices ?? {})]);
    }
    this.#versions.set(adapter.values, version);
  }

  /** A moment from the imported state, or zeros. */
  async #moment(adapter: Adapter, name: "m" | "v", zeros: () => Promise<DeviceValue>): Promise<DeviceValue> {
    const given = adapter[name];
    if (!given) return zeros();
    delete adapter[name];
    return this.#device.upload(f32(given, this.#dims(adapter)));
  }

  // ---- on the host

  /** The current weights and, for a live adapter, its moments; new host arrays if they have changed on the device. */
  async toHost<Weights extends AdapterWeights | Adapter>(weights: Weights): Promise<Weights> {
    const version = this.#versions.get(weights.values);
    const training = this.#training.get(weights as unknown as Adapter);
    const read = async (value: DeviceValue): Promise<Float32Array> =>
      (await this.#device.download(value)).data as Float32Array;
    return {
      ...weights,
      ...(version ? { values: await read(version.values) } : {}),
      ...(training?.m ? { m: await read(training.m) } : {}),
      ...(training?.v ? { v: await read(training.v) } : {}),
    };
  }

  // ---- release

  /** Frees the memory of weights and adapters that no longer exist. */
  keepOnly({ values: heldValues, adapters }: HeldAdapters): void {
    for (const [array, { values, matrices }] of this.#versions) {
      if (heldValues.has(array)) continue;
      this.#versions.delete(array);
      release([values, ...Object.values(matrices ?? {})]);
    }
    for (const [adapter, { gradient, m, v }] of this.#training) {
      if (adapters.has(adapter)) continue;
      this.#training.delete(adapter);
      release([gradient, m, v]);
    }
  }

  async dispose(): Promise<void> {
    this.keepOnly({ values: new Set(), adapters: new Set() });
    await this.#programs.dispose();
  }
}

const scaleInput = ({ lora }: AdapterWeights): Record<string, RunInput> => ({
  "lora.scale": f32(Float32Array.of(loraScale(lora)), []),
});

const release = (values: readonly (DeviceValue | undefined)[]): void => {
  for (const value of values) value?.release();
};

/** The factors of step number `step`, starting at 1. */
const factorsOf = (params: Required<AdamParams>, step: number, clip: number): Record<string, Value> => {
  const { learningRate, beta1, beta2, eps, weightDecay } = params;
  const factors = {
    clip,
    keepM: beta1,
    addM: 1 - beta1,
    keepV: beta2,
    addV: 1 - beta2,
    keepValues: 1 - learningRate * weightDecay,
    rate: learningRate / (1 - beta1 ** step),
    correction: 1 / Math.sqrt(1 - beta2 ** step),
    eps,
  };
  return Object.fromEntries(
    Object.entries(factors).map(([name, factor]) => [name, f32(Float32Array.of(factor), [])] as const),
  );
};
