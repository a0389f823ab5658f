/** Lowered graphs are equivalent to the original ones and have no operations that the provider lacks. */
import { describe, expect, it } from "vitest";
import { gradients } from "../graph/gradient.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import * as ops from "../graph/ops.ts";
import { createRandom } from "../random.ts";
import { roundToBfloat16 } from "../runtime/bfloat16.ts";
import { createInterpreter } from "../runtime/interpreter.ts";
import type { Value } from "../runtime/runtime.ts";
import { tinyConfig } from "../testing/tiny-model.ts";
import { trainingGraph } from "../train/programs.ts";
import { lowerForCuda, lowerForWebGpu, withBfloat16Weights } from "./lower.ts";

const float64 = createInterpreter({ float64: true });

/** Every output of the graph and of its lowered form, for inputs of these shapes. */
async function bothWays(graph: Graph, shapes: Readonly<Record<string, readonly number[]>>) {
  const inputs: Record<string, Value> = {};
  for (const [name, dims] of Object.entries(shapes)) {
    const random = createRandom(1, name);
    const length = dims.reduce((product, dim) => product * dim, 1);
    inputs[name] = { data: Float64Array.from({ length }, () => random() - 0.5), dims };
  }
  const run = async (each: Graph) => (await float64.compile(each, new Map())).run(inputs);
  return [await run(graph), await run(lowerForWebGpu(graph))] as const;
}

function expectEqual([plain, lowered]: Awaited<ReturnType<typeof bothWays>>): void {
  expect(Object.keys(lowered)).toEqual(Object.keys(plain));
  for (const [name, { data, dims }] of Object.entries(plain)) {
    expect(lowered[name]!.dims).toEqual(dims);
    // Sums of at most eight terms of size 1 in another order.
    for (const [i, value] of data.entries())
      expect(Math.abs((lowered[name]!.data[i] as number) - (value as number))).toBeLessThan(1e-15);
  }
}

describe("products", () => {
  const shapes: readonly [string, readonly number[], readonly number[], ops.MatmulOptions][] = [
    ["of matrices", [4, 3], [5, 4], { transA: true, transB: true, alpha: 0.5 }],
    ["of matrices, scaled alone", [3, 4], [4, 5], { alpha: -2 }],
    ["of stacks", [2, 3, 4], [2, 5, 4], { transB: true }],
    ["of stacks, scaled", [2, 4, 3], [2, 4, 5], { transA: true, alpha: 3 }],
    ["of stacks of stacks", [2, 2, 3, 4], [2, 2, 5, 4], { transB: true, alpha: 0.25 }],
    ["of a stack and a matrix", [2, 3, 4], [5, 4], { transB: true }],
  ];
  it.each(shapes)("%s", async (_, a, b, options) => {
    const graph = new Graph();
    graph.output("y", ops.matmul(graph, graph.input("a", a), graph.input("b", b), options));
    expect(graph.nodes.map(({ type }) => type)).toEqual(["FusedMatMul"]);
    const lowered = lowerForWebGpu(graph);
    expect(lowered.nodes.map(({ type }) => type)).not.toContain("FusedMatMul");
    expectEqual(await bothWays(graph, { a, b }));
  });
});

it("a norm whose second output is used", async () => {
  const graph = new Graph();
  const x = graph.input("x", [3, 8], { trainable: true });
  const y = ops.rmsNorm(graph, x, graph.input("w", [8]), 2 ** -17);
  graph.output("y", y);
  graph.output("dx", gradients(graph, [{ value: y, seed: graph.input("g", [3, 8]) }], [x])[0]!);
  expectEqual(await bothWays(graph, { x: [3, 8], w: [8], g: [3, 8] }));
});

it("leaves a norm alone whose second output nothing reads", () => {
  const graph = new Graph();
  graph.output("y", ops.rmsNorm(graph, graph.input("x", [3, 8]), graph.input("w", [8]), 1e-5));
  expect(lowerForWebGpu(graph).nodes.map(({ type, outputs }) => [type, outputs.length])).toEqual([
    ["SimplifiedLayerNormalization", 1],
  ]);
});

it("a training step has no operation left that WebGPU lacks", () => {
  const graph = trainingGraph(tinyConfig(), {
    kind: "train",
    targets: { attn: true, mlp: true, unembed: true },
    tree: true,
    groups: 2,
    slots: { weighted: 1, unweighted: 1 },
    recomputeAttention: true,
    onDevice: true,
  });
  const before = graph.nodes.length;
  const lowered = lowerForWebGpu(graph);
  expect(graph.nodes).toHaveLength(before);
  const written = new Set(lowered.nodes.flatMap(({ outputs }) => outputs.map(({ name }: Tensor) => name)));
  expect(lowered.nodes.flatMap(({ outputs }) => outputs)).toHaveLength(written.size);
  expect(lowered.nodes.map(({ type }) => type)).not.toContain("FusedMatMul");
});

