/** Writes a base model with an adapter merged into its weights, W + (alpha / rank)·B·A, as a folder transformers opens. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type TensorToWrite, writeSafetensors, writeTextAtomically, writeTokenizer } from "@tinklet/models";
import { Graph } from "../graph/graph.ts";
import { add, matmul, mul } from "../graph/ops.ts";
import type { LoadedModel } from "../model/load.ts";
import { f32, type Program, type Runtime } from "../runtime/runtime.ts";
import type { AdapterWeights } from "./adapter.ts";

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
  /** The parsed `config.json` to write along, changed only where merging demands it. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Where the base lies, a folder or a GGUF file; its tokenizer is written along. */
  readonly path: string | undefined;
  readonly folder: string;
}

/**
 * Merges and writes, a tensor at a time: what is merged is held until it is on the disk and no longer. Adapting the unembedding of a
 * tied model unties it: the embedding itself was not trained.
 */
export async function writeMerged({ model, runtime, adapter, config, path, folder }: MergeOptions): Promise<void> {
  const modules = new Map(adapter.layout.modules.map((module) => [`${module.name}.weight`, module]));
  const { rank } = adapter.layout;
  const scale = f32(Float32Array.of(adapter.lora.alpha / adapter.lora.rank), []);
  const names = [...model.weights.keys()];
  const unties = model.config.tiedEmbeddings && adapter.layout.targets.unembed;
  if (unties) names.push("lm_head.weight");
  await mkdir(folder, { recursive: true });
  const program = await mergeProgram(runtime);
  try {
    const tensors = names.map((name): TensorToWrite => {
      const { data, dims } = model.weights.get(name) ?? model.weights.get("model.embed_tokens.weight")!;
      const module = modules.get(name);
      if (!module) return { name, dtype: "F32", shape: dims, data };
      const { inSize, outSize, offsetA, offsetB } = module;
      const merge = async (): Promise<Float32Array> => {
        const { merged } = await program.run({
          w: f32(data, dims),
          a: f32(adapter.values.subarray(offsetA, offsetB), [rank, inSize]),
          b: f32(adapter.values.subarray(offsetB, offsetB + outSize * rank), [outSize, rank]),
          scale,
        });
        return merged!.data as Float32Array;
      };
      return { name, dtype: "F32", shape: dims, data: merge };
    });
    await writeSafetensors(join(folder, "model.safetensors"), tensors, { format: "pt" });
  } finally {
    await program.dispose();
  }
  const { quantization_config: _, ...kept } = config;
  const written = {
    ...kept,
    dtype: "float32",
    torch_dtype: "float32",
    ...(unties ? { tie_word_embeddings: false } : {}),
  };
  await writeTextAtomically(join(folder, "config.json"), `${JSON.stringify(written, null, 2)}\n`);
  if (path !== undefined) await writeTokenizer(path, folder, { wholeModel: true });
}
