/**
 * Causal grouped-query attention over a packed token axis, with its hand-written gradient. Rows of q, k and v are gathered into
 * rectangular groups of sequences of similar length. Keys are not repeated for the query heads that share them. The gradient uses
 * rowsum(dO·O) instead of a second pass over the probabilities.
 */
import { type Dim, product } from "../graph/dims.ts";
import type { Graph, Tensor } from "../graph/graph.ts";
import {
  add,
  concat,
  gather,
  matmul,
  mul,
  reduceSum,
  reshape,
  rope,
  slice,
  softmax,
  squeeze,
  sub,
} from "../graph/ops.ts";

/** Added to masked scores; their probability underflows to exactly 0. */
export const masked = -1e30;

/**
 * A batch of sequences padded to one length. Indices refer to the packed rows; padding refers to an arbitrary row and is disabled
 * by `valid`.
 */
export interface AttentionGroup {
  /** `[batch, heads, time]` into the q rows. */
  readonly q: Tensor;
  /** `[batch, kvHeads, time]` into the k and v rows. */
  readonly kv: Tensor;
  /** `[batch, time]`. */
  readonly positions: Tensor;
  /** `[time, time]`: 0 if a query (row) attends to a key (column), {@link masked} otherwise. */
  readonly mask: Tensor;
  /**
   * `[batch, 1, time, 1]`: 1 on tokens, 0 on padding. Padding comes last, so the causal mask hides it from tokens; `valid` excludes
   * the padding's own queries from the gradients.
   */
  readonly valid: Tensor;
}

export interface PackedAttentionInputs {
  /** `[tokens]`. */
  readonly tokens: Tensor;
  readonly groups: readonly AttentionGroup[];
  readonly cos: Tensor;
  readonly sin: Tensor;
  /** `[heads · tokens]` and `[kvHeads · tokens]`: the index of each packed row in the concatenated rows of the groups. */
  readonly unpackQ: Tensor;
  readonly unpackKv: Tensor;
}

export interface AttentionShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Recompute the probabilities in the backward pass instead of storing them (heads · time values per token and layer). */
  readonly recomputeAttention: boolean;
}

/** Queries `[batch, heads, queries, headDim]`, keys and values `[batch, kvHeads, keys, headDim]`, and a mask that broadcasts to all scores. */
export interface Rectangle {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  /** 0 if a query attends to a key, {@link masked} otherwise. */
  readonly mask: Tensor;
}

export interface ScoreOptions {
  /** Factor on the scores. @defaultValue 1 */
  readonly alpha?: number;
  /** Maximum columns of a head that one product sums over; wider heads are split into several products. @defaultValue all */
  readonly longestSum?: number;
}

/** alpha · q·kᵀ. */
export const scoresOf = (
  graph: Graph,
  q: Tensor,
  k: Tensor,
  { alpha = 1, longestSum = Number.POSITIVE_INFINITY }: ScoreOptions,
): Tensor => {
  const axis = q.shape.length - 1;
  const columns = q.shape[axis] as number;
  if (columns <= longestSum) return matmul(graph, q, k, { transB: true, alpha });
  const parts = Array.from({ length: Math.ceil(columns / longestSum) }, (_, part) => {
    const [from, to] = [part * longestSum, Math.min(columns, (part + 1) * longestSum)];
    const [left, right] = [q, k].map((side) => slice(graph, side, { axis, from, to })) as [Tensor, Tensor];
    return matmul(graph, left, right, { transB: true, alpha });
  });
  return parts.reduce((sum, part) => add(graph, sum, part));
};

/**
 * softmax(q·kᵀ / √headDim + mask)·v. Query heads that share a key head are stacked along time instead of repeating the keys: the
 * result is `[batch, kvHeads, share · queries, headDim]`.
 */
