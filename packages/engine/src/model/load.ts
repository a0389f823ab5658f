/**
 * From an opened checkpoint to the weights a graph binds: reads every tensor the configuration calls for, once, into its own
 * float32 array, and refuses a tensor that is missing or has another shape by its name.
 */

import type { WeightSource } from "@tinklet/models";
import { type ModelConfig, sameShape, WeightsError, weightShapes } from "@tinklet/models/config";
import type { WeightMap } from "../runtime/runtime.ts";

/** A model in memory. */
export interface LoadedModel {
  readonly config: ModelConfig;
  readonly weights: WeightMap;
  readonly bytes: number;
}

/**
 * @throws WeightsError naming the tensor that is missing or has the wrong shape.
 */
export function loadModel(config: ModelConfig, source: WeightSource): LoadedModel {
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
}
