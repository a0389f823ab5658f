/**
 * Writes a base model with an adapter merged into its weights, as a folder that transformers can load. The runtime computes the
 * products.
 */
import { mkdir } from "node:fs/promises";
import { mergeAdapter, type Product, writeMergedModel, writeTokenizer } from "@tinklet/models";
import { Graph } from "../graph/graph.ts";
import { add, matmul, mul } from "../graph/ops.ts";
import type { LoadedModel } from "../model/load.ts";
import { f32, type Program, type Runtime } from "../runtime/runtime.ts";
import type { AdapterWeights } from "./adapter.ts";
import { exportState } from "./state.ts";

function mergeProgram(runtime: Runtime): Promise<Program> {
  const graph = new Graph();
  const w = graph.input("w", ["out", "in"]);
  const a = graph.input("a", ["rank", "in"]);
  const b = graph.input("b", ["out", "rank"]);
  graph.output("merged", add(graph, w, mul(graph, matmul(graph, b, a), graph.input("scale", []))));
  return runtime.compile(graph, new Map());
}

export interface MergeOptions {
  readonly model: LoadedModel;
  readonly runtime: Runtime;
  readonly adapter: AdapterWeights;
  /** The parsed `config.json` to write with the weights; only fields affected by merging are changed. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Path of the base model, a folder or a GGUF file; its tokenizer is copied. No tokenizer is written if undefined. */
  readonly path: string | undefined;
  readonly folder: string;
}

/** Merges and writes one tensor at a time, so that memory holds only one merged tensor. */
export async function writeMerged({ model, runtime, adapter, config, path, folder }: MergeOptions): Promise<void> {
  await mkdir(folder, { recursive: true });
  const program = await mergeProgram(runtime);
  const multiply = async ({ w, a, b, outSize, inSize, rank, scale }: Product): Promise<Float32Array> => {
    const { merged } = await program.run({
      w: f32(w, [outSize, inSize]),
      a: f32(a, [rank, inSize]),
      b: f32(b, [outSize, rank]),
      scale: f32(Float32Array.of(scale), []),
    });
    return merged!.data as Float32Array;
  };
  try {
    const base = { config, model: model.config, readFloat32: (name: string) => model.weights.get(name)!.data };
    const { config: written, tensors } = mergeAdapter(base, exportState(adapter), multiply);
    const list = tensors.map((tensor) => ({ ...tensor, dtype: "F32" as const }));
    await writeMergedModel(folder, { config: written, tensors: list, dtype: "f32" });
  } finally {
    await program.dispose();
  }
  if (path !== undefined) await writeTokenizer(path, folder, { wholeModel: true });
}
