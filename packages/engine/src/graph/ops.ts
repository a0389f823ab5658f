/**
 * The graph operations that transformers need. Each function checks shapes (errors name the function), adds ONNX nodes and defines
 * its vector-Jacobian product. `sumTo` reverses broadcasting in gradients. In comments, g is the incoming gradient.
 */
import { broadcast, type Dim, mayBeEmpty, product, type Shape, sameShape, showShape } from "./dims.ts";
import { type Graph, ShapeError, type Tensor } from "./graph.ts";

const microsoft = { domain: "com.microsoft" } as const;
const at = (shape: Shape, axis: number): Dim => shape.at(axis)!;

const elementwise = (name: string, a: Tensor, b: Tensor): Shape => {
  const shape = broadcast(a.shape, b.shape);
  if (!shape) throw new ShapeError(name, "shapes do not broadcast", [a.shape, b.shape]);
  return shape;
};

/** Sums a gradient over broadcast axes, back to `shape`. */
const sumTo = (graph: Graph, grad: Tensor, shape: Shape): Tensor => {
  if (sameShape(grad.shape, shape)) return grad;
  const extra = grad.shape.length - shape.length;
  const axes = grad.shape
    .map((_, axis) => axis)
    .filter((axis) => axis < extra || shape[axis - extra] !== grad.shape[axis]);
  return reshape(graph, reduceSum(graph, grad, axes), shape);
};

export const add = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Add", [a, b], elementwise("add", a, b), {
    backward: (g) => [
      a.requiresGrad ? sumTo(graph, g, a.shape) : null,
      b.requiresGrad ? sumTo(graph, g, b.shape) : null,
    ],
  });

export const sub = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Sub", [a, b], elementwise("sub", a, b), {
    backward: (g) => [
      a.requiresGrad ? sumTo(graph, g, a.shape) : null,
      b.requiresGrad ? sumTo(graph, scale(graph, g, -1), b.shape) : null,
    ],
  });

export const mul = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Mul", [a, b], elementwise("mul", a, b), {
    backward: (g) => [
      a.requiresGrad ? sumTo(graph, mul(graph, g, b), a.shape) : null,
      b.requiresGrad ? sumTo(graph, mul(graph, g, a), b.shape) : null,
    ],
  });

/** Multiplies by a constant number. */
export const scale = (graph: Graph, a: Tensor, factor: number): Tensor =>
  graph.node("Mul", [a, graph.scalar(factor)], a.shape, { backward: (g) => [scale(graph, g, factor), null] });

export const exp = (graph: Graph, a: Tensor): Tensor => {
  const y: Tensor = graph.node("Exp", [a], a.shape, { backward: (g) => [mul(graph, g, y)] });
  return y;
};

/** Natural logarithm; its gradient is g / a. */
export const log = (graph: Graph, a: Tensor): Tensor =>
  graph.node("Log", [a], a.shape, { backward: (g) => [graph.node("Div", [g, a], a.shape)] });

/** Square root; no gradient passes (used by the optimizer only). */
export const sqrt = (graph: Graph, a: Tensor): Tensor => graph.node("Sqrt", [a], a.shape);

export const sigmoid = (graph: Graph, a: Tensor): Tensor => {
  const y: Tensor = graph.node("Sigmoid", [a], a.shape, {
    // g · y · (1 − y)
    backward: (g) => [mul(graph, g, sub(graph, y, mul(graph, y, y)))],
  });
  return y;
};

/** Elementwise minimum and maximum, without gradient (used only on detached coefficients). */
export const minimum = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Min", [a, b], elementwise("minimum", a, b));
export const maximum = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Max", [a, b], elementwise("maximum", a, b));

export const greater = (graph: Graph, a: Tensor, b: Tensor): Tensor =>
  graph.node("Greater", [a, b], elementwise("greater", a, b), { dtype: "bool" });

/** `condition ? a : b`. Unlike multiplication by a 0/1 mask, infinities in the unselected branch do not become NaN. */
export const where = (graph: Graph, condition: Tensor, a: Tensor, b: Tensor): Tensor => {
  const inner = elementwise("where", a, b);
  const shape = broadcast(condition.shape, inner);
  if (!shape) throw new ShapeError("where", "condition does not broadcast", [condition.shape, inner]);
  const zero = graph.scalar(0);
  return graph.node("Where", [condition, a, b], shape, {
    backward: (g) => [
      null,
      a.requiresGrad ? sumTo(graph, where(graph, condition, g, zero), a.shape) : null,
      b.requiresGrad ? sumTo(graph, where(graph, condition, zero, g), b.shape) : null,
    ],
  });
};

