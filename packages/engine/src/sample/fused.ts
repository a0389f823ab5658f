/**
 * Linears of one input as one product: q, k and v, gate and up. With a handful of rows a product costs what reading its matrix and
 * waking the threads costs, so fewer and larger ones win; and a wide product may have more rows than a narrow one before its bits depend on them
 * (`run-rows.ts`). A model's weights lie so that this needs no copy of them (`model/load.ts`).
 */
import { split } from "../graph/ops.ts";
import { type FrozenLinears, frozenLinear } from "../model/transformer.ts";
import type { WeightMap } from "../runtime/runtime.ts";

const separator = "+";

/** The linears joined; weights are named after all of them (`a+b.weight`), see `fuseWeights`. */
export const fusedLinears: FrozenLinears = (graph, x, { linears, bias }) => {
  const sizes = linears.map(({ outSize }) => outSize);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const name = linears.map((linear) => linear.name).join(separator);
  const y = frozenLinear(graph, x, { name, outSize: total, bias });
  return sizes.length === 1 ? [y] : split(graph, y, 1, sizes);
};

/** Of so many columns on, a linear does not limit the rows of a run over prompts. */
export const enoughColumns = 257;

/**
 * Which linears of a common input one product does for when prompts are computed: only where one is narrow. With many rows it saves nothing, and
 * cutting its result costs.
 */
export const joinedForPrompts = <T extends { readonly outSize: number }>(linears: readonly T[]): (readonly T[])[] =>
  linears.some(({ outSize }) => outSize < enoughColumns) ? [linears] : linears.map((linear) => [linear]);

/** As `joinedForPrompts` says. */
export const promptLinears: FrozenLinears = (graph, x, { linears, bias }) =>
  joinedForPrompts(linears).flatMap((joined) => fusedLinears(graph, x, { linears: joined, bias }));

/** The weights under the names that a graph with fused linears asks for; those that do not lie end to end are copied. */
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

/** One array of all values: a view where the parts lie end to end already. */
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
