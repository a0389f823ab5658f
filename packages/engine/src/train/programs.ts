/**
 * Builds and keeps the programs of training: one per combination of adapter targets, layout, number of attention rectangles, and direction.
 * All sizes are symbolic, so a few programs serve every batch.
 */

import type { ModelConfig } from "@tinklet/models/config";
import { commonSize, type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { product } from "../graph/dims.ts";
import { gradients } from "../graph/gradient.ts";
import { Graph, type Tensor } from "../graph/graph.ts";
import { concat, reshape } from "../graph/ops.ts";
import { buildScoringHead, buildTrainingHead, headInputs } from "../model/head.ts";
import type { LoadedModel } from "../model/load.ts";
import {
  buildTrunk,
  embeddingTable,
  type LoraInputs,
  loraInputs,
  packedInputs,
  treeInputs,
} from "../model/transformer.ts";
import { createProgramCache } from "../runtime/program-cache.ts";
import type { Program, Runtime } from "../runtime/runtime.ts";
import { adapterMatrices } from "./optimizer-graph.ts";
import { wholeUnembedding } from "./unembedding-sums.ts";

export interface ProgramKey {
  readonly kind: "train" | "score";
  /** Undefined for the base model. */
  readonly targets?: LoraTargets;
  /** The run is a prefix tree instead of concatenated sequences. */
  readonly tree: boolean;
  readonly groups: number;
  readonly slots: { readonly weighted: number; readonly unweighted: number };
  readonly recomputeAttention: boolean;
  /**
   * The gradient stays on the device, as a matrix with whole rows for every A and B (`commonSize`), including the unembedding's sparse
   * part. Otherwise it is one flat array without that part.
   */
  readonly onDevice: boolean;
}

/** The adapter of a pass: on a device one matrix with all values, otherwise an input for each A and B. */
const adapterInputs = (
  graph: Graph,
  config: ModelConfig,
  { targets, kind, onDevice }: ProgramKey & { readonly targets: LoraTargets },
): LoraInputs => {
  const trainable = kind === "train";
  if (!onDevice) return loraInputs(graph, config, { targets, trainable });
  const scale = graph.input("lora.scale", []);
  const modules = adapterMatrices(graph, config, targets);
  if (trainable) for (const [name, { a, b }] of modules) modules.set(name, { a: graph.leaf(a), b: graph.leaf(b) });
  return { scale, modules };
};

/** The graph of a training pass: log-probs and the flat gradient in one program. */
export const trainingGraph = (config: ModelConfig, key: ProgramKey): Graph => {
  const graph = new Graph();
  const embedding = embeddingTable(graph, config);
  const inputs = (key.tree ? treeInputs : packedInputs)(graph, config, key.groups);
  const train = key.kind === "train";
  const lora = key.targets ? adapterInputs(graph, config, { ...key, targets: key.targets }) : undefined;
  const hidden = buildTrunk(graph, config, { ...key, embedding, inputs, lora });
  const head = headInputs(graph, config, embedding, lora);
  if (!train || !lora || !key.targets) {
    graph.output("logprobs", buildScoringHead(graph, hidden, head, key.slots.unweighted));
    return graph;
  }
  const result = buildTrainingHead(graph, hidden, head, key.slots);
  graph.output("logprobs", result.logprobs);
  const inner = targetLinears(config, { ...key.targets, unembed: false }).map(({ name }) => lora.modules.get(name)!);
  const leaves = inner.flatMap(({ a, b }) => [a, b]);
  const grads = leaves.length > 0 ? gradients(graph, [{ value: hidden, seed: result.dHidden }], leaves) : [];
  if (key.onDevice) {
    if (result.lora) grads.push(result.lora.dA, wholeUnembedding(graph, result.lora));
    graph.output("gradient", concat(graph, gradientRows(graph, grads, commonSize(config, key.targets)), 0));
    return graph;
  }
  if (result.lora) {
    grads.push(result.lora.dA, result.lora.dB);
    graph.output("unembed.slopes", result.lora.slopes);
    graph.output("unembed.inner", result.lora.inner);
  }
  const flat = grads.map((grad): Tensor => reshape(graph, grad, [product(grad.shape)]));
  graph.output("gradient", concat(graph, flat, 0, "parameters"));
  return graph;
};

/**
 * Reshapes matrices `[rank, in]` and `[out, rank]` to rows of `common · rank` values. Concatenated by rows and not by values, because
 * CUDA's concatenation reads a table with one entry per index of its axis.
 */
const gradientRows = (graph: Graph, grads: readonly Tensor[], common: number): Tensor[] =>
  grads.map((grad) => {
    const size = grad.shape.find((dim) => typeof dim === "number")!;
    return reshape(graph, grad, [size / common, product([common, "rank"])]);
  });

/** The training programs of a model, compiled on first use. */
export class TrainingPrograms {
  readonly #model: LoadedModel;
  readonly #runtime: Runtime;
  readonly #programs = createProgramCache();

  constructor(model: LoadedModel, runtime: Runtime) {
    this.#model = model;
    this.#runtime = runtime;
  }

  get(key: ProgramKey): Promise<Program> {
    const { kind, targets, tree, groups, slots, recomputeAttention, onDevice } = key;
    const { config, weights } = this.#model;
    return this.#programs.get([kind, targets, tree, groups, slots, recomputeAttention], () => {
      const graph = trainingGraph(config, key);
      const { device } = this.#runtime;
      return onDevice && device
        ? device.compile(graph, weights, { resident: graph.outputs.has("gradient") ? ["gradient"] : [] })
        : this.#runtime.compile(graph, weights);
    });
  }

  dispose(): Promise<void> {
    return this.#programs.dispose();
  }
}