export const attend = (
  graph: Graph,
  { q, k, v, mask }: Rectangle,
  { heads, kvHeads, headDim, longestSum = headDim }: Omit<AttentionShape, "recomputeAttention"> & ScoreOptions,
) => {
  const [batch, , queries] = q.shape as [Dim, Dim, Dim, Dim];
  const keys = k.shape[2]!;
  const stackedTime = product([heads / kvHeads, queries]);
  const alpha = 1 / Math.sqrt(headDim);
  const stacked = reshape(graph, q, [batch, kvHeads, stackedTime, headDim]);
  const probabilities = (): Tensor => {
    const scores = reshape(graph, scoresOf(graph, stacked, k, { alpha, longestSum }), [batch, heads, queries, keys]);
    return reshape(graph, softmax(graph, add(graph, scores, mask)), [batch, kvHeads, stackedTime, keys]);
  };
  const kept = probabilities();
  const attended = matmul(graph, kept, v);
  return {
    attended,
    /** Gradients of q (stacked), k and v from the result's gradient. Without `recompute`, the probabilities are stored for this. */
    gradients: (grad: Tensor, recompute: boolean): { q: Tensor; k: Tensor; v: Tensor } => {
      const weights = recompute ? probabilities() : kept;
      const dV = matmul(graph, weights, grad, { transA: true });
      const delta = reduceSum(graph, mul(graph, grad, attended), [-1]);
      const dScores = mul(graph, weights, sub(graph, matmul(graph, grad, v, { transB: true }), delta));
      return {
        q: matmul(graph, dScores, k, { alpha }),
        k: matmul(graph, dScores, stacked, { transA: true, alpha }),
        v: dV,
      };
    },
  };
};

/** q, k, v rows (`[heads · tokens, headDim]`, …) to `[tokens, heads · headDim]`. */
export const packedAttention = (
  graph: Graph,
  rows: { readonly q: Tensor; readonly k: Tensor; readonly v: Tensor },
  inputs: PackedAttentionInputs,
  shape: AttentionShape,
): Tensor => {
  const { heads, kvHeads, headDim } = shape;
  const tables = { cos: inputs.cos, sin: inputs.sin };

  const groups = inputs.groups.map((group) => {
    const [batch, time] = group.positions.shape as [Dim, Dim];
    const { attended, gradients } = attend(
      graph,
      {
        q: rope(graph, gather(graph, rows.q, group.q), group.positions, tables),
        k: rope(graph, gather(graph, rows.k, group.kv), group.positions, tables),
        v: gather(graph, rows.v, group.kv),
        mask: group.mask,
      },
      shape,
    );
    return { group, batch, time, perHead: [batch, heads, time, headDim], attended, gradients };
  });

  /** Concatenates the groups' values and restores packed order. */
  const unpack = (values: readonly Tensor[], indices: Tensor, count: number): Tensor => {
    const flat = values.map((value, index) => {
      const { batch, time } = groups[index]!;
      return reshape(graph, value, [product([count, batch, time]), headDim]);
    });
    return gather(graph, concat(graph, flat, 0, "groupRows"), indices);
  };
  const packed = unpack(
    groups.map(({ attended }) => attended),
    inputs.unpackQ,
    heads,
  );
  const output = reshape(graph, packed, [inputs.tokens.shape[0]!, heads * headDim]);

  return graph.withGradient(output, [rows.q, rows.k, rows.v], (grad) => {
    const gradRows = reshape(graph, grad, rows.q.shape); // [heads · tokens, headDim]
    const parts = groups.map(({ group, perHead, attended, gradients }) => {
      const dO = mul(graph, gather(graph, gradRows, group.q), group.valid);
      const { q, k, v } = gradients(reshape(graph, dO, attended.shape), shape.recomputeAttention);
      return {
        q: rope(graph, reshape(graph, q, perHead), group.positions, tables, true),
        k: rope(graph, k, group.positions, tables, true),
        v,
      };
    });
    const back = (name: "q" | "k" | "v"): Tensor =>
      unpack(
        parts.map((part) => part[name]),
        name === "q" ? inputs.unpackQ : inputs.unpackKv,
        name === "q" ? heads : kvHeads,
      );
    return [
      rows.q.requiresGrad ? back("q") : null,
      rows.k.requiresGrad ? back("k") : null,
      rows.v.requiresGrad ? back("v") : null,
    ];
  });
};

/** A padded batch of clusters of a prefix tree (see `train/clusters.ts`). Indices refer to the packed rows. */
export interface TreeGroup {
  /** `[batch, heads, queries]` into the q rows. */
  readonly q: Tensor;
  /** `[batch, kvHeads, keys]` into the k and v rows. */
  readonly kv: Tensor;
  /** `[batch, 1, queries, keys]`: 0 if a query attends to a key, {@link masked} otherwise. */
  readonly mask: Tensor;
  /** `[batch, 1, queries, 1]`: 1 on tokens, 0 on padding. */
  readonly valid: Tensor;
}