/** Transposition of the last two axes is part of the product, without a transposed copy. */
export interface MatmulOptions {
  readonly transA?: boolean;
  readonly transB?: boolean;
  /** Factor on the result. */
  readonly alpha?: number;
}

/**
 * alpha · op(a) · op(b) over the last two axes. Leading axes must be equal, or absent on one side (on `a` only without gradient).
 * Without gradient, a leading axis of `b` may also be 1.
 */
export const matmul = (graph: Graph, a: Tensor, b: Tensor, options: MatmulOptions = {}): Tensor => {
  const { transA = false, transB = false, alpha = 1 } = options;
  if (a.shape.length < 2 || b.shape.length < 2) {
    throw new ShapeError("matmul", "operands need at least two axes", [a.shape, b.shape]);
  }
  const rows = at(a.shape, transA ? -1 : -2);
  const inner = at(a.shape, transA ? -2 : -1);
  const columns = at(b.shape, transB ? -2 : -1);
  if (inner !== at(b.shape, transB ? -1 : -2)) {
    throw new ShapeError("matmul", `inner dimensions differ${transA || transB ? " (after transposition)" : ""}`, [
      a.shape,
      b.shape,
    ]);
  }
  const shared = b.shape.length === 2 && a.shape.length > 2;
  const frozen = !a.requiresGrad && !b.requiresGrad;
  const sharedA = a.shape.length === 2 && b.shape.length > 2 && frozen;
  const leading = (sharedA ? b : a).shape.slice(0, -2);
  const leadingB = b.shape.slice(0, -2).map((dim, axis) => (frozen && dim === 1 ? leading[axis]! : dim));
  if (!shared && !sameShape(leading, leadingB)) {
    throw new ShapeError("matmul", "leading axes differ", [a.shape, b.shape]);
  }
  if (shared && (a.requiresGrad || b.requiresGrad) && b.requiresGrad) {
    throw new ShapeError("matmul", "a shared trainable operand needs two-dimensional operands", [a.shape, b.shape]);
  }
  const plain = !transA && !transB && alpha === 1;
  return graph.node(plain ? "MatMul" : "FusedMatMul", [a, b], [...leading, rows, columns], {
    ...(plain ? {} : microsoft),
    attributes: plain ? {} : { transA: transA ? 1 : 0, transB: transB ? 1 : 0, alpha: { float: alpha } },
    backward: (g) => [
      !a.requiresGrad
        ? null
        : transA
          ? matmul(graph, b, g, { transA: transB, transB: true, alpha })
          : matmul(graph, g, b, { transB: !transB, alpha }),
      !b.requiresGrad
        ? null
        : transB
          ? matmul(graph, g, a, { transA: true, transB: transA, alpha })
          : matmul(graph, a, g, { transA: !transA, alpha }),
    ],
  });
};

/**
 * Same values with another shape. ONNX writes an unknown size as 0 (copy the input's size) or as a single -1 (infer it). Throws if
 * the target needs more than one inferred size, or if the inferred size is undefined because another size may be 0.
 */
export const reshape = (graph: Graph, a: Tensor, shape: Shape): Tensor => {
  if (sameShape(a.shape, shape)) return a;
  if (product(a.shape) !== product(shape)) {
    throw new ShapeError("reshape", "element counts differ", [a.shape, shape]);
  }
  let rests = 0;
  const spelled = shape.map((dim, axis) => {
    if (typeof dim === "number") return dim;
    if (a.shape[axis] === dim) return 0;
    rests++;
    return -1;
  });
  if (rests > 1) throw new ShapeError("reshape", "more than one size is unknown", [a.shape, shape]);
  if (rests === 1 && shape.some((dim, axis) => spelled[axis] === 0 && mayBeEmpty(dim, graph.possiblyEmpty))) {
    throw new ShapeError("reshape", "an unknown size next to a size that may be 0 cannot be inferred", [
      a.shape,
      shape,
    ]);
  }
  return graph.node("Reshape", [a, graph.int64(spelled)], shape, {
    dtype: a.dtype,
    backward: (g) => [reshape(graph, g, a.shape), null],
  });
};

