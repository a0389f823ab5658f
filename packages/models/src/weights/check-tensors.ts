/**
 * Holds a checkpoint against its own configuration: every tensor that the architecture has must be there in its shape, and nothing
 * else may be. A model that does not fit is refused when it is opened, and not in the middle of a run.
 */

import { readConfig } from "../config/read-config.ts";
import { sameShape, weightShapes } from "../config/tensor-shapes.ts";
import { WeightsError } from "../errors.ts";
import type { WeightSource } from "./types.ts";

/** Left in old checkpoints, computed by everyone since; and the second name of a tied embedding. */
const harmless = /(?:^|\.)rotary_emb\.inv_freq$|^lm_head\.weight$/;

/**
 * @throws ConfigError when the configuration is not supported; WeightsError naming the first tensor that is missing, has another
 * shape, or has no place in such a model (as a sign that the configuration is that of another).
 */
export function checkTensors(config: Readonly<Record<string, unknown>>, weights: WeightSource, origin: string): void {
  const model = readConfig(config);
  if (model.layers > weights.tensors.size) {
    throw new WeightsError(`${origin}: its configuration says ${model.layers} layers, its weights have fewer tensors`, {
      code: "missing_tensor",
      tensor: `model.layers.${model.layers - 1}.input_layernorm.weight`,
      file: origin,
    });
  }
  const expected = weightShapes(model);
  for (const [name, shape] of expected) {
    const info = weights.tensors.get(name);
    if (!info) {
      weights.readFloat32(name, empty); // throws: the source knows whether it is missing or in a format we do not read
      continue;
    }
    if (!sameShape(info.shape, shape)) {
      throw new WeightsError(
        `${origin}: tensor ${name} has shape [${info.shape}], its configuration calls for [${shape}]`,
        { code: "shape_mismatch", tensor: name, file: info.file },
      );
    }
  }
  for (const [name, info] of weights.tensors) {
    if (!expected.has(name) && !harmless.test(name)) {
      const message = `${origin}: tensor ${name} has no place in a ${model.architecture} of its configuration`;
      throw new WeightsError(message, { code: "unexpected_tensor", tensor: name, file: info.file });
    }
  }
}

const empty = new Float32Array(0);
