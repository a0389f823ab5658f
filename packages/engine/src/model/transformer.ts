/**
 * The transformer as a graph, from embeddings to final hidden states, over a packed token axis. Sequences of any length are
 * concatenated in `tokens`; linears and norms run on exactly those rows. Only attention needs sequence boundaries: it gathers the
 * rows into a few padded groups `[batch, heads, time, headDim]`.
 */

import type { ModelConfig } from "@tinklet/models/config";
import { linearSizes } from "@tinklet/models/config";
import { type LoraTargets, targetLinears } from "../adapter/layout.ts";
import { type Dim, product } from "../graph/dims.ts";
import type { Graph, Tensor } from "../graph/graph.ts";
import { add, flatten, gather, matmul, mul, reshape, rmsNorm, swiglu, transpose } from "../graph/ops.ts";
import {
  type AttentionGroup,
  keyGradientClasses,
  type PackedAttentionInputs,
  packedAttention,
  type TreeAttentionInputs,
  treeAttention,
} from "./attention.ts";

/** LoRA inputs of a graph by module name, and their common scaling factor alpha / rank. */
export interface LoraInputs {
  readonly scale: Tensor;
  readonly modules: ReadonlyMap<string, { readonly a: Tensor; readonly b: Tensor }>;
}

/** Declares the adapter's matrices as inputs. Their rank is a run-time size, so that all ranks share one program. */
export function loraInputs(
  graph: Graph,
  config: ModelConfig,
  { targets, trainable }: { readonly targets: LoraTargets; readonly trainable: boolean },
): LoraInputs {
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
}

/** Linears of a layer that share an input. */
export const sharedInputs = {
  attention: ["q_proj", "k_proj", "v_proj"],
  mlp: ["gate_proj", "up_proj"],
} as const;

/** Computes the frozen part x·Wᵀ (+ bias) of linears (full names) that share an input. x is `[tokens, in]`. */
export type FrozenLinears = (
  graph: Graph,
  x: Tensor,
  of: { readonly linears: readonly LinearName[]; readonly bias: boolean },
) => Tensor[];

interface LinearName {
  readonly name: string;
  readonly outSize: number;
}

/** x·Wᵀ (+ bias) with the weights `name`. */
export function frozenLinear(
  graph: Graph,
  x: Tensor,
  { name, outSize, bias }: LinearName & { readonly bias: boolean },
): Tensor {
  const y = matmul(graph, x, graph.weight(`${name}.weight`, [outSize, x.shape[1]!]), { transB: true });
  return bias ? add(graph, y, graph.weight(`${name}.bias`, [outSize])) : y;
}

/** Computes each linear as a separate product. */
const separateLinears: FrozenLinears = (graph, x, { linears, bias }) =>
  linears.map((linear) => frozenLinear(graph, x, { ...linear, bias }));

/** x·Aᵀ, `[rows, rank]`. A is `[rank, in]`, or the same values in blocks `[blocks, width, in]`, multiplied one by one. */
function innerOf(graph: Graph, x: Tensor, a: Tensor): Tensor {
  const z = matmul(graph, x, a, { transB: true });
  if (a.shape.length === 2) return z;
  return flatten(graph, transpose(graph, z, [1, 0, 2]), 1);
}

/** y + scale·(x·Aᵀ)·Bᵀ, where y is a linear's frozen part; z is the scaled inner value `[rows, rank]`. */
export function addLora(
  graph: Graph,
  x: Tensor,
  { y, a, b, scale }: { readonly y: Tensor; readonly a: Tensor; readonly b: Tensor; readonly scale: Tensor },
): { y: Tensor; z: Tensor } {
  const z = mul(graph, innerOf(graph, x, a), scale);
  return { y: add(graph, y, matmul(graph, z, b, { transB: true })), z };
}

/**
 * Computes a layer's attention output from its q, k and v. Training, prefill and decode differ only here. The inputs are `[tokens,
 * heads · headDim]` or, if they were normalised per head, already in the shape of `headRows`.
 */
export type Attend = (flat: { q: Tensor; k: Tensor; v: Tensor; layer: number }) => Tensor;

/** One row per head: `[tokens · heads, headDim]`, token-major. */
export const headRows = (graph: Graph, flat: Tensor, headDim: number): Tensor =>
  reshape(graph, flat, [product([...flat.shape.slice(0, -1), (flat.shape.at(-1) as number) / headDim]), headDim]);

/** Inputs of {@link buildLayers}. */
export interface LayerParts {
  readonly embedded: Tensor;
  readonly lora: LoraInputs | undefined;
  readonly attend: Attend;
  /** @defaultValue each linear as a separate product */
  readonly frozen?: FrozenLinears | undefined;
}