/** Drops an axis of size 1. */
export const squeeze = (graph: Graph, a: Tensor, axis: number): Tensor => {
  if (a.shape[axis] !== 1) throw new ShapeError("squeeze", `axis ${axis} does not have size 1`, [a.shape]);
  return graph.node("Squeeze", [a, graph.int64([axis])], a.shape.toSpliced(axis, 1), {
    dtype: a.dtype,
    backward: (g) => [unsqueeze(graph, g, axis), null],
  });
};

/** Inserts an axis of size 1; unlike reshape, it is defined for empty tensors. */
export const unsqueeze = (graph: Graph, a: Tensor, axis: number): Tensor => {
  const shape = [...a.shape.slice(0, axis), 1, ...a.shape.slice(axis)];
  return graph.node("Unsqueeze", [a, graph.int64([axis])], shape, {
    dtype: a.dtype,
    backward: (g) => [squeeze(graph, g, axis), null],
  });
};

/**
 * Flattens to a matrix: the axes before `axis` become rows, the others columns. Unlike reshape, it is defined for empty tensors. No
 * gradient.
 */
export const flatten = (graph: Graph, a: Tensor, axis: number): Tensor =>
  graph.node("Flatten", [a], [product(a.shape.slice(0, axis)), product(a.shape.slice(axis))], { attributes: { axis } });

export const transpose = (graph: Graph, a: Tensor, permutation: readonly number[]): Tensor => {
  if (
    [...permutation].sort((x, y) => x - y).some((axis, index) => axis !== index) ||
    permutation.length !== a.shape.length
  ) {
    throw new ShapeError("transpose", `${permutation.join()} is not a permutation of the axes`, [a.shape]);
  }
  const inverse = permutation.map((_, axis) => permutation.indexOf(axis));
  return graph.node(
    "Transpose",
    [a],
    permutation.map((axis) => a.shape[axis]!),
    {
      attributes: { perm: permutation },
      backward: (g) => [transpose(graph, g, inverse)],
    },
  );
};

/** Concatenates along an axis. `size` is the resulting size, required if not all parts have a known size. */
export const concat = (graph: Graph, parts: readonly Tensor[], axis: number, size?: Dim): Tensor => {
  const first = parts[0];
  if (!first) throw new ShapeError("concat", "no parts");
  if (parts.length === 1) return first;
  let total = 0;
  for (const part of parts) {
    const fits =
      part.shape.length === first.shape.length && part.shape.every((dim, i) => i === axis || dim === first.shape[i]);
    if (!fits) throw new ShapeError("concat", `parts differ outside axis ${axis}`, [first.shape, part.shape]);
    const dim = part.shape[axis]!;
    total = typeof dim === "number" ? total + dim : Number.NaN;
  }
  if (Number.isNaN(total) && size === undefined) {
    throw new ShapeError(
      "concat",
      "parts of unknown size need a name for the resulting size",
      parts.map((part) => part.shape),
    );
  }
  const shape = first.shape.map((dim, i) => (i === axis ? (Number.isNaN(total) ? size! : total) : dim));
  return graph.node("Concat", parts, shape, {
    attributes: { axis },
    backward: (g) => {
      let start = 0;
      return parts.map((part) => {
        const dim = part.shape[axis]!;
        if (typeof dim !== "number")
          throw new ShapeError("concat", "no gradient for parts of unknown size", [part.shape]);
        const from = start;
        start += dim;
        return part.requiresGrad ? slice(graph, g, { axis, from, to: start }) : null;
      });
    },
  });
};

/** Elements `from` to `to` (exclusive) of one axis of known size. */
export const slice = (
  graph: Graph,
  a: Tensor,
  { axis, from, to }: { readonly axis: number; readonly from: number; readonly to: number },
): Tensor => {
  const size = a.shape[axis];
  if (typeof size !== "number" || from < 0 || to > size || from >= to) {
    throw new ShapeError("slice", `${from}..${to} of axis ${axis} does not exist`, [a.shape]);
  }
  const shape = a.shape.map((dim, i) => (i === axis ? to - from : dim));
  return graph.node("Slice", [a, graph.int64([from]), graph.int64([to]), graph.int64([axis])], shape, {
    backward: (g) => {
      const pads = a.shape.map(() => 0);
      pads[axis] = from;
      const after = a.shape.map(() => 0);
      after[axis] = size - to;
      return [graph.node("Pad", [g, graph.int64([...pads, ...after])], a.shape), null, null, null];
    },
  });
};

