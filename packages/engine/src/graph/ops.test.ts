/** Compares each operation's gradient with finite differences in float64, and its value in each runtime with float64. */
import { describe, expect, it } from "vitest";
import { createInterpreter } from "../runtime/interpreter.ts";
import { loadNativeRuntime, loadWasmRuntime } from "../runtime/ort.ts";
import type { Runtime, Value } from "../runtime/runtime.ts";
import { derivative, type Measured } from "../testing/difference.ts";
import { createRoundingRuntime, type Groups, Tolerance } from "../testing/rounding.ts";
import { broadcast, product } from "./dims.ts";
import { gradients } from "./gradient.ts";
import { Graph, ShapeError, type Tensor } from "./graph.ts";
import * as ops from "./ops.ts";

/** Deterministic values in (-1, 1). */
const noise = (length: number, seed: number): Float64Array => {
  let state = seed * 2654435761 + 12345;
  return Float64Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return state / 2147483648;
  });
};

interface Case {
  /** Trainable inputs by name; `positive` for arguments of a logarithm. */
  readonly inputs: Record<string, { readonly shape: readonly number[]; readonly positive?: boolean }>;
  readonly build: (graph: Graph, inputs: Record<string, Tensor>) => Tensor;
}

const positions = (graph: Graph): Tensor => graph.constant(BigInt64Array.of(0n, 1n, 2n, 3n, 1n, 2n), [2, 3]);
const tables = (graph: Graph): ops.RopeTables => ({
  cos: graph.constant(
    Float32Array.from({ length: 8 }, (_, i) => Math.cos(i)),
    [4, 2],
  ),
  sin: graph.constant(
    Float32Array.from({ length: 8 }, (_, i) => Math.sin(i)),
    [4, 2],
  ),
});

