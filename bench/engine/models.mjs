// The model shapes of the bench, and checkpoints of them with random weights (speed does not depend on their values).
import { closeSync, existsSync, mkdirSync, openSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";

export const SHAPES = {
  "10M": { vocab: 8192, width: 320, layers: 6, heads: 5, kvHeads: 5, headDim: 64, mlp: 864, qkNorm: false },
  "135M": { vocab: 49152, width: 576, layers: 30, heads: 9, kvHeads: 3, headDim: 64, mlp: 1536, qkNorm: false },
  "596M": { vocab: 151936, width: 1024, layers: 28, heads: 16, kvHeads: 8, headDim: 128, mlp: 3072, qkNorm: true },
};

/** Larger shapes, for GPUs; their checkpoints are written in bfloat16. */
export const GPU_SHAPES = {
  "135M": SHAPES["135M"],
  "596M": SHAPES["596M"],
  "1.7B": { ...SHAPES["596M"], width: 2048, mlp: 6144, dtype: "BF16" },
  "4B": { ...SHAPES["596M"], width: 2560, layers: 36, heads: 32, mlp: 9728, dtype: "BF16" },
};

/** A checkpoint of a gigabyte, to be loaded only. */
export const GIGABYTE = {
  vocab: 32000,
  width: 1024,
  layers: 17,
  heads: 16,
  kvHeads: 8,
  headDim: 64,
  mlp: 3072,
  qkNorm: false,
};

const linears = ({ width, heads, kvHeads, headDim, mlp }) => ({
  "self_attn.q_proj": [heads * headDim, width],
  "self_attn.k_proj": [kvHeads * headDim, width],
  "self_attn.v_proj": [kvHeads * headDim, width],
  "self_attn.o_proj": [width, heads * headDim],
  "mlp.gate_proj": [mlp, width],
  "mlp.up_proj": [mlp, width],
  "mlp.down_proj": [width, mlp],
});

const tensors = (shape) => {
  const list = [["model.embed_tokens.weight", [shape.vocab, shape.width]]];
  for (let layer = 0; layer < shape.layers; layer++) {
    const prefix = `model.layers.${layer}`;
    for (const [name, size] of Object.entries(linears(shape))) list.push([`${prefix}.${name}.weight`, size]);
    list.push(
      [`${prefix}.input_layernorm.weight`, [shape.width]],
      [`${prefix}.post_attention_layernorm.weight`, [shape.width]],
    );
    if (shape.qkNorm)
      for (const side of ["q", "k"]) list.push([`${prefix}.self_attn.${side}_norm.weight`, [shape.headDim]]);
  }
  list.push(["model.norm.weight", [shape.width]]);
  return list;
};

/** Floating-point operations per token of the matrix products of one LoRA training step with every token weighted. */
export const trainingFlops = (shape, rank, length) => {
  let forward = 0;
  let lora = 0;
  for (const [out, into] of Object.values(linears(shape))) {
    forward += out * into;
    lora += rank * (out + into);
  }
  const [qkv, headWidth] = [
    shape.heads * shape.headDim + 2 * shape.kvHeads * shape.headDim,
    shape.heads * shape.headDim,
  ];
  const attention = length * headWidth; // multiply-adds of one product of scores or values, all pairs
  const perLayer = 2 * forward + 3 * lora + 6 * attention;
  // The first layer's q, k, v need no gradient of their input; the head runs forward and back.
  return 2 * (shape.layers * perLayer - qkv * shape.width + 2 * shape.vocab * shape.width);
};

/** Path of a checkpoint of a shape, written on first use (40 MB to 8 GB; float32 unless the shape says otherwise). */
export const checkpoint = (root, name, shape = SHAPES[name]) => {
  const folder = join(root, ".cache", "bench", name);
  const file = join(folder, "model.safetensors");
  if (existsSync(file)) return folder;
  mkdirSync(folder, { recursive: true });
  const config = {
    model_type: shape.qkNorm ? "qwen3" : "llama",
    vocab_size: shape.vocab,
    hidden_size: shape.width,
    num_hidden_layers: shape.layers,
    num_attention_heads: shape.heads,
    num_key_value_heads: shape.kvHeads,
    head_dim: shape.headDim,
    intermediate_size: shape.mlp,
    max_position_embeddings: shape.context ?? 2048,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    hidden_act: "silu",
    tie_word_embeddings: true,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const isHalf = shape.dtype === "BF16";
  const header = {};
  let end = 0;
  for (const [tensor, size] of tensors(shape)) {
    const bytes = (isHalf ? 2 : 4) * size.reduce((n, dim) => n * dim, 1);
    header[tensor] = { dtype: isHalf ? "BF16" : "F32", shape: size, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (text.length % 8)) % 8);
  const fd = openSync(`${file}.tmp`, "w");
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeSync(fd, length);
  writeSync(fd, text);
  let state = 1;
  for (const [tensor, size] of tensors(shape)) {
    const gain = Math.sqrt(3 / size.at(-1));
    const values = new Float32Array(size.reduce((n, dim) => n * dim, 1));
    for (let i = 0; i < values.length; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) | 0;
      values[i] = tensor.includes("norm") ? 1 : (state / 2147483648) * gain;
    }
    const bits = isHalf ? new Uint16Array(new Uint32Array(values.buffer).map((word) => word >>> 16)) : values;
    for (let at = 0; at < bits.byteLength; at += 2 ** 30) {
      writeSync(fd, new Uint8Array(bits.buffer, at, Math.min(2 ** 30, bits.byteLength - at)));
    }
  }
  closeSync(fd);
  renameSync(`${file}.tmp`, file);
  return folder;
};
