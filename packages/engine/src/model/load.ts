/**
 * From an opened checkpoint to the weights a graph binds: reads every tensor the configuration calls for, once, into its own
 * float32 array, and refuses a tensor that is missing or has another shape by its name.
 */

import { ATTENTION_LINEARS, linearSizes, MLP_LINEARS } from "../adapter/layout.ts";
import { WeightsError } from "../errors.ts";
import { sameShape } from "../graph/dims.ts";
import type { WeightMap } from "../runtime/runtime.ts";
import type { WeightSource } from "../weights/types.ts";
import type { ModelConfig } from "./config.ts";

/** Names and shapes of all tensors of a model, in the order of the layers. */
export const weightShapes = (config: ModelConfig): Map<string, readonly number[]> => {
  const shapes = new Map<string, readonly number[]>();
  shapes.set("model.embed_tokens.weight", [config.vocabSize, config.hiddenSize]);
  const linear = (prefix: string, name: string, bias: boolean): void => {
    const { inSize, outSize } = linearSizes(config, name);
    shapes.set(`${prefix}.${name}.weight`, [outSize, inSize]);
    if (bias) shapes.set(`${prefix}.${name}.bias`, [outSize]);
  };
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`;
    for (const norm of ["input_layernorm", "post_attention_layernorm"]) {
      shapes.set(`${prefix}.${norm}.weight`, [config.hiddenSize]);
    }
    for (const name of ATTENTION_LINEARS) {
      linear(`${prefix}.self_attn`, name, name === "o_proj" ? config.outputBias : config.qkvBias);
    }
    if (config.qkNorm) {
      for (const name of ["q_norm", "k_norm"]) shapes.set(`${prefix}.self_attn.${name}.weight`, [config.headDim]);
    }
    for (const name of MLP_LINEARS) linear(`${prefix}.mlp`, name, config.mlpBias);
  }
  shapes.set("model.norm.weight", [config.hiddenSize]);
  if (!config.tiedEmbeddings) shapes.set("lm_head.weight", [config.vocabSize, config.hiddenSize]);
  return shapes;
};

export const countParameters = (config: ModelConfig): number => {
  let total = 0;
  for (const shape of weightShapes(config).values()) total += shape.reduce((n, dim) => n * dim, 1);
  return total;
};

/** A model in memory. */
export interface LoadedModel {
  readonly config: ModelConfig;
  readonly weights: WeightMap;
  readonly bytes: number;
}

/**
 * @throws WeightsError naming the tensor that is missing or has the wrong shape.
 */
export const loadModel = (config: ModelConfig, source: WeightSource): LoadedModel => {
  const weights = new Map<string, { data: Float32Array; dims: readonly number[] }>();
  let bytes = 0;
  for (const [name, dims] of weightShapes(config)) {
    const info = source.tensors.get(name);
    if (!info) {
      throw new WeightsError(`tensor ${name} is missing`, {
        code: "missing_tensor",
        tensor: name,
        hint: "the weights do not belong to this config.json, or a shard is absent",
      });
    }
    if (!sameShape(info.shape, dims)) {
      const [has, wants] = [info.shape, dims].map((shape) => `[${shape.join(", ")}]`);
      throw new WeightsError(`tensor ${name} has shape ${has}, config.json calls for ${wants}`, {
        code: "shape_mismatch",
        tensor: name,
        file: info.file,
      });
    }
    const data = source.readFloat32(name);
    bytes += data.byteLength;
    weights.set(name, { data, dims });
  }
  return { config, weights, bytes };
};
