/**
 * The tensor graph: a list of ONNX operations with inferred shapes and, beside each differentiable tensor, the rule that turns
 * its gradient into those of its inputs. Nodes are ONNX nodes from the start, so that the three runtimes (native, wasm and the
 * plain interpreter) execute literally the same thing. Operations live in `ops.ts`; this file owns the bookkeeping.
 */
import { EngineError } from "../errors.ts";
import { type Shape, showShape } from "./dims.ts";

export type Dtype = "float32" | "int32" | "int64" | "bool";

/** ONNX attributes; floats are marked because the format tells `1` from `1.0`. */
export type Attribute = number | string | readonly number[] | { readonly float: number };

/** Gradients for `inputs` given that of the output; null where an input needs none. */
export type Backward = (grad: Tensor) => readonly (Tensor | null)[];

/** A value in a graph. Handles are compared by identity. */
export interface Tensor {
  readonly name: string;
  /** Creation order: an operation's inputs always have smaller ids than its outputs. */
  readonly id: number;
  readonly shape: Shape;
  readonly dtype: Dtype;
  /** Whether a trainable input reaches this value. */
  readonly requiresGrad: boolean;
  /** How to go back from here; absent on inputs and constants. */
  readonly backward?: { readonly inputs: readonly Tensor[]; readonly rule: Backward };
}

export interface GraphNode {
  readonly type: string;
  /** Empty for standard ONNX, `com.microsoft` for the fused operations of onnxruntime. */
  readonly domain: "" | "com.microsoft";
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

/** Values of a small constant kept inside the graph. */
export type ConstantData = Float32Array | Int32Array | BigInt64Array;

/** Shapes that do not fit; the message names the operation and what it was given. */
export class ShapeError extends EngineError {
  readonly operation: string;

  constructor(operation: string, message: string, shapes: readonly Shape[] = []) {
    super(
      "shape_mismatch",
      `${operation}: ${message}${shapes.length ? `, given ${shapes.map(showShape).join(" and ")}` : ""}`,
    );
    this.operation = operation;
  }
}

export interface NodeOptions {
  readonly domain?: "" | "com.microsoft";
  readonly attributes?: Readonly<Record<string, Attribute>>;
  readonly dtype?: Dtype;
  /** Absent for operations that no gradient passes through. */
  readonly backward?: Backward;
}

/** A graph under construction. */
export class Graph {
  readonly nodes: GraphNode[] = [];
  /** Values given at each run. */
  readonly inputs: Tensor[] = [];
  /** Frozen model weights: bound once, when the graph is compiled. */
  readonly weights: Tensor[] = [];
  readonly constants = new Map<Tensor, ConstantData>();
  readonly outputs = new Map<string, Tensor>();
  /**
   * Named sizes that may be 0 at run time; runtimes refuse inputs in which any other size is 0. Few operations are defined for empty
   * tensors, and some runtimes have none at all.
   */
  readonly possiblyEmpty = new Set<string>();
  #next = 0;
  readonly #shared = new Map<string, Tensor>();

  #tensor(name: string, shape: Shape, dtype: Dtype, requiresGrad = false): Tensor {
    return { name, id: this.#next++, shape, dtype, requiresGrad };
  }

  /** A value given at each run; `trainable` makes it a leaf that gradients are wanted for. */
  input(name: string, shape: Shape, options: { dtype?: Dtype; trainable?: boolean } = {}): Tensor {
    const tensor = this.#tensor(name, shape, options.dtype ?? "float32", options.trainable ?? false);
    this.inputs.push(tensor);
    return tensor;
  }

  /** A frozen weight. It gets no gradient, and nothing is computed to get one. */
  weight(name: string, shape: Shape): Tensor {
    const tensor = this.#tensor(name, shape, "float32");
    this.weights.push(tensor);
    return tensor;
  }

  constant(data: ConstantData, shape: Shape = [data.length]): Tensor {
    const dtype = data instanceof Float32Array ? "float32" : data instanceof Int32Array ? "int32" : "int64";
    const key = `${dtype}${showShape(shape)}${data.length <= 64 ? data.join() : ""}`;
    const known = data.length <= 64 ? this.#shared.get(key) : undefined;
    if (known) return known;
    const tensor = this.#tensor(`const${this.#next}`, shape, dtype);
    this.constants.set(tensor, data);
    if (data.length <= 64) this.#shared.set(key, tensor);
    return tensor;
  }

  scalar(value: number): Tensor {
    return this.constant(Float32Array.of(value), []);
  }

  /** A constant list of sizes, axes or indices, as ONNX wants them. */
  int64(values: readonly number[]): Tensor {
    return this.constant(BigInt64Array.from(values, BigInt));
  }

  /** Adds an operation with one output. */
  node(type: string, inputs: readonly Tensor[], shape: Shape, options: NodeOptions = {}): Tensor {
    return this.multi(type, inputs, [{ shape, dtype: options.dtype ?? "float32" }], options)[0]!;
  }

  /** Adds an operation with several outputs; gradients pass through the first only. */
  multi(
    type: string,
    inputs: readonly Tensor[],
    outputs: readonly { shape: Shape; dtype?: Dtype }[],
    options: NodeOptions = {},
  ): Tensor[] {
    const requiresGrad = options.backward !== undefined && inputs.some((input) => input.requiresGrad);
    const made = outputs.map(({ shape, dtype }, index): Tensor => {
      const tensor = this.#tensor(`t${this.#next}`, shape, dtype ?? "float32", requiresGrad && index === 0);
      if (!tensor.requiresGrad || !options.backward) return tensor;
      return { ...tensor, backward: { inputs, rule: options.backward } };
    });
    this.nodes.push({
      type,
      domain: options.domain ?? "",
      inputs,
      outputs: made,
      attributes: options.attributes ?? {},
    });
    return made;
  }

  /**
   * Replaces the chain of rules between `inputs` and `value` by one hand-written rule: for compositions whose gradient has a
   * cheaper form than that of their parts. `value` must have been computed from `inputs` alone. Returns the value under the new rule.
   */
  withGradient(value: Tensor, inputs: readonly Tensor[], rule: Backward): Tensor {
    if (!inputs.some((input) => input.requiresGrad)) return value;
    return { ...value, requiresGrad: true, backward: { inputs, rule } };
  }

  /** Names a value as a result of the graph. */
  output(name: string, value: Tensor): void {
    this.outputs.set(name, value);
  }
}
