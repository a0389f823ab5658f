/**
 * From an opened checkpoint to the weights a graph binds: reads every tensor the configuration calls for, once, into its own
 * float32 array, and refuses a tensor that is missing or has another shape by its name.
 */

import type { WeightSource } from "@tinklet/models";
import { type ModelConfig, sameShape, WeightsError, weightShapes } from "@tinklet/models/config";
import type { WeightMap } from "../runtime/runtime.ts";
import { sharedInputs } from "./transformer.ts";

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
  const shapes = weightShapes(config);
  for (const [name, dims] of shapes) {
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
  }
  let bytes = 0;
  for (const together of neighbours(shapes)) {
    const sizes = together.map(([, dims]) => dims.reduce((count, dim) => count * dim, 1));
    const all = new Float32Array(sizes.reduce((sum, size) => sum + size, 0));
    let at = 0;
    together.forEach(([name, dims], index) => {
      const data = all.subarray(at, at + sizes[index]!);
      source.readFloat32(name, data);
      weights.set(name, { data, dims });
      at += data.length;
    });
    bytes += all.byteLength;
  }
  return { config, weights, bytes };
}

/** Weights of linears with a common input lie end to end in memory, so that one product can do for all of them (`sample/fused.ts`). */
const neighbours = (shapes: ReadonlyMap<string, readonly number[]>): (readonly [string, readonly number[]])[][] => {
  const groups = new Map<string, (readonly [string, readonly number[]])[]>();
  for (const [name, dims] of shapes) {
    const key = joined.reduce((text, pattern) => text.replace(pattern, "."), name);
    const group = groups.get(key);
    if (group) group.push([name, dims]);
    else groups.set(key, [[name, dims]]);
  }
  return [...groups.values()];
};

/** Match the part of a weight's name in which linears with a common input differ. */
const joined = Object.values(sharedInputs).map((names) => new RegExp(`\\.(?:${names.join("|")})\\.`));