const cases: Record<string, Case> = {
  add: { inputs: { a: { shape: [2, 3] }, b: { shape: [3] } }, build: (g, { a, b }) => ops.add(g, a!, b!) },
  sub: { inputs: { a: { shape: [2, 1] }, b: { shape: [2, 3] } }, build: (g, { a, b }) => ops.sub(g, a!, b!) },
  mul: { inputs: { a: { shape: [2, 3] }, b: { shape: [2, 1] } }, build: (g, { a, b }) => ops.mul(g, a!, b!) },
  scale: { inputs: { a: { shape: [2, 3] } }, build: (g, { a }) => ops.scale(g, a!, -2.5) },
  exp: { inputs: { a: { shape: [4] } }, build: (g, { a }) => ops.exp(g, a!) },
  log: { inputs: { a: { shape: [4], positive: true } }, build: (g, { a }) => ops.log(g, a!) },
  sigmoid: { inputs: { a: { shape: [4] } }, build: (g, { a }) => ops.sigmoid(g, a!) },
  where: {
    inputs: { a: { shape: [2, 3] }, b: { shape: [2, 3] } },
    build: (g, { a, b }) => ops.where(g, ops.greater(g, a!, g.scalar(0)), ops.scale(g, a!, 2), b!),
  },
  "matmul of stacks": {
    inputs: { a: { shape: [2, 3, 4] }, b: { shape: [2, 4, 2] } },
    build: (g, { a, b }) => ops.matmul(g, a!, b!),
  },
  "matmul transposed": {
    inputs: { a: { shape: [4, 3] }, b: { shape: [5, 4] } },
    build: (g, { a, b }) => ops.matmul(g, a!, b!, { transA: true, transB: true, alpha: 0.5 }),
  },
  "matmul transposed left": {
    inputs: { a: { shape: [4, 3] }, b: { shape: [4, 2] } },
    build: (g, { a, b }) => ops.matmul(g, a!, b!, { transA: true }),
  },
  "matmul transposed right": {
    inputs: { a: { shape: [3, 4] }, b: { shape: [2, 4] } },
    build: (g, { a, b }) => ops.matmul(g, a!, b!, { transB: true }),
  },
  reshape: { inputs: { a: { shape: [2, 6] } }, build: (g, { a }) => ops.reshape(g, a!, [3, 4]) },
  unsqueeze: { inputs: { a: { shape: [2, 3] } }, build: (g, { a }) => ops.unsqueeze(g, a!, 1) },
  squeeze: { inputs: { a: { shape: [2, 1, 3] } }, build: (g, { a }) => ops.squeeze(g, a!, 1) },
  transpose: { inputs: { a: { shape: [2, 3, 4] } }, build: (g, { a }) => ops.transpose(g, a!, [2, 0, 1]) },
  concat: {
    inputs: { a: { shape: [2, 3] }, b: { shape: [2, 2] } },
    build: (g, { a, b }) => ops.concat(g, [a!, b!], 1),
  },
  slice: { inputs: { a: { shape: [2, 5] } }, build: (g, { a }) => ops.slice(g, a!, { axis: 1, from: 1, to: 4 }) },
  gather: {
    inputs: { a: { shape: [4, 3] } },
    build: (g, { a }) => ops.gather(g, a!, g.constant(Int32Array.of(2, 0, 2, 3, 3, 3), [2, 3])),
  },
  reduceSum: { inputs: { a: { shape: [2, 3, 4] } }, build: (g, { a }) => ops.reduceSum(g, a!, [0, 2]) },
  softmax: { inputs: { a: { shape: [3, 4] } }, build: (g, { a }) => ops.softmax(g, a!) },
  rmsNorm: {
    inputs: { a: { shape: [3, 4] } },
    build: (g, { a }) => ops.rmsNorm(g, a!, g.constant(Float32Array.of(0.5, 1, 2, -1), [4]), 1e-3),
  },
  rope: { inputs: { a: { shape: [2, 2, 3, 4] } }, build: (g, { a }) => ops.rope(g, a!, positions(g), tables(g)) },
  swiglu: { inputs: { a: { shape: [3, 4] }, b: { shape: [3, 4] } }, build: (g, { a, b }) => ops.swiglu(g, a!, b!) },
  "a value used twice": {
    inputs: { a: { shape: [2, 2] } },
    build: (g, { a }) => ops.mul(g, ops.matmul(g, a!, a!), a!),
  },
};

const size = (shape: readonly (number | string)[]): number => shape.reduce<number>((n, d) => n * (d as number), 1);

/** Builds a case as a graph with outputs `y`, `loss` = ⟨y, seed⟩ and `d.<input>`. */
const assemble = ({ inputs, build }: Case): { graph: Graph; values: Record<string, Value> } => {
  const graph = new Graph();
  const handles: Record<string, Tensor> = {};
  const values: Record<string, Value> = {};
  Object.entries(inputs).forEach(([name, { shape, positive }], index) => {
    handles[name] = graph.input(name, shape, { trainable: true });
    const data = noise(size(shape), index + 1);
    values[name] = { data: positive ? data.map((x) => Math.abs(x) + 0.5) : data, dims: shape };
  });
  const y = build(graph, handles);
  const seed = graph.constant(Float32Array.from(noise(size(y.shape), 99)), y.shape);
  const every = y.shape.map((_, axis) => axis);
  graph.output("y", y);
  graph.output("loss", ops.reduceSum(graph, ops.mul(graph, y, seed), every));
  const leaves = Object.values(handles);
  const grads = gradients(graph, [{ value: y, seed }], leaves);
  for (const [i, leaf] of leaves.entries()) graph.output(`d.${leaf.name}`, grads[i]!);
  return { graph, values };
};

const native = (await loadNativeRuntime(1)).runtime;
const runtimes: readonly Runtime[] = [...(native ? [native] : []), await loadWasmRuntime(1), createInterpreter()];

const dataOf = (values: Readonly<Record<string, Value>>): Groups =>
  Object.fromEntries(Object.entries(values).map(([name, { data }]) => [name, Float64Array.from(data, Number)]));

