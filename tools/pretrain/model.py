"""The Qwen3 architecture as training needs it: no cache, no masks but the causal one (so that the fused attention kernel
is used under `torch.compile`), the loss inside. Parameter names are transformers' own, so that a state dict moves over as
it is; `python model.py` checks that both compute the same."""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from settings import TINY, Settings


def config(s: Settings) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=s.vocabulary, hidden_size=s.width, num_hidden_layers=s.layers, num_attention_heads=s.heads,
        num_key_value_heads=s.kv_heads, head_dim=s.head_dim, intermediate_size=s.mlp, tie_word_embeddings=True,
        max_position_embeddings=s.context, rope_theta=10000.0, bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )


def reference(s: Settings, device: str) -> Qwen3ForCausalLM:
    """transformers' model of the same shape, for evaluation and export."""
    return Qwen3ForCausalLM(config(s)).to(device).eval()


class RMSNorm(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x.float(), self.weight.shape, self.weight, 1e-6).to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x: [batch, heads, time, head_dim]; the halves of a head are the pair that turns."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.head_dim = s.head_dim
        self.q_proj = nn.Linear(s.width, s.heads * s.head_dim, bias=False)
        self.k_proj = nn.Linear(s.width, s.kv_heads * s.head_dim, bias=False)
        self.v_proj = nn.Linear(s.width, s.kv_heads * s.head_dim, bias=False)
        self.o_proj = nn.Linear(s.heads * s.head_dim, s.width, bias=False)
        self.q_norm, self.k_norm = RMSNorm(s.head_dim), RMSNorm(s.head_dim)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        split = lambda y: y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # [batch, heads, time, head_dim]
        q = rotate(self.q_norm(split(self.q_proj(x))), cos, sin)
        k = rotate(self.k_norm(split(self.k_proj(x))), cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, split(self.v_proj(x)), is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.gate_proj = nn.Linear(s.width, s.mlp, bias=False)
        self.up_proj = nn.Linear(s.width, s.mlp, bias=False)
        self.down_proj = nn.Linear(s.mlp, s.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(s.width), RMSNorm(s.width)
        self.self_attn, self.mlp = Attention(s), MLP(s)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.embed_tokens = nn.Embedding(s.vocabulary, s.width)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = RMSNorm(s.width)


class Model(nn.Module):
    """Embedding and output matrix are one."""

    def __init__(self, s: Settings):
        super().__init__()
        self.model = Body(s)
        inverse = 1.0 / (10000 ** (torch.arange(0, s.head_dim, 2).float() / s.head_dim))
        angles = torch.outer(torch.arange(s.context).float(), inverse)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:  # what writes into the residual stream starts smaller
                nn.init.normal_(parameter, std=0.02 / (2 * s.layers) ** 0.5 if "o_proj" in name or "down_proj" in name else 0.02)

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.logits(ids).float().flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    torch.manual_seed(0)
    ours, theirs = Model(TINY), reference(TINY, "cpu")
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)  # large enough that a wrong sign or layout shows
    theirs.load_state_dict({**ours.state_dict(), "lm_head.weight": ours.model.embed_tokens.weight})
    ids = torch.randint(0, TINY.vocabulary, (3, 100))
    with torch.no_grad():
        worst = (ours.logits(ids) - theirs(input_ids=ids).logits).abs().max().item()
    assert worst < 1e-3, worst
    print(f"agrees with transformers: largest difference {worst:.1e}")
