/** WebAssembly: programs that were closed to free memory compute the same when they are opened again. */
import { expect, it } from "vitest";
import { Graph } from "../graph/graph.ts";
import { matmul } from "../graph/ops.ts";
import { loadWasmRuntime } from "./ort.ts";
import { f32 } from "./runtime.ts";

function product(name: string): Graph {
  const graph = new Graph();
  graph.output("y", matmul(graph, graph.input("x", ["rows", 2]), graph.weight(name, [2, 2])));
  return graph;
}

it("runs more programs than fit", async () => {
  const runtime = await loadWasmRuntime(1, 1); // no two fit into one byte
  const weights = new Map([
    ["twice", { data: Float32Array.of(2, 0, 0, 2), dims: [2, 2] }],
    ["swap", { data: Float32Array.of(0, 1, 1, 0), dims: [2, 2] }],
  ]);
  const twice = await runtime.compile(product("twice"), weights);
  const swap = await runtime.compile(product("swap"), weights, { packWeights: true });
  const x = f32(Float32Array.of(3, 4), [1, 2]);
  for (let round = 0; round < 2; round++) {
    expect([...(await twice.run({ x }))["y"]!.data]).toEqual([6, 8]);
    expect([...(await swap.run({ x }))["y"]!.data]).toEqual([4, 3]);
  }
  await Promise.all([twice.dispose(), swap.dispose()]);
  await expect(twice.run({ x })).rejects.toMatchObject({ code: "closed" });
});