/** Splits an axis into parts of the given sizes; `lengths` has the sizes if they are known only at run time. No gradient. */
export const split = (graph: Graph, a: Tensor, axis: number, sizes: readonly Dim[], lengths?: Tensor): Tensor[] =>
  graph.multi(
    "Split",
    [a, lengths ?? graph.int64(sizes as number[])],
    sizes.map((size) => ({ shape: a.shape.with(axis, size) })),
    { attributes: { axis } },
  );

/** The `k` (a one-element int64 tensor) largest values of each row of a matrix, descending, and their indices. No gradient. */
export const topK = (graph: Graph, a: Tensor, k: Tensor): { values: Tensor; indices: Tensor } => {
  const shape = [a.shape[0]!, "k"];
  const [values, indices] = graph.multi("TopK", [a, k], [{ shape }, { shape, dtype: "int64" }], {
    attributes: { axis: -1, largest: 1, sorted: 1 },
  });
  return { values: values!, indices: indices! };
};

/** Rows of `table` by index: `[rows, ...rest]` and indices of any shape give `[...indices, ...rest]`. */
export const gather = (graph: Graph, table: Tensor, indices: Tensor): Tensor => {
  if (indices.dtype !== "int32" && indices.dtype !== "int64") {
    throw new ShapeError("gather", `indices must be integers, not ${indices.dtype}`);
  }
  return graph.node("Gather", [table, indices], [...indices.shape, ...table.shape.slice(1)], {
    dtype: table.dtype,
    attributes: { axis: 0 },
    backward: (g) => [table.requiresGrad ? scatterAddRows(graph, g, indices, table.shape) : null, null],
  });
};

/** Zeros of a known shape with `rows` added at `indices`; rows with the same index are summed. */
export const scatterAddRows = (graph: Graph, rows: Tensor, indices: Tensor, shape: Shape): Tensor => {
  if (shape.some((dim) => typeof dim === "string"))
    throw new ShapeError("scatterAddRows", "needs a known shape", [shape]);
  const zeros = graph.node("ConstantOfShape", [graph.int64(shape as number[])], shape);
  const positions = graph.node("Cast", [indices], indices.shape, { attributes: { to: 7 }, dtype: "int64" });
  const last = graph.node("Unsqueeze", [positions, graph.int64([indices.shape.length])], [...indices.shape, 1], {
    dtype: "int64",
  });
  return graph.node("ScatterND", [zeros, last, rows], shape, { attributes: { reduction: "add" } });
};

/** `a[i, indices[i, j]]` over the last axis of a matrix. */
export const gatherElements = (graph: Graph, a: Tensor, indices: Tensor): Tensor => {
  if (a.shape.length !== 2 || indices.shape.length !== 2 || a.shape[0] !== indices.shape[0]) {
    throw new ShapeError("gatherElements", "needs two matrices with equal rows", [a.shape, indices.shape]);
  }
  return graph.node("GatherElements", [a, indices], indices.shape, { dtype: a.dtype, attributes: { axis: 1 } });
};

/** Sums over axes, which keep size 1. */
export const reduceSum = (graph: Graph, a: Tensor, axes: readonly number[]): Tensor => {
  const positive = axes.map((axis) => (axis < 0 ? axis + a.shape.length : axis));
  const shape = a.shape.map((dim, axis) => (positive.includes(axis) ? 1 : dim));
  return graph.node("ReduceSum", [a, graph.int64(positive)], shape, {
    attributes: { keepdims: 1 },
    // g is expanded over the summed axes, to the run-time shape of a
    backward: (g) => [
      graph.node("Expand", [g, graph.node("Shape", [a], [a.shape.length], { dtype: "int64" })], a.shape),
      null,
    ],
  });
};

/** Maximum over the last axis, which keeps size 1. No gradient. */
export const reduceMax = (graph: Graph, a: Tensor): Tensor =>
  graph.node("ReduceMax", [a, graph.int64([a.shape.length - 1])], [...a.shape.slice(0, -1), 1], {
    attributes: { keepdims: 1 },
  });

