/**
 * The tensor graph: a list of ONNX operations with inferred shapes. Each differentiable tensor has a rule that computes the
 * gradients of its inputs from its own. Nodes are ONNX nodes, so that the three runtimes (native, wasm and the interpreter) execute
 * the same graph. Operations are in `ops.ts`.
 */
import { EngineError } from "../errors.ts";
import { type Shape, showShape } from "./dims.ts";

/** bfloat16 occurs on devices only: in frozen weights and the products with them. */
export type Dtype = "float32" | "bfloat16" | "int32" | "int64" | "bool";

/** ONNX attributes. Floats are wrapped because ONNX distinguishes `1` from `1.0` and JavaScript does not. */
export type Attribute = number | string | readonly number[] | { readonly float: number };

/** Computes the gradients of the inputs from the output's gradient; null for an input that needs none. */
export type Backward = (grad: Tensor) => readonly (Tensor | null)[];

/** A value in a graph. Handles are compared by identity. */
export interface Tensor {
  readonly name: string;
  /** Creation order: an operation's inputs always have smaller ids than its outputs. */
  readonly id: number;
  readonly shape: Shape;
  readonly dtype: Dtype;
  /** Whether this value depends on a trainable input. */
  readonly requiresGrad: boolean;
  /** The backward rule; absent on inputs and constants. */
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

/** Values of a constant stored in the graph. */
export type ConstantData = Float32Array | Int32Array | BigInt64Array;

/** Incompatible shapes. The message names the operation and the shapes. */
export class ShapeError extends EngineError {
  override name = "ShapeError";
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
  /** Absent if the operation does not propagate gradients. */
  readonly backward?: Backward;
}

/** A graph under construction. */
export class Graph {
  readonly nodes: GraphNode[] = [];
  /** Inputs passed to each run. */
  readonly inputs: Tensor[] = [];
  /** Frozen model weights, bound once when the graph is compiled. */
  readonly weights: Tensor[] = [];
  readonly constants = new Map<Tensor, ConstantData>();
  readonly outputs = new Map<string, Tensor>();
  /**
   * Named sizes that may be 0 at run time; runtimes reject inputs in which any other size is 0. Few ONNX operations are defined for
   * empty tensors, and some runtimes implement none of them.
   */
  readonly possiblyEmpty = new Set<string>();
  #next = 0;
  readonly #shared = new Map<string, Tensor>();

  #tensor(name: string, shape: Shape, dtype: Dtype, requiresGrad = false): Tensor {
    return { name, id: this.#next++, shape, dtype, requiresGrad };
  }

  /** Declares an input that is passed to each run; `trainable` makes it a leaf with a gradient. */
  input(name: string, shape: Shape, options: { dtype?: Dtype; trainable?: boolean } = {}): Tensor {
    const tensor = this.#tensor(name, shape, options.dtype ?? "float32", options.trainable ?? false);
    this.inputs.push(tensor);
    return tensor;
  }

  /** Declares a frozen weight. It has no gradient, and no work is done for one. */
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

  /** Declares a constant list of sizes, axes or indices, which ONNX requires as int64. */
  int64(values: readonly number[]): Tensor {
    return this.constant(BigInt64Array.from(values, BigInt));
  }

  /** Adds an operation with one output. */
  node(type: string, inputs: readonly Tensor[], shape: Shape, options: NodeOptions = {}): Tensor {
    return this.multi(type, inputs, [{ shape, dtype: options.dtype ?? "float32" }], options)[0]!;
  }

  /** Adds an operation with several outputs; only the first propagates gradients. */
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
   * Replaces the backward rules between `inputs` and `value` with one hand-written rule, for compositions whose gradient has a
   * cheaper form than that of their parts. `value` must depend on no other differentiable tensors. Returns the value with the new
   * rule.
   */
  withGradient(value: Tensor, inputs: readonly Tensor[], rule: Backward): Tensor {
    if (!inputs.some((input) => input.requiresGrad)) return value;
    return { ...value, requiresGrad: true, backward: { inputs, rule } };
  }

  /** The value as a leaf: it has a gradient, and differentiation ends there. */
  leaf(value: Tensor): Tensor {
    const { backward: _, ...rest } = value;
    return { ...rest, requiresGrad: true };
  }

  /** Declares a value as an output of the graph. */
  output(name: string, value: Tensor): void {
    this.outputs.set(name, value);
  }
}
