/**
 * Runs graphs with onnxruntime: the native package (`onnxruntime-node`) or its WebAssembly build (`onnxruntime-web`). Both have the
 * same API, so one adapter serves both. `run` blocks the calling thread until the work is done: callers live in a worker.
 */
import { EngineError } from "../errors.ts";
import type { Dtype, Graph } from "../graph/graph.ts";
import { encodeModel } from "../onnx/model.ts";
import type { CompileOptions, Program, Runtime, Value, WeightMap } from "./runtime.ts";

/** The part of onnxruntime's JavaScript API in use here. */
interface Ort {
  Tensor: new (type: string, data: unknown, dims: readonly number[]) => OrtTensor;
  InferenceSession: {
    create(model: Uint8Array, options: Record<string, unknown>): Promise<OrtSession>;
  };
  env: { wasm?: Record<string, unknown>; logLevel?: string };
}
interface OrtTensor {
  readonly type: string;
  readonly data: Float32Array | BigInt64Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
  dispose?(): void;
}
interface OrtSession {
  run(feeds: Record<string, OrtTensor>): Promise<Record<string, OrtTensor>>;
  release(): Promise<void>;
}

const toOrt = (ort: Ort, dtype: Dtype, value: Value): OrtTensor => {
  const { data, dims } = value;
  if (dtype === "float32") {
    if (data instanceof Float32Array) return new ort.Tensor("float32", data, dims);
  } else if (dtype === "int32") {
    if (data instanceof Int32Array) return new ort.Tensor("int32", data, dims);
  } else if (dtype === "int64") {
    if (data instanceof BigInt64Array) return new ort.Tensor("int64", data, dims);
    if (data instanceof Int32Array) return new ort.Tensor("int64", BigInt64Array.from(data, BigInt), dims);
  }
  throw new EngineError("bad_value", `a ${data.constructor.name} cannot be given where ${dtype} is wanted`);
};

const fromOrt = (tensor: OrtTensor): Value => {
  const { data, dims } = tensor;
  if (data instanceof Float32Array || data instanceof Int32Array) return { data, dims };
  if (data instanceof BigInt64Array) return { data: Int32Array.from(data, Number), dims };
  return { data: Int32Array.from(data), dims };
};

class OrtProgram implements Program {
  readonly #ort: Ort;
  readonly #session: OrtSession;
  readonly #dtypes: ReadonlyMap<string, Dtype>;
  readonly #bound: Readonly<Record<string, OrtTensor>>;
  #released = false;

  constructor(ort: Ort, session: OrtSession, dtypes: ReadonlyMap<string, Dtype>, bound: Record<string, OrtTensor>) {
    this.#ort = ort;
    this.#session = session;
    this.#dtypes = dtypes;
    this.#bound = bound;
  }

  async run(inputs: Readonly<Record<string, Value>>): Promise<Record<string, Value>> {
    if (this.#released) throw new EngineError("closed", "the program was released"); // the native code would crash
    const feeds: Record<string, OrtTensor> = { ...this.#bound };
    for (const [name, dtype] of this.#dtypes) {
      const value = inputs[name];
      if (!value) throw new EngineError("missing_input", `graph input ${name} was not given`);
      feeds[name] = toOrt(this.#ort, dtype, value);
    }
    const results = await this.#session.run(feeds);
    return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, fromOrt(tensor)]));
  }

  dispose(): Promise<void> {
    this.#released = true;
    return this.#session.release();
  }
}

const createRuntime = (name: "native" | "wasm", ort: Ort, threads: number): Runtime => ({
  name,
  async compile(graph: Graph, weights: WeightMap, options: CompileOptions = {}): Promise<Program> {
    // The wasm build copies every input into its own memory at each run, so that there weights must be part of the program.
    const pack = options.packWeights === true || name === "wasm";
    const bound: Record<string, OrtTensor> = {};
    const initializers = new Map<string, Float32Array>();
    for (const { name: weightName } of graph.weights) {
      const weight = weights.get(weightName);
      if (!weight) throw new EngineError("missing_weight", `weight ${weightName} is not bound`);
      if (pack) initializers.set(weightName, weight.data);
      else bound[weightName] = new ort.Tensor("float32", weight.data, weight.dims);
    }
    const session = await ort.InferenceSession.create(encodeModel(graph, initializers), {
      intraOpNumThreads: threads,
      logSeverityLevel: 3,
      // The graph is already written with fused operations; rewriting it costs start-up time and would merge what is recomputed
      // on purpose with what was computed before.
      graphOptimizationLevel: "disabled",
      // A memory plan per input shape pays off when shapes recur; ours rarely do, and each plan would keep a block of its own.
      enableMemPattern: false,
      // Between two operations a thread spins for a moment (decoding on an idle machine: a quarter faster than without), but no
      // longer: on a busy one it would hold the core that the others, or the caller, need.
      ...(name === "wasm"
        ? { executionProviders: ["wasm"] }
        : { extra: { session: { intra_op: { allow_spinning: "1", spin_duration_us: "50" } } } }),
    });
    const dtypes = new Map(graph.inputs.map((input): [string, Dtype] => [input.name, input.dtype]));
    return new OrtProgram(ort, session, dtypes, bound);
  },
});

/** The native runtime, or undefined where its package is not installed or cannot be loaded. */
export const loadNativeRuntime = async (threads: number): Promise<{ runtime?: Runtime; reason?: string }> => {
  try {
    const module = (await import("onnxruntime-node")) as unknown as { default?: Ort } & Ort;
    return { runtime: createRuntime("native", module.default ?? module, threads) };
  } catch (error) {
    return { reason: error instanceof Error ? error.message.split("\n")[0]! : String(error) };
  }
};

/** The WebAssembly runtime: always there, several times slower, 4 GiB of memory at most. */
export const loadWasmRuntime = async (threads: number): Promise<Runtime> => {
  const module = (await import("onnxruntime-web")) as unknown as { default?: Ort } & Ort;
  const ort = module.default ?? module;
  ort.env.wasm = Object.assign(ort.env.wasm ?? {}, { numThreads: threads });
  return createRuntime("wasm", ort, threads);
};
