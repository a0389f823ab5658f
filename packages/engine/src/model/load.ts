/**
 * Loads the weights of an opened checkpoint: reads each tensor that the configuration requires once, as float32, and reports
 * tensors that are missing or have the wrong shape.
 */

import type { WeightSource } from "@tinklet/models";
import { type ModelConfig, sameShape, WeightsError, weightShapes } from "@tinklet/models/config";
import type { WeightMap } from "../runtime/runtime.ts";
import { sharedInputs } from "./transformer.ts";

/** A model with its weights in memory. */
export interface LoadedModel {
  readonly config: ModelConfig;
  readonly weights: WeightMap;
  readonly bytes: number;
}

/** Reads all weights of a model. @throws WeightsError with the name of the tensor that is missing or has the wrong shape. */
export function loadModel(config: ModelConfig, source: WeightSource): LoadedModel {
  const weights = new Map<string, { data: Float32Array; dims: readonly number[] }>();
  const shapes = weightShapes(config);
  for (const [name, dims] of shapes) {
    const info = source.tensors.get(name);
    if (!info) {
      throw new WeightsError(`tensor ${name} is missing`, {
        code: "missing_tensor",
        tensor: name,
        hint: "the weights do not match config.json, or a shard is missing",
      });
    }
    if (!sameShape(info.shape, dims)) {
      const [has, wants] = [info.shape, dims].map((shape) => `[${shape.join(", ")}]`);
      throw new WeightsError(`tensor ${name} has shape ${has}, but config.json requires ${wants}`, {
        code: "shape_mismatch",
        tensor: name,
        file: info.file,
      });
    }
  }
  let bytes = 0;
  for (const together of contiguousGroups(shapes)) {
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

/**
 * Groups the weights of linears with a common input. Each group is contiguous in memory, so that one product computes all its
 * linears (`sample/fused.ts`).
 */
const contiguousGroups = (
  shapes: ReadonlyMap<string, readonly number[]>,
): (readonly [string, readonly number[]])[][] => {
  const groups = new Map<string, (readonly [string, readonly number[]])[]>();
  for (const [name, dims] of shapes) {
    const key = sharedInputPatterns.reduce((text, pattern) => text.replace(pattern, "."), name);
    const group = groups.get(key);
    if (group) group.push([name, dims]);
    else groups.set(key, [[name, dims]]);
  }
  return [...groups.values()];
};

/** Patterns of the part of a weight's name that differs among linears with a common input. */
const sharedInputPatterns = Object.values(sharedInputs).map((names) => new RegExp(`\\.(?:${names.join("|")})\\.`));