/** Layers from embedded tokens to the final norm: `[tokens, hidden]` to `[tokens, hidden]`. */
export function buildLayers(
  graph: Graph,
  config: ModelConfig,
  { embedded, lora, attend, frozen = separateLinears }: LayerParts,
): Tensor {
  const { hiddenSize, headDim, normEpsilon } = config;
  const norm = (value: Tensor, name: string, size: number): Tensor =>
    rmsNorm(graph, value, graph.weight(`${name}.weight`, [size]), normEpsilon);
  const linears = (
    input: Tensor,
    prefix: string,
    { names, bias }: { names: readonly string[]; bias: boolean },
  ): Tensor[] => {
    const named = names.map((name) => ({ name: `${prefix}.${name}`, outSize: linearSizes(config, name).outSize }));
    return frozen(graph, input, { linears: named, bias }).map((y, index) => {
      const adapted = lora?.modules.get(named[index]!.name);
      return lora && adapted ? addLora(graph, input, { y, ...adapted, scale: lora.scale }).y : y;
    });
  };
  let x = embedded;
  for (let layer = 0; layer < config.layers; layer++) {
    const prefix = `model.layers.${layer}`;
    const attention = `${prefix}.self_attn`;
    const h = norm(x, `${prefix}.input_layernorm`, hiddenSize);
    const projections = { names: sharedInputs.attention, bias: config.qkvBias };
    const [q, k, v] = linears(h, attention, projections) as [Tensor, Tensor, Tensor];
    const normed = (flat: Tensor, name: string): Tensor =>
      config.qkNorm ? norm(headRows(graph, flat, headDim), `${attention}.${name}`, headDim) : flat;
    const attended = attend({ q: normed(q, "q_norm"), k: normed(k, "k_norm"), v, layer }); // [tokens, heads · headDim]
    const [output] = linears(attended, attention, { names: ["o_proj"], bias: config.outputBias }) as [Tensor];
    x = add(graph, x, output);

    const mlp = `${prefix}.mlp`;
    const h2 = norm(x, `${prefix}.post_attention_layernorm`, hiddenSize);
    const bias = config.mlpBias;
    const [gate, up] = linears(h2, mlp, { names: sharedInputs.mlp, bias }) as [Tensor, Tensor];
    const [down] = linears(swiglu(graph, gate, up), mlp, { names: ["down_proj"], bias }) as [Tensor];
    x = add(graph, x, down);
  }
  return norm(x, "model.norm", hiddenSize);
}

/** The embedding table; also the unembedding of tied models. */
export const embeddingTable = (graph: Graph, config: ModelConfig): Tensor =>
  graph.weight("model.embed_tokens.weight", [config.vocabSize, config.hiddenSize]);

/** Declares the inputs of a packed batch; all sequences are in `groups` padded groups. */
export function packedInputs(graph: Graph, config: ModelConfig, groups: number): PackedAttentionInputs {
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
}

/** Declares the inputs of a prefix tree; all its clusters are in `groups` padded groups. */
export function treeInputs(
  graph: Graph,
  { heads, kvHeads, headDim }: ModelConfig,
  groups: number,
): TreeAttentionInputs {
  const half = headDim / 2;
  const integers = (name: string, shape: readonly Dim[]): Tensor => graph.input(name, shape, { dtype: "int32" });
  return {
    tokens: integers("tokens", ["tokens"]),
    positions: graph.input("positions", ["tokens", 1], { dtype: "int64" }),
    cos: graph.input("cos", ["positions", half]),
    sin: graph.input("sin", ["positions", half]),
    unpackQ: integers("unpack.q", [product(["tokens", heads])]),
    unpackKv: integers("unpack.kv", [product(["tokens", kvHeads])]),
    sums: Array.from({ length: keyGradientClasses }, (_, i) => integers(`sum${i}.kv`, [`summed${i}`, `times${i}`])),
    groups: Array.from({ length: groups }, (_, index) => {
      const [batch, queries, keys] = [`batch${index}`, `queries${index}`, `keys${index}`];
      return {
        q: integers(`group${index}.q`, [batch, heads, queries]),
        kv: integers(`group${index}.kv`, [batch, kvHeads, keys]),
        mask: graph.input(`group${index}.mask`, [batch, 1, queries, keys]),
        valid: graph.input(`group${index}.valid`, [batch, 1, queries, 1]),
      };
    }),
  };
}

/** Inputs of the trunk: a packed batch or a prefix tree. */
export interface TrunkParts {
  readonly inputs: PackedAttentionInputs | TreeAttentionInputs;
  readonly lora: LoraInputs | undefined;
  readonly recomputeAttention: boolean;
}

/** Packed tokens to final hidden states `[tokens, hidden]`. */
export function buildTrunk(
  graph: Graph,
  config: ModelConfig,
  { embedding, inputs, lora, recomputeAttention }: TrunkParts & { readonly embedding: Tensor },
): Tensor {
  const shape = { ...config, recomputeAttention };
  const attend: Attend = ({ q, k, v }) => {
    const rows = (flat: Tensor): Tensor => headRows(graph, flat, config.headDim);
    const all = { q: rows(q), k: rows(k), v: rows(v) };
    return "sums" in inputs ? treeAttention(graph, all, { inputs, shape }) : packedAttention(graph, all, inputs, shape);
  };
  return buildLayers(graph, config, { embedded: gather(graph, embedding, inputs.tokens), lora, attend });
}
