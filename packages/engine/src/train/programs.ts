/**
 * Builds and keeps the programs that training runs: one per combination of adapter targets, layout, number of attention
 * rectangles and direction. Sizes are all left open, so a handful of programs serves every batch.
 */

import type { ModelConfig } from "@tinklet/models/config";
import type { LoraTargets } from "../adapter/layout.ts";
import { targetLinears } from "../adapter/layout.ts";
import { product } from "../graph/dims.ts";
import { gradients } from "../graph/gradient.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { concat, reshape } from "../graph/ops.ts";
import { buildScoringHead, buildTrainingHead, headInputs } from "../model/head.ts";
import type { LoadedModel } from "../model/load.ts";
import { buildTrunk, embeddingTable, loraInputs, packedInputs, treeInputs } from "../model/transformer.ts";
import { createProgramCache } from "../runtime/program-cache.ts";
import type { Program, Runtime } from "../runtime/runtime.ts";

export interface ProgramKey {
  readonly kind: "train" | "score";
  /** Absent for the base model. */
  readonly targets?: LoraTargets;
  /** The run is a prefix tree instead of sequences end to end. */
  readonly tree: boolean;
  readonly groups: number;
  readonly slots: number;
  readonly recomputeAttention: boolean;
}

/** The graph of a training step: log-probs and the flat gradient in one program. */
export const trainingGraph = (config: ModelConfig, key: ProgramKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const inputs = (key.tree ? treeInputs : packedInputs)(graph, config, key.groups);
  const train = key.kind === "train";
  const lora = key.targets ? loraInputs(graph, config, { targets: key.targets, trainable: train }) : undefined;
  const hidden = buildTrunk(graph, config, { ...key, embedding, inputs, lora });
  const head = headInputs(graph, config, embedding, lora);
  if (!train || !lora || !key.targets) {
    graph.output("logprobs", buildScoringHead(graph, hidden, head, key.slots));
    return graph;
  }
  const result = buildTrainingHead(graph, hidden, head, { weighted: key.slots, unweighted: key.slots });
  graph.output("logprobs", result.logprobs);
  const inner = targetLinears(config, { ...key.targets, unembed: false }).map(({ name }) => lora.modules.get(name)!);
  const leaves = inner.flatMap(({ a, b }) => [a, b]);
  const grads = leaves.length > 0 ? gradients(graph, [{ value: hidden, seed: result.dHidden }], leaves) : [];
  if (result.lora) {
    grads.push(result.lora.dA, result.lora.dB);
    graph.output("unembed.slopes", result.lora.slopes);
    graph.output("unembed.inner", result.lora.inner);
  }
  const flat = grads.map((grad): Tensor => reshape(graph, grad, [product(grad.shape)]));
  graph.output("gradient", concat(graph, flat, 0, "parameters"));
  return graph;
};

/** The programs of a model's training, compiled on first use. */
export class TrainingPrograms {
  readonly #model: LoadedModel;
  readonly #runtime: Runtime;
  readonly #programs = createProgramCache();

  constructor(model: LoadedModel, runtime: Runtime) {
    this.#model = model;
    this.#runtime = runtime;
  }

  get(key: ProgramKey): Promise<Program> {
    const id = [key.kind, key.targets, key.tree, key.groups, key.slots, key.recomputeAttention];
    return this.#programs.get(id, () =>
      this.#runtime.compile(trainingGraph(this.#model.config, key), this.#model.weights),
    );
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}
