/**
 * Replaces operations that a provider lacks. Engine code builds one graph for all providers; it is adapted only here, when it is encoded.
 */
import { type Attribute, type ConstantData, Graph, type GraphNode, type Tensor } from "../graph/graph.ts";

/** The nodes that replace one node; the last of them has its outputs. */
type Lowering = (node: GraphNode, fresh: Fresh) => readonly GraphNode[];

/** Creates tensors and constants with new names. */
interface Fresh {
  tensor(like: Pick<Tensor, "shape" | "dtype">): Tensor;
  scalar(value: number): Tensor;
  axes(...axes: readonly number[]): Tensor;
  /** Whether any node or output reads a tensor. */
  isUsed(tensor: Tensor): boolean;
}

const numberOf = (attribute: Attribute | undefined, fallback: number): number =>
  attribute === undefined
    ? fallback
    : typeof attribute === "number"
      ? attribute
      : (attribute as { float: number }).float;

const onnxNode = (
  type: string,
  inputs: readonly Tensor[],
  outputs: readonly Tensor[],
  attributes: Readonly<Record<string, Attribute>> = {},
): GraphNode => ({ type, domain: "", inputs, outputs, attributes });

/** alpha · op(a) · op(b): Gemm for matrices, otherwise a product of transposed copies. */
const lowerFusedMatMul: Lowering = ({ inputs, outputs, attributes }, fresh) => {
  const [a, b] = inputs as [Tensor, Tensor];
  const [transA, transB] = [numberOf(attributes["transA"], 0), numberOf(attributes["transB"], 0)];
  const alpha = numberOf(attributes["alpha"], 1);
  if (a.shape.length === 2 && b.shape.length === 2) {
    return [onnxNode("Gemm", [a, b], outputs, { transA, transB, alpha: { float: alpha } })];
  }
  const nodes: GraphNode[] = [];
  const operand = (tensor: Tensor, transposed: number): Tensor => {
    if (!transposed) return tensor;
    const rank = tensor.shape.length;
    const perm = tensor.shape.map((_, axis) => (axis < rank - 2 ? axis : 2 * rank - 3 - axis));
    const swapped = fresh.tensor({ shape: perm.map((axis) => tensor.shape[axis]!), dtype: tensor.dtype });
    nodes.push(onnxNode("Transpose", [tensor], [swapped], { perm }));
    return swapped;
  };
  const factors = [operand(a, transA), operand(b, transB)];
  if (alpha === 1) return [...nodes, onnxNode("MatMul", factors, outputs)];
  const product = fresh.tensor(outputs[0]!);
  return [...nodes, onnxNode("MatMul", factors, [product]), onnxNode("Mul", [product, fresh.scalar(alpha)], outputs)];
};

/** Computes the second output, 1 / √(mean x² + ε) of each row, which WebGPU leaves unwritten. */
const lowerNorm: Lowering = (node, fresh) => {
  const [y, inverse] = node.outputs as [Tensor, Tensor];
  const alone = { ...node, outputs: [y] };
  if (!fresh.isUsed(inverse)) return [alone];
  const [x] = node.inputs as [Tensor, Tensor];
  const [squares, sum, mean, shifted, root] = [x, inverse, inverse, inverse, inverse].map(fresh.tensor) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const width = x.shape.at(-1) as number;
  return [
    alone,
    onnxNode("Mul", [x, x], [squares]),
    onnxNode("ReduceSum", [squares, fresh.axes(x.shape.length - 1)], [sum], { keepdims: 1 }),
    onnxNode("Mul", [sum, fresh.scalar(1 / width)], [mean]),
    onnxNode("Add", [mean, fresh.scalar(numberOf(node.attributes["epsilon"], 0))], [shifted]),
    onnxNode("Sqrt", [shifted], [root]),
    onnxNode("Div", [fresh.scalar(1), root], [inverse]),
  ];
};

/** Operations that WebGPU lacks. */
const webgpuLowerings: Readonly<Record<string, Lowering>> = {
  FusedMatMul: lowerFusedMatMul,
  SimplifiedLayerNormalization: lowerNorm,
};

/** An equivalent graph with replaced nodes. The given graph is unchanged. */
function lowered(graph: Graph, lowerings: Readonly<Record<string, Lowering>>): Graph {
  const result = new Graph();
  result.inputs.push(...graph.inputs);
  result.weights.push(...graph.weights);
  for (const [tensor, data] of graph.constants) result.constants.set(tensor, data);
  for (const [name, tensor] of graph.outputs) result.outputs.set(name, tensor);
  for (const size of graph.possiblyEmpty) result.possiblyEmpty.add(size);
  const used = new Set([...graph.nodes.flatMap(({ inputs }) => inputs), ...graph.outputs.values()].map(({ id }) => id));
  let count = 0;
  const constant = (data: ConstantData, like: Pick<Tensor, "shape" | "dtype">): Tensor => {
    const tensor = fresh.tensor(like);
    result.constants.set(tensor, data);
    return tensor;
  };
  const fresh: Fresh = {
    // The given graph's ids count up from 0, so new tensors have negative ids and a name prefix of their own.
    tensor: ({ shape, dtype }) => ({ name: `lowered${++count}`, id: -count, shape, dtype, requiresGrad: false }),
    scalar: (value) => constant(Float32Array.of(value), { shape: [], dtype: "float32" }),
    axes: (...axes) => constant(BigInt64Array.from(axes, BigInt), { shape: [axes.length], dtype: "int64" }),
    isUsed: ({ id }) => used.has(id),
  };
  for (const node of graph.nodes) result.nodes.push(...(lowerings[node.type]?.(node, fresh) ?? [node]));
  return result;
}

export const lowerForWebGpu = (graph: Graph): Graph => lowered(graph, webgpuLowerings);
