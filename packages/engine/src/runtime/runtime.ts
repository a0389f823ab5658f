/**
 * The interface of all runtimes: compile a graph once, run it many times. Values are typed arrays with a shape; integers are Int32Array,
 * independent of the width that the runtime uses.
 */
import { EngineError } from "../errors.ts";
import { mayBeEmpty, showShape } from "../graph/dims.ts";
import type { Graph, Tensor } from "../graph/graph.ts";
import type { RuntimeName } from "../types.ts";
import type { Device } from "./device.ts";

/** Input or output of a run. Bools and integers are Int32Array. */
export interface Value {
  readonly data: Float32Array | Float64Array | Int32Array | BigInt64Array;
  readonly dims: readonly number[];
}

export const f32 = (data: Float32Array, dims: readonly number[]): Value => ({ data, dims });
export const i32 = (data: Int32Array, dims: readonly number[]): Value => ({ data, dims });

/**
 * Frozen weights by name, shared by all programs of a model. The native runtime copies them only to pack them; WebAssembly always copies
 * them.
 */
export type WeightMap = ReadonlyMap<string, { readonly data: Float32Array; readonly dims: readonly number[] }>;

export interface CompileOptions {
  /**
   * Copy the weights into the program in a layout for fast products. Most effective for few rows; needs a second copy in memory.
   * @defaultValue false
   */
  readonly packWeights?: boolean;
}

/** A compiled graph. */
export interface Program {
  run(inputs: Readonly<Record<string, Value>>): Promise<Record<string, Value>>;
  dispose(): Promise<void>;
}

export interface Runtime {
  readonly name: RuntimeName;
  /** Threads that compute one product. */
  readonly threads: number;
  /** Device memory for values that stay between runs, if this runtime has a device. */
  readonly device?: Device;
  compile(graph: Graph, weights: WeightMap, options?: CompileOptions): Promise<Program>;
}

/**
 * The value for an input of a graph.
 *
 * @param possiblyEmpty - the graph's named sizes that may be 0
 * @throws EngineError if it is missing, or has a size of 0 that the graph does not declare
 */
export function inputValue<Input extends Pick<Value, "dims">>(
  { name, shape }: Tensor,
  given: Readonly<Record<string, Input>>,
  possiblyEmpty: ReadonlySet<string>,
): Input {
  const value = given[name];
  if (!value) throw new EngineError("missing_input", `graph input ${name} was not given`);
  if (value.dims.some((size, axis) => size === 0 && !mayBeEmpty(shape[axis]!, possiblyEmpty))) {
    throw new EngineError(
      "empty_input",
      `graph input ${name} must have at least one element, got ${showShape(value.dims)} for ${showShape(shape)}`,
    );
  }
  return value;
}
