/** Names and shapes of a model's tensors, derived from its configuration, in layer order. */
import type { ModelConfig } from "./read-config.ts";

/** The linear layers of an attention block. */
export const attentionLinears = ["q_proj", "k_proj", "v_proj", "o_proj"] as const;
/** The linear layers of an MLP block. */
export const mlpLinears = ["gate_proj", "up_proj", "down_proj"] as const;

/** Input and output width of a linear layer of a block. */
export function linearSizes(config: ModelConfig, linear: string): { inSize: number; outSize: number } {
  const { hiddenSize, heads, kvHeads, headDim, mlpSize } = config;
  switch (linear) {
    case "q_proj":
      return { inSize: hiddenSize, outSize: heads * headDim };
    case "k_proj":
    case "v_proj":
      return { inSize: hiddenSize, outSize: kvHeads * headDim };
    case "o_proj":
      return { inSize: heads * headDim, outSize: hiddenSize };
    case "down_proj":
      return { inSize: mlpSize, outSize: hiddenSize };
    default:
      return { inSize: hiddenSize, outSize: mlpSize };
  }
}

/** Names and shapes of all tensors of a model, in layer order. */
export function weightShapes(config: ModelConfig): Map<string, readonly number[]> {
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
    for (const name of attentionLinears) {
      linear(`${prefix}.self_attn`, name, name === "o_proj" ? config.outputBias : config.qkvBias);
    }
    if (config.qkNorm) {
      for (const name of ["q_norm", "k_norm"]) shapes.set(`${prefix}.self_attn.${name}.weight`, [config.headDim]);
    }
    for (const name of mlpLinears) linear(`${prefix}.mlp`, name, config.mlpBias);
  }
  shapes.set("model.norm.weight", [config.hiddenSize]);
  if (!config.tiedEmbeddings) shapes.set("lm_head.weight", [config.vocabSize, config.hiddenSize]);
  return shapes;
}

/** Total number of values in all tensors. */
export function countParameters(config: ModelConfig): number {
  let total = 0;
  for (const shape of weightShapes(config).values()) total += shape.reduce((n, dim) => n * dim, 1);
  return total;
}

/** Whether two shapes are equal; symbolic dimensions (strings) are compared by name. */
export function sameShape(a: readonly (number | string)[], b: readonly (number | string)[]): boolean {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}