export const softmax = (graph: Graph, a: Tensor): Tensor => {
  const y: Tensor = graph.node("Softmax", [a], a.shape, {
    attributes: { axis: -1 },
    // y · (g − Σ g·y)
    backward: (g) => [mul(graph, y, sub(graph, g, reduceSum(graph, mul(graph, g, y), [-1])))],
  });
  return y;
};

/** x · w / √(mean x² + ε) over the last axis. The weight is frozen, so only x gets a gradient. */
export const rmsNorm = (graph: Graph, x: Tensor, weight: Tensor, epsilon: number): Tensor => {
  const width = at(x.shape, -1);
  if (typeof width !== "number" || weight.shape.length !== 1 || weight.shape[0] !== width) {
    throw new ShapeError("rmsNorm", "the weight must match the last axis", [x.shape, weight.shape]);
  }
  // The second output is 1 / √(mean x² + ε) per row, which the gradient needs and the kernel computes anyway.
  const [y, inverse] = graph.multi(
    "SimplifiedLayerNormalization",
    [x, weight],
    [{ shape: x.shape }, { shape: [...x.shape.slice(0, -1), 1] }],
    {
      attributes: { axis: -1, epsilon: { float: epsilon } },
      // With v = g·w and i the inverse: i·v − x · i³ · mean(v·x)
      backward: (g) => {
        const v = mul(graph, g, weight);
        const dot = reduceSum(graph, mul(graph, v, x), [-1]);
        const cube = mul(graph, inverse!, mul(graph, inverse!, inverse!));
        const pull = scale(graph, mul(graph, dot, cube), 1 / width);
        return [sub(graph, mul(graph, v, inverse!), mul(graph, x, pull)), null];
      },
    },
  ) as [Tensor, Tensor];
  return y;
};

/** Tables of the rotary embedding: `cos` and `sin` are `[positions, headDim / 2]`. */
export interface RopeTables {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/**
 * Applies rotary embeddings in the "rotate half" layout of Hugging Face weights. x is `[batch, heads, time, headDim]`, positions
 * `[batch, time]`. `inverse` rotates by the negative angle.
 */
export const rope = (graph: Graph, x: Tensor, positions: Tensor, tables: RopeTables, inverse = false): Tensor => {
  const { shape } = x;
  if (shape.length !== 4 || !sameShape(positions.shape, [shape[0]!, shape[2]!])) {
    throw new ShapeError("rope", "needs [batch, heads, time, headDim] and positions [batch, time]", [
      shape,
      positions.shape,
    ]);
  }
  if (positions.dtype !== "int64") throw new ShapeError("rope", `positions must be int64, not ${positions.dtype}`);
  const half = at(tables.cos.shape, -1);
  if (typeof half !== "number" || half * 2 !== at(shape, -1)) {
    throw new ShapeError("rope", `tables of width ${half} do not fit ${showShape(shape)}`);
  }
  const sin = inverse ? graph.node("Neg", [tables.sin], tables.sin.shape) : tables.sin;
  return graph.node("RotaryEmbedding", [x, positions, tables.cos, sin], shape, {
    ...microsoft,
    attributes: { interleaved: 0 },
    backward: (g) => [rope(graph, g, positions, tables, !inverse), null, null, null],
  });
};

/** silu(gate) · up, the activation of all supported architectures. Both are `[tokens, mlp]`. */
export const swiglu = (graph: Graph, gate: Tensor, up: Tensor): Tensor => {
  if (!sameShape(gate.shape, up.shape)) throw new ShapeError("swiglu", "shapes differ", [gate.shape, up.shape]);
  const silu = graph.node("QuickGelu", [gate], gate.shape, { ...microsoft, attributes: { alpha: { float: 1 } } });
  const y = graph.node("Mul", [silu, up], gate.shape);
  // With s = σ(gate): d up = g · gate · s, and d gate = g · (up · silu′) = g · (y + s · (up − y)), which reuses y and up and saves
  // three products. silu is recomputed as gate · s: keeping it would cost a [tokens, mlp] buffer per layer.
  return graph.withGradient(y, [gate, up], (g) => {
    const s = sigmoid(graph, gate);
    const dUp = up.requiresGrad ? mul(graph, g, mul(graph, gate, s)) : null;
    const dGate = gate.requiresGrad ? mul(graph, g, add(graph, y, mul(graph, s, sub(graph, up, y)))) : null;
    return [dGate, dUp];
  });
};
