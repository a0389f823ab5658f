/**
 * Runs graphs with onnxruntime: the native package (`onnxruntime-node`) or its WebAssembly build (`onnxruntime-web`), which have the same
 * API. `run` blocks the calling thread until the work is done, so callers run in a worker. Both packages are loaded elsewhere: in Node by
 * `ort.ts`, in a browser by `browser/worker.ts`.
 */
import { EngineError, MemoryError } from "../errors.ts";
import type { Dtype, Graph, Tensor } from "../graph/graph.ts";
import { encodeModel } from "../onnx/model.ts";
import { type CompileOptions, inputValue, type Program, type Runtime, type Value, type WeightMap } from "./runtime.ts";
import { SessionPool, type SessionSource } from "./session-pool.ts";

/** WebAssembly's address space. */
export const wasmBytes = 2 ** 32;
/** The fix when WebAssembly is too slow or too small. */
export const nativeHint = "to get the native runtime: ONNXRUNTIME_NODE_INSTALL=skip npm install onnxruntime-node";
/** Share of it that programs may take while one is compiled; the rest is for memory that allocators keep after runs. */
const wasmProgramBytes = 3.6e9;

/** The part of onnxruntime's JavaScript API in use. */
export interface Ort {
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
  /** Throws a MemoryError for a known out-of-memory message, otherwise the original error. */
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

/** WebAssembly's memory may be full although the machine has free memory. @param hint - the fix, which depends on the platform */
const explainWasm =
  (hint: string) =>
  (error: unknown): never => {
    const message = error instanceof Error ? error.message : String(error);
    if (!/bad_alloc|failed to allocate|out of memory/i.test(message)) throw error;
    throw new MemoryError(`WebAssembly has no memory left, of 4 GiB at most: ${message}`, {
      budgetBytes: wasmBytes,
      hint,
    });
  };
function asItIs(error: unknown): never {
  throw error;
}

/** A session that is never replaced. A separate function, so that its closure does not keep the model bytes alive. */
const always = (session: OrtSession): SessionSource<OrtSession> => ({
  session: () => Promise.resolve(session),
  release: () => session.release(),
});

/** A pool opens and releases sessions as memory allows; without one, a session lives as long as its program. */
const createRuntime = (
  name: "native" | "wasm",
  ort: Ort,
  {
    threads,
    pool,
    explain,
  }: { readonly threads: number; readonly pool?: SessionPool<OrtSession>; readonly explain: (error: unknown) => never },
): Runtime => ({
  name,
  threads,
  async compile(graph: Graph, weights: WeightMap, options: CompileOptions = {}): Promise<Program> {
    const pack = options.packWeights === true;
    // The WebAssembly build copies every input into its own memory at each run, so weights must be part of the program.
    const own = pack || name === "wasm";
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
        // Graphs already use fused operations. Optimizing them again costs start-up time, and would merge values that are recomputed on
        // purpose (to save memory) with the earlier computation.
        graphOptimizationLevel: "disabled",
        // A memory plan per input shape pays off when shapes recur. Here they rarely do, and each plan would keep a block of memory.
        enableMemPattern: false,
        ...(name === "wasm"
          ? { executionProviders: ["wasm"], ...(pack ? {} : { extra: { session: { disable_prepacking: "1" } } }) }
          : // Threads spin briefly between operations (decoding on an idle machine is a quarter faster), but not longer: on a busy machine spinning would take a core from other work.
            // no longer: on a busy one it would hold the core that the others, or the caller, need.
            { extra: { session: { intra_op: { allow_spinning: "1", spin_duration_us: "50" } } } }),
      }).catch(explain);
    // Measured with 400 MB of weights: a session holds 1.0 times their size (2.5 times packed); opening it takes 1.8 times more.
    const held = (pack ? 2.5 : 1) * bytes;
    const source = pool?.add({ open, bytes: held, openingBytes: held + 1.8 * bytes }) ?? always(await open());
    await source.session(); // reports a graph that cannot be compiled now, not at its first run
    const { inputs, possiblyEmpty } = graph;
    return new OrtProgram({ ort, source, inputs, possiblyEmpty, bound, explain });
  },
});

/** The runtime of the native package. */
export const nativeRuntime = (ort: Ort, threads: number): Runtime =>
  createRuntime("native", ort, { threads, explain: asItIs });

/** The runtime of the WebAssembly package. @param options.hint - the fix when WebAssembly has no memory left */
export function wasmRuntime(
  ort: Ort,
  { threads, programBytes = wasmProgramBytes, hint = nativeHint }: WasmRuntimeOptions,
): Runtime {
  ort.env.wasm = Object.assign(ort.env.wasm ?? {}, { numThreads: threads });
  return createRuntime("wasm", ort, { threads, pool: new SessionPool(programBytes), explain: explainWasm(hint) });
}

export interface WasmRuntimeOptions {
  readonly threads: number;
  /** Memory that programs may take. @defaultValue 3.6 GB of the 4 GiB */
  readonly programBytes?: number;
  readonly hint?: string;
}
