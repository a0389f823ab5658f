/**
 * A large product of matrices in the native runtime, as a check of what limits.c says the machine can do: a good library reaches most of
 * it, and nothing exceeds it. `product THREADS`; prints one line of JSON.
 */
import { Graph } from "../../packages/engine/src/graph/graph.ts";
import { matmul } from "../../packages/engine/src/graph/ops.ts";
import { loadNativeRuntime } from "../../packages/engine/src/runtime/ort.ts";
import { f32 } from "../../packages/engine/src/runtime/runtime.ts";

const size = 1536;
const { runtime, reason } = await loadNativeRuntime(Number(process.argv[2] ?? 1));
if (!runtime) throw new Error(reason);
const graph = new Graph();
graph.output("y", matmul(graph, graph.input("x", [size, size]), graph.weight("w", [size, size])));
const values = Float32Array.from({ length: size * size }, (_, i) => Math.sin(i));
const program = await runtime.compile(graph, new Map([["w", { data: values, dims: [size, size] }]]), {
  packWeights: true,
});
let best = 0;
for (let repeat = 0; repeat < 8; repeat++) {
  const start = performance.now();
  await program.run({ x: f32(values, [size, size]) });
  best = Math.max(best, (2 * size ** 3) / (performance.now() - start) / 1e6);
}
console.log(JSON.stringify({ gflops: Number(best.toFixed(1)) }));
