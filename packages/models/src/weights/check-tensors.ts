/**
 * Checks a checkpoint against its configuration: exactly the tensors of the architecture must exist, with the expected shapes. A mismatch
 * is an error when the model is opened, and not in the middle of a run.
 */

import { readConfig } from "../config/read-config.ts";
import { sameShape, weightShapes } from "../config/tensor-shapes.ts";
import { WeightsError } from "../errors.ts";
import type { WeightSource } from "./types.ts";

/** Tensors that are ignored: RoPE frequencies in old checkpoints, which are computed today, and the second name of a tied embedding. */
const ignoredTensors = /(?:^|\.)rotary_emb\.inv_freq$|^lm_head\.weight$/;

/**
 * @throws ConfigError if the configuration is not supported; WeightsError naming the first tensor that is missing, has the wrong shape,
 * or is unexpected (the configuration may belong to another model).
 */
export function checkTensors(config: Readonly<Record<string, unknown>>, weights: WeightSource, origin: string): void {
  const model = readConfig(config);
  if (model.layers > weights.tensors.size) {
    throw new WeightsError(
      `${origin}: its configuration has ${model.layers} layers, but its weights have only ${weights.tensors.size} tensors`,
      {
        code: "missing_tensor",
        tensor: `model.layers.${model.layers - 1}.input_layernorm.weight`,
        file: origin,
      },
    );
  }
  const expected = weightShapes(model);
  for (const [name, shape] of expected) {
    const info = weights.tensors.get(name);
    if (!info) {
      weights.readFloat32(name, empty); // throws an error that tells a missing tensor from an unsupported dtype
      continue;
    }
    if (!sameShape(info.shape, shape)) {
      throw new WeightsError(
        `${origin}: tensor ${name} must have shape [${shape}] by its configuration, got [${info.shape}]`,
        { code: "shape_mismatch", tensor: name, file: info.file },
      );
    }
  }
  for (const [name, info] of weights.tensors) {
    if (!expected.has(name) && !ignoredTensors.test(name)) {
      const message = `${origin}: tensor ${name} does not belong to a ${model.architecture} with this configuration`;
      throw new WeightsError(message, { code: "unexpected_tensor", tensor: name, file: info.file });
    }
  }
}

const empty = new Float32Array(0);