describe.each(Object.entries(cases))("%s", (_, testCase) => {
  it("has the gradient of finite differences", async () => {
    const { graph, values } = assemble(testCase);
    const program = await createInterpreter({ float64: true }).compile(graph, new Map());
    const exact = await program.run(values);
    for (const [name, value] of Object.entries(values)) {
      for (let i = 0; i < value.data.length; i++) {
        const lossAt = async (delta: number): Promise<Measured> => {
          const data = (value.data as Float64Array).slice();
          data[i]! += delta;
          const loss = (await program.run({ ...values, [name]: { ...value, data } }))["loss"]!.data[0] as number;
          // Rounding error of a few dozen float64 operations.
          return { value: loss, error: 100 * Number.EPSILON * Math.max(1, Math.abs(loss)) };
        };
        const { value: numeric, error } = await derivative(lossAt, 1e-4);
        expect(Math.abs((exact[`d.${name}`]!.data[i] as number) - numeric)).toBeLessThanOrEqual(error);
      }
    }
  });

  it("agrees with float64 within float32 rounding, in every runtime", async () => {
    const { graph, values } = assemble(testCase);
    const single: Record<string, Value> = {};
    for (const [name, { data, dims }] of Object.entries(values)) {
      single[name] = { data: Float32Array.from(data as Float64Array), dims };
    }
    const run = async (runtime: Runtime): Promise<Record<string, Value>> =>
      (await runtime.compile(graph, new Map())).run(single);
    const exact = await run(createInterpreter({ float64: true }));
    const spread = [];
    for (let seed = 1; seed <= 12; seed++) spread.push(dataOf(await run(createRoundingRuntime(seed))));
    const tolerance = new Tolerance(dataOf(exact), spread);
    for (const runtime of runtimes) {
      const result = await run(runtime);
      for (const [name, { dims }] of Object.entries(exact)) expect(result[name]!.dims, name).toEqual(dims);
      const { share, where } = tolerance.worst(dataOf(result));
      expect(share, `${runtime.name}: ${where}`).toBeLessThanOrEqual(1);
    }
  });
});

