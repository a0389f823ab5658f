/**
 * A plain TypeScript runtime: the reference implementation. It executes the same nodes as the ONNX runtimes, optionally in float64, and
 * favours readability over speed. Tests compare the other runtimes with it and check gradients by finite differences in float64, since
 * float32 rounding would hide errors.
 */
import { EngineError } from "../errors.ts";
import type { Graph, GraphNode } from "../graph/graph.ts";
import { type Arrays, kernels } from "./kernels.ts";
import { inputValue, type Program, type Runtime, type Value, type WeightMap } from "./runtime.ts";

/** Called after each node with its inputs and outputs; it may change the outputs in place. */
export type AfterNode = (node: GraphNode, inputs: readonly Value[], outputs: readonly Value[]) => void;

export interface InterpreterOptions {
  /** Compute in double precision. @defaultValue false */
  readonly float64?: boolean;
  readonly afterNode?: AfterNode;
}

function asValue(value: Value, arrays: Arrays): Value {
  if (value.data instanceof Int32Array) return value;
  if (value.data instanceof BigInt64Array) return { data: Int32Array.from(value.data, Number), dims: value.dims };
  return value.data instanceof arrays ? value : { data: arrays.from(value.data), dims: value.dims };
}

class InterpreterProgram implements Program {
  readonly #graph: Graph;
  readonly #arrays: Arrays;
  readonly #afterNode: AfterNode | undefined;
  readonly #fixed = new Map<number, Value>();
  /** Index of the last node that reads each tensor (by id), so that memory is freed as in other runtimes. */
  readonly #lastUse = new Map<number, number>();

  constructor(graph: Graph, weights: WeightMap, { float64 = false, afterNode }: InterpreterOptions) {
    const arrays = float64 ? Float64Array : Float32Array;
    this.#graph = graph;
    this.#arrays = arrays;
    this.#afterNode = afterNode;
    for (const [tensor, data] of graph.constants) {
      this.#fixed.set(tensor.id, asValue({ data, dims: tensor.shape as number[] }, arrays));
    }
    for (const tensor of graph.weights) {
      const weight = weights.get(tensor.name);
      if (!weight) throw new EngineError("missing_weight", `weight ${tensor.name} is not bound`);
      this.#fixed.set(tensor.id, asValue(weight, arrays));
    }
    graph.nodes.forEach((node, index) => {
      for (const input of node.inputs) this.#lastUse.set(input.id, index);
    });
    for (const tensor of graph.outputs.values()) this.#lastUse.set(tensor.id, Number.POSITIVE_INFINITY);
  }

  #execute(node: GraphNode, inputs: Value[]): Value[] {
    const kernel = kernels[node.type];
    if (!kernel) throw new EngineError("missing_kernel", `the interpreter has no ${node.type}`);
    const outputs = kernel(inputs, node.attributes, this.#arrays);
    this.#afterNode?.(node, inputs, outputs);
    return outputs;
  }

  run(given: Readonly<Record<string, Value>>): Promise<Record<string, Value>> {
    const values = new Map(this.#fixed);
    for (const input of this.#graph.inputs) {
      values.set(input.id, asValue(inputValue(input, given, this.#graph.possiblyEmpty), this.#arrays));
    }
    this.#graph.nodes.forEach((node, index) => {
      const results = this.#execute(
        node,
        node.inputs.map((input) => values.get(input.id)!),
      );
      node.outputs.forEach((output, slot) => {
        if (this.#lastUse.has(output.id)) values.set(output.id, results[slot]!);
      });
      for (const input of node.inputs) {
        if (this.#lastUse.get(input.id) === index && !this.#fixed.has(input.id)) values.delete(input.id);
      }
    });
    const outputs: Record<string, Value> = {};
    for (const [name, tensor] of this.#graph.outputs) outputs[name] = values.get(tensor.id)!;
    return Promise.resolve(outputs);
  }

  dispose(): Promise<void> {
    this.#fixed.clear();
    return Promise.resolve();
  }
}

export const createInterpreter = (options: InterpreterOptions = {}): Runtime => ({
  name: "interpreter",
  threads: 1,
  compile: (graph, weights) => Promise.resolve(new InterpreterProgram(graph, weights, options)),
});
