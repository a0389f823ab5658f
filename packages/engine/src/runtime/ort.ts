/**
 * Runs graphs with onnxruntime: the native package (`onnxruntime-node`) or its WebAssembly build (`onnxruntime-web`). Both have the
 * same API, so one adapter serves both. `run` blocks the calling thread until the work is done: callers live in a worker.
 */
import { EngineError, MemoryError } from "../errors.ts";
import type { Dtype, Graph, Tensor } from "../graph/graph.ts";
import { encodeModel } from "../onnx/model.ts";
import { type CompileOptions, inputValue, type Program, type Runtime, type Value, type WeightMap } from "./runtime.ts";
import { SessionPool, type SessionSource } from "./session-pool.ts";

/** All that WebAssembly can address. */
export const wasmBytes = 2 ** 32;
/** What to do where WebAssembly is too slow or too small. */
export const nativeHint = "to get the native runtime: ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node";
/** Of that, what programs may take while one is compiled: the rest stays for what runs have left in the allocators. */
const wasmProgramBytes = 3.6e9;

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

function toOrt(ort: Ort, dtype: Dtype, value: Value): OrtTensor {
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
}

function fromOrt(tensor: OrtTensor): Value {
  const { data, dims } = tensor;
  if (data instanceof Float32Array || data instanceof Int32Array) return { data, dims };
  if (data instanceof BigInt64Array) return { data: Int32Array.from(data, Number), dims };
  return { data: Int32Array.from(data), dims };
}

interface OrtProgramParts {
  readonly ort: Ort;
  readonly source: SessionSource<OrtSession>;
  readonly inputs: readonly Tensor[];
  readonly possiblyEmpty: ReadonlySet<string>;
  readonly bound: Readonly<Record<string, OrtTensor>>;
  /** Throws an error that says what to do where that is known, else the same. */
  readonly explain: (error: unknown) => never;
}

class OrtProgram implements Program {
  readonly #parts: OrtProgramParts;
  #released = false;

  constructor(parts: OrtProgramParts) {
    this.#parts = parts;
  }

  async run(inputs: Readonly<Record<string, Value>>): Promise<Record<string, Value>> {
    if (this.#released) throw new EngineError("closed", "the program was released"); // the native code would crash
    const { ort, source, bound, possiblyEmpty, explain } = this.#parts;
    const feeds: Record<string, OrtTensor> = { ...bound };
    for (const input of this.#parts.inputs) {
      feeds[input.name] = toOrt(ort, input.dtype, inputValue(input, inputs, possiblyEmpty));
    }
    const session = await source.session();
    const results = await session.run(feeds).catch(explain);
    return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, fromOrt(tensor)]));
  }

  dispose(): Promise<void> {
    this.#released = true;
    return this.#parts.source.release();
  }
}

/** WebAssembly's memory may be full however much the machine has. */
function explainWasm(error: unknown): never {
  const message = error instanceof Error ? error.message : String(error);
  if (!/bad_alloc|failed to allocate/i.test(message)) throw error;
  throw new MemoryError(`the 4 GiB of WebAssembly are full: ${message}`, {
    budgetBytes: wasmBytes,
    hint: nativeHint,
  });
}
function asItIs(error: unknown): never {
  throw error;
}

/** One session for good. A function of its own, so that it does not hold on to what the session was made from. */
const always = (session: OrtSession): SessionSource<OrtSession> => ({
  session: () => Promise.resolve(session),
  release: () => session.release(),
});

/** With a pool, sessions are made and released as it sees fit; else each lives as long as its program. */
const createRuntime = (
  name: "native" | "wasm",
  ort: Ort,
  { threads, pool }: { readonly threads: number; readonly pool?: SessionPool<OrtSession> },
): Runtime => ({
  name,
  threads,
  async compile(graph: Graph, weights: WeightMap, options: CompileOptions = {}): Promise<Program> {
    const pack = options.packWeights === true;
    // The wasm build copies every input into its own memory at each run, so that there weights must be part of the program.
    const own = pack || name === "wasm";
    const explain = name === "wasm" ? explainWasm : asItIs;
    const bound: Record<string, OrtTensor> = {};
    const initializers = new Map<string, Float32Array>();
    let bytes = 0;
    for (const { name: weightName } of graph.weights) {
      const weight = weights.get(weightName);
      if (!weight) throw new EngineError("missing_weight", `weight ${weightName} is not bound`);
      bytes += weight.data.byteLength;
      if (own) initializers.set(weightName, weight.data);
      else bound[weightName] = new ort.Tensor("float32", weight.data, weight.dims);
    }
    const open = (): Promise<OrtSession> =>
      ort.InferenceSession.create(encodeModel(graph, initializers), {
        intraOpNumThreads: threads,
        logSeverityLevel: 3,
        // The graph is already written with fused operations; rewriting it costs start-up time and would merge what is recomputed
        // on purpose with what was computed before.
        graphOptimizationLevel: "disabled",
        // A memory plan per input shape pays off when shapes recur; ours rarely do, and each plan would keep a block of its own.
        enableMemPattern: false,
        ...(name === "wasm"
          ? { executionProviders: ["wasm"], ...(pack ? {} : { extra: { session: { disable_prepacking: "1" } } }) }
          : // Between two operations a thread spins for a moment (decoding on an idle machine: a quarter faster than without), but
            // no longer: on a busy one it would hold the core that the others, or the caller, need.
            { extra: { session: { intra_op: { allow_spinning: "1", spin_duration_us: "50" } } } }),
      }).catch(explain);
    // Measured with 400 MB of weights: a session holds them once, packed two and a half times; opening it takes 1.8 times more.
    const held = (pack ? 2.5 : 1) * bytes;
    const source = pool?.add({ open, bytes: held, openingBytes: held + 1.8 * bytes }) ?? always(await open());
    await source.session(); // what cannot be compiled is known now
    const { inputs, possiblyEmpty } = graph;
    return new OrtProgram({ ort, source, inputs, possiblyEmpty, bound, explain });
  },
});

/** Why a package cannot be loaded, in a line; without the file of ours that asked for it, which helps nobody. */
export const reasonOf = (error: unknown): string => {
  const [said = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
  return said.replace(/ imported from .*$/, "");
};

/** The native runtime, or undefined where its package is not installed or cannot be loaded. */
export async function loadNativeRuntime(threads: number): Promise<{ runtime?: Runtime; reason?: string }> {
  try {
    const module = (await import("onnxruntime-node")) as unknown as { default?: Ort } & Ort;
    return { runtime: createRuntime("native", module.default ?? module, { threads }) };
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

/** The WebAssembly runtime: always there, several times slower, 4 GiB of memory at most. */
export async function loadWasmRuntime(threads: number, programBytes = wasmProgramBytes): Promise<Runtime> {
  const module = (await import("onnxruntime-web")) as unknown as { default?: Ort } & Ort;
  const ort = module.default ?? module;
  ort.env.wasm = Object.assign(ort.env.wasm ?? {}, { numThreads: threads });
  return createRuntime("wasm", ort, { threads, pool: new SessionPool(programBytes) });
}
