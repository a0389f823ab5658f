"""The PyTorch + transformers + PEFT side of the benches `engine` and `gpu`: torch_peer.py SHAPE THREADS [DEVICE PRECISION].

One process per model shape. Reads one JSON command per line on stdin, answers one JSON line on stdout, so that the
bench can interleave runs of both sides. Settings are the best honest ones: threads = cores, SDPA attention, fused AdamW
where it exists, inference mode for sampling.
"""

import contextlib
import json
import resource
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM


DEVICE = sys.argv[3] if len(sys.argv) > 3 else "cpu"
PRECISION = sys.argv[4] if len(sys.argv) > 4 else "float32"


def autocast():
    """PEFT keeps the matrices of an adapter in float32; autocast multiplies them in bfloat16."""
    return torch.autocast(DEVICE, torch.bfloat16) if PRECISION == "bfloat16" else contextlib.nullcontext()


def now():
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def build(shape):
    common = dict(
        vocab_size=shape["vocab"], hidden_size=shape["width"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], num_key_value_heads=shape["kvHeads"], head_dim=shape["headDim"],
        intermediate_size=shape["mlp"], tie_word_embeddings=True, max_position_embeddings=2048,
        attn_implementation="sdpa", bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )
    config, cls = (Qwen3Config(**common), Qwen3ForCausalLM) if shape["qkNorm"] else (LlamaConfig(**common), LlamaForCausalLM)
    return cls(config).to(DEVICE, torch.bfloat16 if PRECISION == "bfloat16" else torch.float32)


def with_lora(model, rank):
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return get_peft_model(model, LoraConfig(r=rank, lora_alpha=32, target_modules=targets))


def optimizer_of(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    try:
        return torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.0, fused=True)
    except RuntimeError:
        return torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.0)


class Peer:
    def __init__(self):
        torch.set_num_threads(int(sys.argv[2]) if len(sys.argv) > 2 else 2)
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high" if PRECISION == "tf32" else "highest")
        self.shape = json.loads(sys.argv[1])
        self.base = build(self.shape)
        self.model = None

    def training(self):
        if self.model is None:
            self.model = with_lora(build(self.shape), 16)  # its own: PEFT changes the model it is given, and sampling is of the bare one
            self.model.train()
            self.optimizer = optimizer_of(self.model)

    def train(self, lengths, steps):
        """Padded to the longest, as every transformers recipe does; labels of the padding are ignored."""
        self.training()
        longest = max(lengths)
        ids = torch.randint(0, self.shape["vocab"], (len(lengths), longest), device=DEVICE)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(lengths):
            mask[row, :length] = 1
        labels = ids.masked_fill(mask == 0, -100)
        uniform = bool(mask.all())
        times = []
        for _ in range(steps):
            start = now()
            with autocast():
                loss = self.model(input_ids=ids, attention_mask=None if uniform else mask, labels=labels).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            times.append(now() - start)
        return {"seconds": times, "tokens": sum(lengths)}

    def generate(self, batch, prompt, new):
        model = self.base
        model.eval()
        ids = torch.randint(0, self.shape["vocab"], (batch, prompt), device=DEVICE)
        with torch.inference_mode():
            start = now()
            model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, temperature=1.0,
                           min_new_tokens=new, max_new_tokens=new)
            seconds = now() - start
        return {"seconds": [seconds], "tokens": batch * new}

    def policy(self, data, batch):
        """One importance-sampling step over prompts with answers, padded as transformers does, sorted by length so that little is."""
        self.training()
        data = sorted(data, key=lambda datum: len(datum["tokens"]))
        start = now()
        for at in range(0, len(data), batch):
            part = data[at:at + batch]
            longest = max(len(datum["tokens"]) for datum in part)
            ids = torch.zeros((len(part), longest), dtype=torch.long)  # filled on the host, then moved
            mask = torch.zeros_like(ids)
            counts = torch.zeros((len(part), longest - 1))
            for row, datum in enumerate(part):
                length = len(datum["tokens"])
                ids[row, :length] = torch.tensor(datum["tokens"])
                mask[row, :length] = 1
                counts[row, datum["prompt"] - 1:length - 1] = datum["advantage"]
            uniform = bool(mask.all())
            ids, mask, counts = ids.to(DEVICE), mask.to(DEVICE), counts.to(DEVICE)
            with autocast():
                logits = self.model(input_ids=ids, attention_mask=None if uniform else mask).logits[:, :-1].float()
            chosen = logits.gather(2, ids[:, 1:, None])[..., 0] - logits.logsumexp(2)
            (-(torch.exp(chosen - chosen.detach()) * counts).sum()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {"seconds": [now() - start], "tokens": sum(len(datum["tokens"]) for datum in data)}

    def memory(self):
        if DEVICE == "cuda":
            return {"peakBytes": torch.cuda.max_memory_allocated()}
        return {"peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


peer = Peer()
print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    name = command.pop("do")
    if name == "quit":
        break
    print(json.dumps(getattr(peer, name)(**command)), flush=True)