it("a split into many parts becomes slices on WebGPU", async () => {
  const graph = new Graph();
  for (const [i, part] of ops.split(graph, graph.input("x", [7, 2]), 0, [3, 1, 3]).entries())
    graph.output(`p${i}`, part);
  expect(lowerForWebGpu(graph).nodes.map(({ type }) => type)).toEqual(["Slice", "Slice", "Slice"]);
  expectEqual(await bothWays(graph, { x: [7, 2] }));
});

it("the largest value of a row is looked up by its index on CUDA", async () => {
  const graph = new Graph();
  graph.output("y", ops.reduceMax(graph, graph.input("x", [5, 9])));
  const lowered = lowerForCuda(graph);
  expect(lowered.nodes.map(({ type }) => type)).toEqual(["ArgMax", "GatherElements"]);
  const data = Float64Array.from({ length: 45 }, (_, i) => Math.sin(7 * i));
  const x = { data, dims: [5, 9] };
  const [plain, found] = await Promise.all(
    [graph, lowered].map(async (each) => (await float64.compile(each, new Map())).run({ x })),
  );
  expect(found).toEqual(plain);
});

describe("weights in bfloat16", () => {
  const config = tinyConfig({ model_type: "qwen3" });
  const targets = { attn: true, mlp: true, unembed: true };
  const key = {
    kind: "train",
    targets,
    tree: false,
    groups: 1,
    slots: { weighted: 1, unweighted: 0 },
    recomputeAttention: false,
    onDevice: true,
  } as const;
  const plain = trainingGraph(config, key);
  const lowered = withBfloat16Weights(lowerForCuda(plain));
  const typeOf = new Map(
    [...lowered.weights, ...lowered.inputs, ...lowered.nodes.flatMap(({ outputs }) => outputs)].map(
      ({ name, dtype }) => [name, dtype],
    ),
  );

  it("are all matrices, and no product mixes types", () => {
    for (const { name, shape, dtype } of lowered.weights)
      expect(dtype, name).toBe(shape.length === 2 ? "bfloat16" : "float32");
    const products = lowered.nodes.filter(({ type }) => type === "MatMul" || type === "FusedMatMul");
    expect(products.length).toBe(plain.nodes.filter(({ type }) => type === "MatMul" || type === "FusedMatMul").length);
    for (const { inputs } of products) expect(new Set(inputs.map(({ name }) => typeOf.get(name))).size).toBe(1);
  });

  it("other operations see float32 only, and every name is made once", () => {
    const kinds = new Set(["MatMul", "FusedMatMul", "Gather", "Cast"]);
    for (const { type, inputs } of lowered.nodes) {
      if (!kinds.has(type))
        expect(
          inputs.map(({ name }) => typeOf.get(name)),
          type,
        ).not.toContain("bfloat16");
    }
    const names = lowered.nodes.flatMap(({ outputs }) => outputs.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
    expect([...lowered.outputs.values()].map(({ dtype }) => dtype)).not.toContain("bfloat16");
  });

  it("give the product of rounded factors", async () => {
    const graph = new Graph();
    graph.output("y", ops.matmul(graph, graph.input("x", [2, 3]), graph.weight("w", [4, 3]), { transB: true }));
    graph.output("row", ops.gather(graph, graph.weight("w", [4, 3]), graph.input("i", [1], { dtype: "int32" })));
    const w = roundToBfloat16(Array.from({ length: 12 }, (_, i) => Math.cos(i)));
    const x = Float32Array.from({ length: 6 }, (_, i) => Math.sin(i + 1));
    const { y, row } = await (
      await createInterpreter().compile(withBfloat16Weights(graph), new Map([["w", { data: w, dims: [4, 3] }]]))
    ).run({
      x: { data: x, dims: [2, 3] },
      i: { data: Int32Array.of(2), dims: [1] },
    });
    const rounded = roundToBfloat16(x);
    for (let i = 0; i < 8; i++) {
      const [from, to] = [Math.floor(i / 4), i % 4];
      const sum = [0, 1, 2].reduce((total, k) => total + rounded[3 * from + k]! * w[3 * to + k]!, 0);
      expect(Math.abs((y!.data[i] as number) - sum)).toBeLessThan(1e-6); // the interpreter does not round products
    }
    expect(row!.data).toEqual(w.slice(6, 9));
  });
});
