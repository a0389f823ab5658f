"""The tiny seeded models of the fixtures, in transformers with PEFT around them."""

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

import seeded

torch.set_num_threads(1)
VOCAB, RANK, ALPHA = 96, 4, 32
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
MODELS = {
    "llama-tied": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=True)),
    "llama-untied-llama3": (LlamaConfig, LlamaForCausalLM, dict(tie_word_embeddings=False, rope_parameters=LLAMA3)),
    "llama-linear-bias": (LlamaConfig, LlamaForCausalLM,
                          dict(tie_word_embeddings=True, rope_parameters=LINEAR, attention_bias=True, mlp_bias=True)),
    "qwen2-tied": (Qwen2Config, Qwen2ForCausalLM, dict(tie_word_embeddings=True)),
    "qwen2-untied": (Qwen2Config, Qwen2ForCausalLM, dict(tie_word_embeddings=False)),
    "qwen3-tied": (Qwen3Config, Qwen3ForCausalLM, dict(tie_word_embeddings=True)),
    "qwen3-untied": (Qwen3Config, Qwen3ForCausalLM, dict(tie_word_embeddings=False)),
}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def build(name):
    config_class, model_class, extra = MODELS[name]
    config = config_class(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-5, attn_implementation="eager",
        bos_token_id=None, eos_token_id=None, pad_token_id=None, **extra)
    model = model_class(config).float()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(seeded.weight(key, tuple(parameter.shape))))
    targets = LINEARS + ([] if config.tie_word_embeddings else ["lm_head"])
    peft = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, lora_dropout=0.0))
    reset(peft)
    peft.eval()
    return config, peft, targets


def adapted(peft):
    """(name as we spell it, parameter), sorted as PEFT's own export would name them."""
    found = {}
    for key, parameter in peft.named_parameters():
        if "lora_" in key:
            found[key.replace(".default", "")] = parameter
    return found


def reset(peft):
    with torch.no_grad():
        for key, parameter in adapted(peft).items():
            parameter.copy_(torch.from_numpy(seeded.uniform(key, parameter.numel()).reshape(parameter.shape) * np.float32(0.1)))
