/**
 * Graphs over an adapter's values as one matrix on a device: the sum of two gradients, the norm of a gradient, an AdamW step, and every
 * module's A and B. Shapes are `[rows, width]`, where width is `commonSize` times the rank.
 */
import type { ModelConfig } from "@tinklet/models/config";
import { commonSize, type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { product } from "../graph/dims.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { add, mul, reduceSum, reshape, split, sqrt, sub } from "../graph/ops.ts";

const shape = ["rows", "width"] as const;
const matrix = (graph: Graph, name: string): Tensor => graph.input(name, shape);
const scalar = (graph: Graph, name: string): Tensor => graph.input(name, []);

/** `a + b`, as `sum`. */
export const sumGraph = (): Graph => {
  const graph = new Graph();
  graph.output("sum", add(graph, matrix(graph, "a"), matrix(graph, "b")));
  return graph;
};

/** Sums of the squares of `scale · gradient` per row; the caller adds the rows in double precision. */
export const squaresGraph = (): Graph => {
  const graph = new Graph();
  const scaled = mul(graph, matrix(graph, "gradient"), scalar(graph, "scale"));
  graph.output("squares", reduceSum(graph, mul(graph, scaled, scaled), [1]));
  return graph;
};

/** Factors of a step, derived from its parameters and its number. */
export const stepFactors = [
  "clip",
  "keepM",
  "addM",
  "keepV",
  "addV",
  "keepValues",
  "rate",
  "correction",
  "eps",
] as const;

/**
 * values, m and v after a step; `excess` is a sum of value − value: 0 if all values are finite, otherwise NaN. m ← keepM·m + addM·g, v ←
 * keepV·v + addV·g², values ← keepValues·values − rate·m / (√v·correction + eps), where g is the clipped gradient.
 */
export const stepGraph = (): Graph => {
  const graph = new Graph();
  const [values, gradient, m, v] = ["values", "gradient", "m", "v"].map((name) => matrix(graph, name)) as [
    Tensor,
    Tensor,
    Tensor,
    Tensor,
  ];
  const factor = Object.fromEntries(stepFactors.map((name) => [name, scalar(graph, name)])) as Record<
    (typeof stepFactors)[number],
    Tensor
  >;
  const g = mul(graph, gradient, factor.clip);
  const nextM = add(graph, mul(graph, m, factor.keepM), mul(graph, g, factor.addM));
  const nextV = add(graph, mul(graph, v, factor.keepV), mul(graph, mul(graph, g, factor.addV), g));
  const root = add(graph, mul(graph, sqrt(graph, nextV), factor.correction), factor.eps);
  const move = graph.node("Div", [mul(graph, nextM, factor.rate), root], shape);
  const next = sub(graph, mul(graph, values, factor.keepValues), move);
  graph.output("values.next", next);
  graph.output("m.next", nextM);
  graph.output("v.next", nextV);
  graph.output("excess", reduceSum(graph, sub(graph, next, next), [0, 1]));
  return graph;
};

/** Names of a module's matrices, equal to the names of graph inputs. */
export const matrixNames = (module: string): { readonly a: string; readonly b: string } => ({
  a: `${module}.lora_A`,
  b: `${module}.lora_B`,
});

/** Name of the input with all values of an adapter. */
export const valuesInput = "values";

/** Declares the values of an adapter as one input, and takes every module's A and B from it. */
export function adapterMatrices(
  graph: Graph,
  config: ModelConfig,
  targets: LoraTargets,
): Map<string, { readonly a: Tensor; readonly b: Tensor }> {
  const common = commonSize(config, targets);
  const linears = targetLinears(config, targets);
  const sizes = linears.flatMap(({ inSize, outSize }) => [inSize / common, outSize / common]);
  const rows = sizes.reduce((sum, size) => sum + size, 0);
  const values = graph.input(valuesInput, [rows, product([common, "rank"])]);
  const parts = split(graph, values, 0, sizes);
  return new Map(
    linears.map(({ name, inSize, outSize }, index) => [
      name,
      {
        a: reshape(graph, parts[2 * index]!, ["rank", inSize]),
        b: reshape(graph, parts[2 * index + 1]!, [outSize, "rank"]),
      },
    ]),
  );
}

/** The matrices of all modules, for programs that run too often to take them from the values each time. */
export const matricesGraph = (config: ModelConfig, targets: LoraTargets): Graph => {
  const graph = new Graph();
  for (const [name, matrices] of adapterMatrices(graph, config, targets)) {
    const names = matrixNames(name);
    graph.output(names.a, matrices.a);
    graph.output(names.b, matrices.b);
  }
  return graph;
};
