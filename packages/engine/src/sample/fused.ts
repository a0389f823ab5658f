/**
 * Computes linears with a common input as one product: q, k and v; gate and up. With few rows a product costs as much as reading its matrix
 * and waking the threads, so fewer, larger products are faster; and a wider product may have more rows before its bits depend on them
 * (`run-rows.ts`). The weights are contiguous in memory (`model/load.ts`), so no copy is needed.
 */
import { split } from "../graph/ops.ts";
import { type FrozenLinears, frozenLinear } from "../model/transformer.ts";
import type { WeightMap } from "../runtime/runtime.ts";

const separator = "+";

/** Linears computed as one; the weight's name joins all their names (`a+b.weight`), see `fuseWeights`. */
export const fusedLinears: FrozenLinears = (graph, x, { linears, bias }) => {
  const sizes = linears.map(({ outSize }) => outSize);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const name = linears.map((linear) => linear.name).join(separator);
  const y = frozenLinear(graph, x, { name, outSize: total, bias });
  return sizes.length === 1 ? [y] : split(graph, y, 1, sizes);
};

/** A linear with at least this many columns does not limit the rows of a prompt run. */
export const enoughColumns = 257;

/**
 * Groups linears with a common input for prompt runs: fused only if one of them is narrow. With many rows fusing saves nothing, and
 * splitting the result costs time.
 */
export const joinedForPrompts = <T extends { readonly outSize: number }>(linears: readonly T[]): (readonly T[])[] =>
  linears.some(({ outSize }) => outSize < enoughColumns) ? [linears] : linears.map((linear) => [linear]);

/** The groups of `joinedForPrompts`. */
export const promptLinears: FrozenLinears = (graph, x, { linears, bias }) =>
  joinedForPrompts(linears).flatMap((joined) => fusedLinears(graph, x, { linears: joined, bias }));

/** Weights under the names of a graph with fused linears; those that are not contiguous are copied. */
export const fuseWeights = (weights: WeightMap, wanted: readonly string[]): WeightMap =>
  new Map(
    wanted.map((name) => {
      if (!name.includes(separator)) return [name, weights.get(name)!];
      const dot = name.lastIndexOf(".");
      const parts = name
        .slice(0, dot)
        .split(separator)
        .map((part) => weights.get(part + name.slice(dot))!);
      const rows = parts.reduce((sum, part) => sum + part.dims[0]!, 0);
      return [name, { data: endToEnd(parts.map(({ data }) => data)), dims: [rows, ...parts[0]!.dims.slice(1)] }];
    }),
  );

/** One array of all values: a view if the parts are contiguous. */
const endToEnd = (parts: readonly Float32Array[]): Float32Array => {
  const [first] = parts as [Float32Array];
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  let end = first.byteOffset;
  const adjacent = parts.every(({ buffer, byteOffset, byteLength }) => {
    const follows = buffer === first.buffer && byteOffset === end;
    end = byteOffset + byteLength;
    return follows;
  });
  if (adjacent) return new Float32Array(first.buffer, first.byteOffset, length);
  const copy = new Float32Array(length);
  let at = 0;
  for (const part of parts) {
    copy.set(part, at);
    at += part.length;
  }
  return copy;
};
