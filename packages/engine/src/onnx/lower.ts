/**
 * Adapts graphs to a provider when they are encoded: replaces operations that it lacks, and stores frozen weights in bfloat16. Engine code
 * builds one graph for all providers and precisions.
 */
import { type Attribute, type ConstantData, type Dtype, Graph, type GraphNode, type Tensor } from "../graph/graph.ts";
import { dtypeCodes } from "./model.ts";

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

/** A slice for each part: a shader has too few bindings for many outputs. */
const lowerSplit: Lowering = ({ inputs, outputs, attributes }, fresh) => {
  const [whole] = inputs as [Tensor];
  const axis = numberOf(attributes["axis"], 0);
  if (outputs.some(({ shape }) => typeof shape[axis] !== "number")) {
    return [{ type: "Split", domain: "", inputs, outputs, attributes }];
  }
  let at = 0;
  return outputs.map((output) => {
    const from = at;
    at += output.shape[axis] as number;
    return onnxNode("Slice", [whole, fresh.axes(from), fresh.axes(at), fresh.axes(axis)], [output]);
  });
};

/** Operations that WebGPU lacks or limits. */
const webgpuLowerings: Readonly<Record<string, Lowering>> = {
  FusedMatMul: lowerFusedMatMul,
  SimplifiedLayerNormalization: lowerNorm,
  Split: lowerSplit,
};

/** An equivalent graph with replaced nodes. The given graph is unchanged. */
function lowered(graph: Graph, lower: Lowering, weights: readonly Tensor[] = graph.weights): Graph {
  const result = new Graph();
  result.inputs.push(...graph.inputs);
  result.weights.push(...weights);
  for (const [tensor, data] of graph.constants) result.constants.set(tensor, data);
  for (const [name, tensor] of graph.outputs) result.outputs.set(name, tensor);
  for (const size of graph.possiblyEmpty) result.possiblyEmpty.add(size);
  const used = new Set([...graph.nodes.flatMap(({ inputs }) => inputs), ...graph.outputs.values()].map(({ id }) => id));
  // The given graph's ids count up from 0 or, if it was lowered before, down from −1: new ones continue downwards.
  const given = [...graph.constants.keys(), ...graph.nodes.flatMap(({ outputs }) => outputs)];
  let lowest = given.reduce((least, { id }) => Math.min(least, id), 0);
  const constant = (data: ConstantData, like: Pick<Tensor, "shape" | "dtype">): Tensor => {
    const tensor = fresh.tensor(like);
    result.constants.set(tensor, data);
    return tensor;
  };
  const fresh: Fresh = {
    tensor: ({ shape, dtype }) => {
      const id = --lowest;
      return { name: `lowered${-id}`, id, shape, dtype, requiresGrad: false };
    },
    scalar: (value) => constant(Float32Array.of(value), { shape: [], dtype: "float32" }),
    axes: (...axes) => constant(BigInt64Array.from(axes, BigInt), { shape: [axes.length], dtype: "int64" }),
    isUsed: ({ id }) => used.has(id),
  };
  for (const node of graph.nodes) result.nodes.push(...lower(node, fresh));
  return result;
}

export const lowerForWebGpu = (graph: Graph): Graph =>
  lowered(graph, (node, fresh) => webgpuLowerings[node.type]?.(node, fresh) ?? [node]);

/**
 * The largest value of each row, through its index: CUDA reduces a row with a single block of threads (11 ms for 8 rows of 151,936 values on
 * an H200), but finds its index with many (10 µs).
 */
const lowerReduceMax: Lowering = (node, fresh) => {
  const [x] = node.inputs as [Tensor];
  if (x.shape.length !== 2) return [node];
  const index = fresh.tensor({ shape: [x.shape[0]!, 1], dtype: "int64" });
  return [
    onnxNode("ArgMax", [x], [index], { axis: 1, keepdims: 1 }),
    onnxNode("GatherElements", [x, index], node.outputs, { axis: 1 }),
  ];
};

export const lowerForCuda = (graph: Graph): Graph =>
  lowered(graph, (node, fresh) => (node.type === "ReduceMax" ? lowerReduceMax(node, fresh) : [node]));

/** Weights of the products that compute logits. */
const headWeights: ReadonlySet<string> = new Set(["model.embed_tokens.weight", "lm_head.weight"]);

/** Weight matrices are stored in bfloat16; norms and biases, which are small, stay float32. */
export const bfloat16Weights = (weights: readonly Tensor[]): readonly Tensor[] =>
  weights.map((weight) => (weight.shape.length === 2 ? { ...weight, dtype: "bfloat16" } : weight));

/**
 * The graph with its weight matrices in bfloat16. Products with them take and return bfloat16 (sums inside a product are float32);
 * everything else stays float32: LoRA matrices, norms, attention, log-probs, losses. The head converts its matrix to float32, because
 * rounding logits to 8 bits would add an error of up to 2⁻⁹ of their size to every log-prob.
 */
export function withBfloat16Weights(graph: Graph): Graph {
  const weights = bfloat16Weights(graph.weights);
  const halfIds = new Set(weights.filter(({ dtype }) => dtype === "bfloat16").map(({ id }) => id));
  /** Converted tensors, by id and type: linears with a common input convert it once. */
  const converted = new Map<string, Tensor>();
  return lowered(
    graph,
    (node, fresh) => {
      const isHalf = ({ id }: Tensor): boolean => halfIds.has(id);
      if (!node.inputs.some(isHalf)) return [node];
      const nodes: GraphNode[] = [];
      const convert = (from: Tensor, dtype: Dtype, to: Tensor): Tensor => {
        nodes.push(onnxNode("Cast", [from], [to], { to: dtypeCodes[dtype] }));
        return to;
      };
      const as = (dtype: Dtype, tensor: Tensor): Tensor => {
        const key = `${dtype} ${tensor.id}`;
        const result = converted.get(key) ?? convert(tensor, dtype, fresh.tensor({ shape: tensor.shape, dtype }));
        converted.set(key, result);
        return result;
      };
      const isProduct = node.type === "MatMul" || node.type === "FusedMatMul";
      const isHead = isProduct && node.inputs.some(({ name }) => headWeights.has(name));
      if (isHead || (!isProduct && node.type !== "Gather")) {
        const inputs = node.inputs.map((input) => (isHalf(input) ? as("float32", input) : input));
        return [...nodes, { ...node, inputs }];
      }
      const inputs = isProduct
        ? node.inputs.map((input) => (isHalf(input) ? input : as("bfloat16", input)))
        : node.inputs;
      const [output] = node.outputs as [Tensor];
      const half = fresh.tensor({ shape: output.shape, dtype: "bfloat16" });
      const made = { ...node, inputs, outputs: [half] };
      const before = nodes.splice(0);
      convert(half, "float32", output);
      return [...before, made, ...nodes];
    },
    weights,
  );
}
