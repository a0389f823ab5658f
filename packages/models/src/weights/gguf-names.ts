/**
 * Maps between the names of llama.cpp and Hugging Face, in both directions: architectures, tensors, and the order of q and k rows.
 */

/** The supported GGUF architectures and their Hugging Face model classes. */
export const architectures: Readonly<Record<string, string>> = {
  llama: "LlamaForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
};

const topLevelNames: Readonly<Record<string, string>> = {
  token_embd: "model.embed_tokens",
  output_norm: "model.norm",
  output: "lm_head",
};

const layerNames: Readonly<Record<string, string>> = {
  attn_norm: "input_layernorm",
  attn_q: "self_attn.q_proj",
  attn_k: "self_attn.k_proj",
  attn_v: "self_attn.v_proj",
  attn_output: "self_attn.o_proj",
  attn_q_norm: "self_attn.q_norm",
  attn_k_norm: "self_attn.k_norm",
  ffn_norm: "post_attention_layernorm",
  ffn_gate: "mlp.gate_proj",
  ffn_up: "mlp.up_proj",
  ffn_down: "mlp.down_proj",
};

/** RoPE frequency divisors of Llama 3; Hugging Face uses `rope_scaling` in the configuration instead. */
export const ropeFactorsName = "rope_freqs.weight";

/** Hugging Face's name of a GGUF tensor, or undefined if there is none. */
export function huggingFaceName(name: string): string | undefined {
  const parts = /^(?:blk\.(0|[1-9]\d{0,4})\.)?([a-z_]+)\.(weight|bias)$/.exec(name);
  if (!parts) return undefined;
  const [, layer, stem, kind] = parts;
  const table = layer === undefined ? topLevelNames : layerNames;
  if (!Object.hasOwn(table, stem as string)) return undefined;
  const target = table[stem as string];
  return layer === undefined ? `${target}.${kind}` : `model.layers.${layer}.${target}.${kind}`;
}

const reversed = (table: Readonly<Record<string, string>>) =>
  new Map(Object.entries(table).map(([ours, theirs]) => [theirs, ours]));
const topLevelStems = reversed(topLevelNames);
const layerStems = reversed(layerNames);

/** GGUF's name of a Hugging Face tensor, or undefined if there is none. */
export function ggufName(name: string): string | undefined {
  const parts = /^(?:model\.layers\.(0|[1-9]\d{0,4})\.)?([a-z_.]+)\.(weight|bias)$/.exec(name);
  if (!parts) return undefined;
  const [, layer, module, kind] = parts;
  const stem = (layer === undefined ? topLevelStems : layerStems).get(module as string);
  if (stem === undefined) return undefined;
  return layer === undefined ? `${stem}.${kind}` : `blk.${layer}.${stem}.${kind}`;
}

/** Tensors of a llama model (Hugging Face names) whose rows llama.cpp's converter interleaves, with their number of heads. */
export function interleavedHeads(
  names: Iterable<string>,
  heads: number,
  keyValueHeads: number,
): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const name of names) {
    const projection = /self_attn\.([qk])_proj\.(?:weight|bias)$/.exec(name)?.[1];
    if (projection === "q") found.set(name, heads);
    if (projection === "k") found.set(name, keyValueHeads);
  }
  return found;
}

/**
 * The row in Hugging Face's order for a row of a llama GGUF file. In RoPE llama.cpp pairs adjacent rows (2i, 2i + 1), Hugging Face pairs rows
 * of the two halves (i, i + size/2). The converter therefore interleaves the halves of each head's q and k rows; this reverses it.
 */
export function halfRotationRow(row: number, headSize: number): number {
  const within = row % headSize;
  return row - within + (within % 2) * (headSize / 2) + Math.floor(within / 2);
}

/** Reorders the rows of a q or k tensor from Hugging Face's to llama.cpp's order. */
export function interleaveRows(values: Float32Array, rows: number, heads: number): Float32Array {
  const width = values.length / rows; // 1 for a bias
  const moved = new Float32Array(values.length);
  for (let row = 0; row < rows; row++) {
    const from = halfRotationRow(row, rows / heads) * width;
    moved.set(values.subarray(from, from + width), row * width);
  }
  return moved;
}
