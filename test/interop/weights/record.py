"""Records what the `gguf` package, written by the authors of the format, makes of quantised blocks and of a whole file.

Run by record.mjs in a virtual environment of its own. Writes, into the folder given:
  blocks.json       for each stored format, random blocks and the float32 values they stand for (both as base64)
  tiny-llama.gguf   a one-layer llama with nine formats in it and a byte-level tokenizer
  tiny-llama.json   the sha256 of each of its tensors as float32 under Hugging Face's names, rows of q and k un-permuted
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(20260101)

# Byte positions of the half-precision fields in a block; every other byte may be anything.
HALF_FIELDS = {
    Type.Q8_0: [0],
    Type.Q4_0: [0],
    Type.Q4_1: [0, 2],
    Type.Q5_0: [0],
    Type.Q5_1: [0, 2],
    Type.Q4_K: [0, 2],
    Type.Q5_K: [0, 2],
    Type.Q6_K: [208],
}


def finite_halves(count: int) -> np.ndarray:
    """Half-precision bit patterns over the whole range, subnormal and negative ones included, without NaN and infinity."""
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    return np.where((bits & 0x7C00) == 0x7C00, bits & 0x83FF, bits)


def random_blocks(kind: Type, count: int, halves=None) -> np.ndarray:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALF_FIELDS[kind]:
        scale = finite_halves(count) if halves is None else (rng.standard_normal(count) * halves).astype(np.float16).view(np.uint16)
        blocks[:, at] = scale & 0xFF
        blocks[:, at + 1] = scale >> 8
    return blocks


def text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


formats = {}
for kind in HALF_FIELDS:
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    blocks = random_blocks(kind, 4 if block == 256 else 16)
    values = gguf.quants.dequantize(blocks.reshape(-1), kind).astype(np.float32)
    formats[kind.name] = {"bytes": text(blocks), "values": text(values)}
halves = np.concatenate([finite_halves(500), np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF], np.uint16)])
formats["F16"] = {"bytes": text(halves), "values": text(halves.view(np.float16).astype(np.float32))}
brain = rng.integers(0, 1 << 16, 500, dtype=np.uint16)
brain = np.where((brain & 0x7F80) == 0x7F80, brain & 0x807F, brain)
formats["BF16"] = {"bytes": text(brain), "values": text(gguf.quants.dequantize(brain.view(np.uint8), Type.BF16))}
(out / "blocks.json").write_text(json.dumps(formats, indent=1) + "\n")

HIDDEN, HEADS, KV_HEADS, HEAD, INNER, VOCAB = 256, 2, 1, 32, 32, 272


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """What the converter of llama.cpp does to the q and k of a llama, since it rotates neighbours and not halves."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def unpermute(weights: np.ndarray, heads: int) -> np.ndarray:
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


probe = np.arange(HEADS * HEAD * 2).reshape(HEADS * HEAD, 2)
assert (unpermute(permute(probe, HEADS), HEADS) == probe).all()

writer = gguf.GGUFWriter(str(out / "tiny-llama.gguf"), "llama")
writer.add_name("tiny llama")
writer.add_context_length(128)
writer.add_embedding_length(HIDDEN)
writer.add_block_count(1)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_key_length(HEAD)
writer.add_value_length(HEAD)
writer.add_rope_dimension_count(HEAD)
writer.add_rope_freq_base(10000.0)
writer.add_layer_norm_rms_eps(1e-5)

# A byte-level vocabulary: the 256 bytes in GPT-2's alphabet, three merges, and special tokens.
visible = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
alphabet = {b: chr(b) for b in visible}
for n, b in enumerate(b for b in range(256) if b not in alphabet):
    alphabet[b] = chr(256 + n)
tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [alphabet[b] for b in range(256)]
merges = [("t", "h"), ("th", "e"), (alphabet[32], "a")]
tokens += [a + b for a, b in merges]
tokens += [f"[unused{i}]" for i in range(VOCAB - len(tokens))]
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("gpt-2")
writer.add_token_list(tokens)
writer.add_token_types([3] * 3 + [1] * (VOCAB - 3))
writer.add_token_merges([f"{a} {b}" for a, b in merges])
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_add_bos_token(False)
writer.add_chat_template(
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

expected = {}


def add(name: str, hf_name: str, kind: Type, rows: int, columns: int | None = None, heads: int | None = None) -> None:
    shape = (rows,) if columns is None else (rows, columns)
    if kind in (Type.F32, Type.F16, Type.BF16):
        values = (rng.standard_normal(shape) * 0.05).astype(np.float32)
        if kind == Type.F32:
            stored = values
        elif kind == Type.F16:
            stored = values.astype(np.float16)
            values = stored.astype(np.float32)
        else:
            stored = gguf.quants.quantize(values, kind)
            values = gguf.quants.dequantize(stored, kind)
        if kind == Type.BF16:
            writer.add_tensor(name, stored, raw_dtype=kind)
        else:
            writer.add_tensor(name, stored)
    else:
        block, size = gguf.GGML_QUANT_SIZES[kind]
        stored = random_blocks(kind, rows * columns // block, halves=0.01).reshape(rows, columns // block * size)
        values = gguf.quants.dequantize(stored, kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
    values = values.reshape(shape)
    if heads is not None:
        values = unpermute(values, heads)
    digest = hashlib.sha256(np.ascontiguousarray(values, np.float32).tobytes()).hexdigest()
    expected[hf_name] = {"dtype": kind.name, "shape": list(shape), "sha256": digest}


add("token_embd.weight", "model.embed_tokens.weight", Type.Q6_K, VOCAB, HIDDEN)
add("output_norm.weight", "model.norm.weight", Type.F32, HIDDEN)
add("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight", Type.F32, HIDDEN)
add("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight", Type.Q4_K, HEADS * HEAD, HIDDEN, HEADS)
add("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", Type.Q5_K, KV_HEADS * HEAD, HIDDEN, KV_HEADS)
add("blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", Type.F16, KV_HEADS * HEAD, HIDDEN)
add("blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight", Type.Q8_0, HIDDEN, HEADS * HEAD)
add("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight", Type.F32, HIDDEN)
add("blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight", Type.Q5_1, INNER, HIDDEN)
add("blk.0.ffn_up.weight", "model.layers.0.mlp.up_proj.weight", Type.BF16, INNER, HIDDEN)
add("blk.0.ffn_down.weight", "model.layers.0.mlp.down_proj.weight", Type.Q4_1, HIDDEN, INNER)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
(out / "tiny-llama.json").write_text(json.dumps(expected, indent=1) + "\n")
