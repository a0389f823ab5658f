/**
 * Linears of one input as one product: q, k and v, gate and up. With a handful of rows a product costs what reading its matrix and
 * waking the threads costs, so fewer and larger ones win. Needs the matrices end to end in memory, which a program that holds its own
 * copy of the weights can have.
 */
import { split } from "../graph/ops.ts";
import { type FrozenLinears, frozenLinear } from "../model/transformer.ts";
import type { WeightMap } from "../runtime/runtime.ts";

const SEPARATOR = "+";

/** The linears joined; weights are named after all of them (`a+b.weight`), see `fuseWeights`. */
export const fusedLinears: FrozenLinears = (graph, x, { linears, bias }) => {
  const sizes = linears.map(({ outSize }) => outSize);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const name = linears.map((linear) => linear.name).join(SEPARATOR);
  const y = frozenLinear(graph, x, { name, outSize: total, bias });
  return sizes.length === 1 ? [y] : split(graph, y, 1, sizes);
};

/** The weights under the names that a graph with fused linears asks for: joined ones are made on demand. */
export const fuseWeights = (weights: WeightMap, wanted: readonly string[]): WeightMap =>
  new Map(
    wanted.map((name) => {
      if (!name.includes(SEPARATOR)) return [name, weights.get(name)!];
      const dot = name.lastIndexOf(".");
      const parts = name
        .slice(0, dot)
        .split(SEPARATOR)
        .map((part) => weights.get(part + name.slice(dot))!);
      const data = new Float32Array(parts.reduce((sum, part) => sum + part.data.length, 0));
      let at = 0;
      for (const part of parts) {
        data.set(part.data, at);
        at += part.data.length;
      }
      const rows = parts.reduce((sum, part) => sum + part.dims[0]!, 0);
      return [name, { data, dims: [rows, ...parts[0]!.dims.slice(1)] }];
    }),
  );