describe("shapes", () => {
  const graph = new Graph();
  const a = graph.input("a", ["tokens", 4]);

  it("errors name the operation", () => {
    expect(() => ops.matmul(graph, a, graph.weight("w", [3, 5]))).toThrow(/^matmul: .*\[tokens, 4\] and \[3, 5\]/);
    expect(() => ops.add(graph, a, graph.weight("b", [3]))).toThrow(ShapeError);
    expect(() => ops.reshape(graph, a, ["tokens", 5])).toThrow(/^reshape: element counts differ/);
    expect(() => ops.slice(graph, a, { axis: 1, from: 2, to: 9 })).toThrow(/^slice/);
    expect(() => ops.rmsNorm(graph, a, graph.weight("n", [5]), 1e-6)).toThrow(/^rmsNorm/);
    expect(() => ops.transpose(graph, a, [0, 0])).toThrow(/^transpose/);
    expect(() => ops.reshape(graph, graph.input("p", ["a*b", 2]), ["a", "b", 2])).toThrow(/more than one size/);
  });

  it("rejects an unknown size next to a size that may be 0, and flattens empty tensors", async () => {
    const open = new Graph();
    const x = open.input("x", ["rows", "blocks", 16]);
    open.output("kept", ops.reshape(open, x, ["rows", "16*blocks"]));
    open.possiblyEmpty.add("rows");
    expect(() => ops.reshape(open, x, ["rows", "16*blocks"])).toThrow(/unknown size next to a size that may be 0/);
    const empty = new Graph();
    empty.possiblyEmpty.add("rows");
    const y = empty.input("y", ["rows", "blocks", 16]);
    empty.output("rows", ops.flatten(empty, y, 1));
    empty.output("column", ops.flatten(empty, y, 3));
    for (const each of runtimes) {
      const program = await each.compile(empty, new Map());
      for (const [rows, blocks] of [
        [0, 2],
        [1, 1],
        [3, 2],
      ] as const) {
        const data = Float32Array.from({ length: rows * blocks * 16 }, (_, i) => i);
        const result = await program.run({ y: { data, dims: [rows, blocks, 16] } });
        expect(result["rows"]!.dims).toEqual([rows, blocks * 16]);
        expect(result["column"]!.dims).toEqual([data.length, 1]);
        expect(result["rows"]!.data).toEqual(data);
      }
    }
  });

  it("rejects empty values for sizes that may not be 0, in every runtime", async () => {
    const strict = new Graph();
    strict.output("y", ops.scale(strict, strict.input("x", ["3*rows", 2]), 2));
    const nothing = { x: { data: new Float32Array(0), dims: [0, 2] } };
    for (const each of runtimes) {
      const program = await each.compile(strict, new Map());
      const error = await Promise.resolve()
        .then(() => program.run(nothing))
        .catch((reason: unknown) => reason);
      expect(error, each.name).toMatchObject({
        code: "empty_input",
        message: "graph input x must have at least one element, got [0, 2] for [3*rows, 2]",
      });
    }
  });

  it("multiplies one matrix with each of a stack, without gradient", async () => {
    const stacked = new Graph();
    const one = stacked.input("one", ["rows", 2]);
    stacked.output("y", ops.matmul(stacked, one, stacked.input("stack", ["blocks", 3, 2]), { transB: true }));
    const inputs = {
      one: { data: Float32Array.of(1, 2, 3, 4), dims: [2, 2] },
      stack: { data: Float32Array.of(1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 2, 2), dims: [2, 3, 2] },
    };
    for (const each of runtimes) {
      const { y } = await (await each.compile(stacked, new Map())).run(inputs);
      expect(y!.dims).toEqual([2, 2, 3]);
      expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 3, 4, 7, 2, 4, 6, 6, 8, 14]);
    }
    const trainable = stacked.input("trainable", ["blocks", 3, 2], { trainable: true });
    expect(() => ops.matmul(stacked, one, trainable, { transB: true })).toThrow(/^matmul: leading axes differ/);
  });

  it("multiplies several matrices with each of a stack, without gradient", async () => {
    const shared = new Graph();
    const a = shared.input("a", ["batch", 2, 1, 2]);
    shared.output("y", ops.matmul(shared, a, shared.input("b", ["batch", 1, "columns", 2]), { transB: true }));
    const inputs = {
      a: { data: Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8), dims: [2, 2, 1, 2] },
      b: { data: Float32Array.of(1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 2, 2), dims: [2, 1, 3, 2] },
    };
    for (const each of runtimes) {
      const { y } = await (await each.compile(shared, new Map())).run(inputs);
      expect(y!.dims).toEqual([2, 2, 1, 3]);
      expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, 3, 4, 7, 10, 12, 22, 14, 16, 30]);
    }
    const trainable = shared.input("trainable", ["batch", 1, 3, 2], { trainable: true });
    expect(() => ops.matmul(shared, a, trainable, { transB: true })).toThrow(/^matmul: leading axes differ/);
  });

  it("multiplies and compares named sizes", () => {
    expect(product(["tokens", 2, "heads", 3])).toBe("6*heads*tokens");
    expect(product(["3*tokens", 0])).toBe(0);
    expect(broadcast(["tokens", 1], [4])).toEqual(["tokens", 4]);
    expect(broadcast(["tokens"], ["other"])).toBeUndefined();
  });

  it("rejects a leaf that the loss does not depend on", () => {
    const other = new Graph();
    const x = other.input("x", [2], { trainable: true });
    const y = other.input("y", [2], { trainable: true });
    expect(() => gradients(other, [{ value: ops.scale(other, x, 2), seed: x }], [y])).toThrow(
      /the loss does not depend on y/,
    );
  });
});