export interface TreeAttentionInputs {
  /** `[tokens]`. */
  readonly tokens: Tensor;
  /** `[tokens, 1]`: depth of each token in the tree. */
  readonly positions: Tensor;
  readonly groups: readonly TreeGroup[];
  readonly cos: Tensor;
  readonly sin: Tensor;
  /** `[heads · tokens]`: index of each packed row of q in the concatenated rows of the groups. */
  readonly unpackQ: Tensor;
  /** `[rows, occurrences]` each: indices of the rows of k and v in the groups' rows, or of the row of zeros after them. */
  readonly sums: readonly Tensor[];
  /** `[kvHeads · tokens]`: index of each packed row of k and v in the concatenated sums. */
  readonly unpackKv: Tensor;
}

/** Number of classes into which keys are grouped by number of occurrences, to sum their gradients. */
export const keyGradientClasses = 3;

/**
 * Like `packedAttention`, over a prefix tree: each token is a query once, and a key in every cluster below it. Rotary embeddings
 * are applied before keys are repeated. The gradients of repeated keys are gathered and summed in an order that does not depend on
 * the number of threads.
 */
export const treeAttention = (
  graph: Graph,
  rows: { readonly q: Tensor; readonly k: Tensor; readonly v: Tensor },
  { inputs, shape }: { readonly inputs: TreeAttentionInputs; readonly shape: AttentionShape },
): Tensor => {
  const { heads, kvHeads, headDim } = shape;
  const tables = { cos: inputs.cos, sin: inputs.sin };
  const tokens = inputs.tokens.shape[0]!;
  const rotate = (flat: Tensor, count: number, inverse = false): Tensor =>
    reshape(
      graph,
      rope(graph, reshape(graph, flat, [tokens, count, 1, headDim]), inputs.positions, tables, inverse),
      flat.shape,
    );
  const rotated = { q: rotate(rows.q, heads), k: rotate(rows.k, kvHeads) };

  const groups = inputs.groups.map((group) => {
    const [batch, , queries, keys] = group.mask.shape as [Dim, Dim, Dim, Dim];
    const { attended, gradients } = attend(
      graph,
      {
        q: gather(graph, rotated.q, group.q),
        k: gather(graph, rotated.k, group.kv),
        v: gather(graph, rows.v, group.kv),
        mask: group.mask,
      },
      shape,
    );
    return { group, batch, queries, keys, attended, gradients };
  });

  /** Concatenates the values of the groups' queries and restores packed order. */
  const unpackQ = (values: readonly Tensor[]): Tensor => {
    const flat = values.map((value, index) => {
      const { batch, queries } = groups[index]!;
      return reshape(graph, value, [product([heads, batch, queries]), headDim]);
    });
    return gather(graph, concat(graph, flat, 0, "groupRows"), inputs.unpackQ);
  };
  const output = reshape(graph, unpackQ(groups.map(({ attended }) => attended)), [tokens, heads * headDim]);

  return graph.withGradient(output, [rows.q, rows.k, rows.v], (grad) => {
    const gradRows = reshape(graph, grad, rows.q.shape); // [heads · tokens, headDim]
    const parts = groups.map(({ group, attended, gradients }) => {
      const dO = mul(graph, gather(graph, gradRows, group.q), group.valid);
      return gradients(reshape(graph, dO, attended.shape), shape.recomputeAttention);
    });
    const zeros = graph.constant(new Float32Array(headDim), [1, headDim]);
    /** Sums each key's gradients over all clusters. */
    const sumKv = (name: "k" | "v"): Tensor => {
      const flat = parts.map((part, index) => {
        const { batch, keys } = groups[index]!;
        return reshape(graph, part[name], [product([kvHeads, batch, keys]), headDim]);
      });
      const laid = concat(graph, [...flat, zeros], 0, "keyRows");
      const sums = inputs.sums.map((index) => squeeze(graph, reduceSum(graph, gather(graph, laid, index), [1]), 1));
      return gather(graph, concat(graph, sums, 0, "summedRows"), inputs.unpackKv);
    };
    return [
      rows.q.requiresGrad ? rotate(unpackQ(parts.map(({ q }) => q)), heads, true) : null,
      rows.k.requiresGrad ? rotate(sumKv("k"), kvHeads, true) : null,
      rows.v.requiresGrad ? sumKv("v") : null,
    ];
  });
};
