/**
 * The transformer as a graph: embeddings to final hidden states over a packed token axis. Sequences of any lengths lie end to end in
 * `tokens`; all linears and norms run on exactly those rows. Only attention needs to know where sequences begin and end: it
 * regroups the rows into a few rectangular groups `[batch, heads, time, headDim]`, and only there is anything padded.
 */
import { type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { product } from "../graph/dims.ts";
import type { Graph, Tensor } from "../graph/graph.ts";
import { add, gather, matmul, mul, reshape, rmsNorm, swiglu } from "../graph/ops.ts";
import { type AttentionGroup, packedAttention } from "./attention.ts";
import type { ModelConfig } from "./config.ts";

/** LoRA inputs of a graph by module name, and their common scaling factor alpha / rank. */
export interface LoraInputs {
  readonly scale: Tensor;
  readonly modules: ReadonlyMap<string, { readonly a: Tensor; readonly b: Tensor }>;
}

/** Declares the adapter's matrices as inputs; their rank is only known at run time, so that all ranks share one program. */
export const loraInputs = (graph: Graph, config: ModelConfig, targets: LoraTargets, trainable: boolean): LoraInputs => {
  const scale = graph.input("lora.scale", []);
  const modules = new Map(
    targetLinears(config, targets).map(({ name, inSize, outSize }) => [
      name,
      {
        a: graph.input(`${name}.lora_A`, ["rank", inSize], { trainable }),
        b: graph.input(`${name}.lora_B`, [outSize, "rank"], { trainable }),
      },
    ]),
  );
  return { scale, modules };
};

/** x·Wᵀ (+ bias) and, where the module is adapted, + scale·(x·Aᵀ)·Bᵀ. x is `[tokens, in]`. */
export const linear = (
  graph: Graph,
  x: Tensor,
  name: string,
  sizes: { inSize: number; outSize: number; bias?: boolean },
  lora: LoraInputs | undefined,
): Tensor => {
  let y = matmul(graph, x, graph.weight(`${name}.weight`, [sizes.outSize, sizes.inSize]), { transB: true });
  if (sizes.bias) y = add(graph, y, graph.weight(`${name}.bias`, [sizes.outSize]));
  const adapted = lora?.modules.get(name);
  if (!lora || !adapted) return y;
  const z = mul(graph, matmul(graph, x, adapted.a, { transB: true }), lora.scale); // [tokens, rank]
  return add(graph, y, matmul(graph, z, adapted.b, { transB: true }));
};

/** How the q, k and v rows of one layer become its attention output; training, prefill and decoding differ only here. */
export type Attend = (rows: { q: Tensor; k: Tensor; v: Tensor; layer: number }) => Tensor;

/** Layers from embedded tokens to the final norm: `[tokens, hidden]` to `[tokens, hidden]`. */
export const buildLayers = (
  graph: Graph,
  config: ModelConfig,
  embedded: Tensor,
  lora: LoraInputs | undefined,
  attend: Attend,
): Tensor => {
  const { hiddenSize, heads, kvHeads, headDim, mlpSize, normEpsilon } = config;
  const tokens = embedded.shape[0]!;
  const norm = (value: Tensor, name: string, size: number): Tensor =>
    rmsNorm(graph, value, graph.weight(`${name}.weight`, [size]), normEpsilon);
  let x = embedded;
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`;
    const h = norm(x, `${prefix}.input_layernorm`, hiddenSize);
    const project = (name: string, count: number): Tensor => {
      const sizes = { inSize: hiddenSize, outSize: count * headDim, bias: config.qkvBias };
      const flat = linear(graph, h, `${prefix}.self_attn.${name}_proj`, sizes, lora);
      // One row per head: [count · tokens, headDim], token-major.
      const rows = reshape(graph, flat, [product([tokens, count]), headDim]);
      return config.qkNorm && name !== "v" ? norm(rows, `${prefix}.self_attn.${name}_norm`, headDim) : rows;
    };
    const q = project("q", heads);
    const k = project("k", kvHeads);
    const v = project("v", kvHeads);
    const attended = attend({ q, k, v, layer }); // [tokens, heads · headDim]
    const output = { inSize: heads * headDim, outSize: hiddenSize, bias: config.outputBias };
    x = add(graph, x, linear(graph, attended, `${prefix}.self_attn.o_proj`, output, lora));

    const h2 = norm(x, `${prefix}.post_attention_layernorm`, hiddenSize);
    const wide = { inSize: hiddenSize, outSize: mlpSize, bias: config.mlpBias };
    const gate = linear(graph, h2, `${prefix}.mlp.gate_proj`, wide, lora);
    const up = linear(graph, h2, `${prefix}.mlp.up_proj`, wide, lora);
    const narrow = { inSize: mlpSize, outSize: hiddenSize, bias: config.mlpBias };
    x = add(graph, x, linear(graph, swiglu(graph, gate, up), `${prefix}.mlp.down_proj`, narrow, lora));
  }
  return norm(x, "model.norm", hiddenSize);
};

/** The embedding table, which is also the unembedding of tied models. */
export const embeddingTable = (graph: Graph, config: ModelConfig): Tensor =>
  graph.weight("model.embed_tokens.weight", [config.vocabSize, config.hiddenSize]);

/** Inputs that describe a packed batch; `groups` rectangles cover all sequences. */
export interface PackedInputs {
  readonly tokens: Tensor;
  readonly groups: readonly AttentionGroup[];
  readonly cos: Tensor;
  readonly sin: Tensor;
  readonly unpackQ: Tensor;
  readonly unpackKv: Tensor;
}

/** Declares the inputs of a packed batch. */
export const packedInputs = (graph: Graph, config: ModelConfig, groups: number): PackedInputs => {
  const half = config.headDim / 2;
  return {
    tokens: graph.input("tokens", ["tokens"], { dtype: "int32" }),
    cos: graph.input("cos", ["positions", half]),
    sin: graph.input("sin", ["positions", half]),
    unpackQ: graph.input("unpack.q", [product(["tokens", config.heads])], { dtype: "int32" }),
    unpackKv: graph.input("unpack.kv", [product(["tokens", config.kvHeads])], { dtype: "int32" }),
    groups: Array.from({ length: groups }, (_, index): AttentionGroup => {
      const [batch, time] = [`batch${index}`, `time${index}`];
      return {
        q: graph.input(`group${index}.q`, [batch, config.heads, time], { dtype: "int32" }),
        kv: graph.input(`group${index}.kv`, [batch, config.kvHeads, time], { dtype: "int32" }),
        positions: graph.input(`group${index}.positions`, [batch, time], { dtype: "int64" }),
        mask: graph.input(`group${index}.mask`, [time, time]),
        valid: graph.input(`group${index}.valid`, [batch, 1, time, 1]),
      };
    }),
  };
};

/** Packed tokens to final hidden states `[tokens, hidden]`. */
export const buildTrunk = (
  graph: Graph,
  config: ModelConfig,
  embedding: Tensor,
  inputs: PackedInputs,
  lora: LoraInputs | undefined,
  options: { recomputeAttention: boolean },
): Tensor =>
  buildLayers(graph, config, gather(graph, embedding, inputs.tokens), lora, ({ q, k, v }) =>
    packedAttention(graph, { q, k, v }, inputs, { ...config, ...options }),
  );
