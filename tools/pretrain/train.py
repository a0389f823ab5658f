"""The training loop: bf16 autocast, Muon for the matrices inside the
layers and AdamW for the embedding and the norms, constant rate after a warm-up and then a straight decay to zero.

The two phases are separate calls. The first phase's state is saved, so that several decays (with more or fewer additions
in the data) can start from the same point."""

import copy
import math
import time
from collections import defaultdict
from collections.abc import Callable

import torch

from model import Model
from settings import Settings
from stream import Stream

Log = Callable[[dict], None]


def _orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Newton-Schulz: each [rows, columns] matrix with its singular values pushed to about one. bf16 is enough."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon:
    """Momentum whose direction is orthogonalised, matrices of one shape at a time. The step is scaled to the size AdamW's
    would have (0.2 root-mean-square), so both optimizers share one learning rate."""

    def __init__(self, parameters: list[torch.nn.Parameter], weight_decay: float, momentum: float = 0.95):
        self.weight_decay, self.momentum = weight_decay, momentum
        by_shape = defaultdict(list)
        for parameter in parameters:
            by_shape[tuple(parameter.shape)].append(parameter)
        self.groups = list(by_shape.values())
        self.buffers = [torch.zeros(len(group), *group[0].shape, device=group[0].device) for group in self.groups]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for group, buffer in zip(self.groups, self.buffers):
            gradients = torch.stack([parameter.grad for parameter in group])
            buffer.lerp_(gradients, 1 - self.momentum)
            direction = _orthogonal(gradients.lerp(buffer, self.momentum)).float()
            scale = 0.2 * math.sqrt(max(group[0].shape))
            torch._foreach_mul_(group, 1 - rate * self.weight_decay)
            torch._foreach_add_(group, list(direction.unbind()), alpha=-rate * scale)


class Trainer:
    """Model, optimizers and step function. `state` and `restore` carry everything a later decay needs."""

    def __init__(self, s: Settings, device: str):
        self.settings, self.device = s, device
        torch.manual_seed(s.seed)
        self.model = Model(s).to(device)
        inner = [p for name, p in self.model.named_parameters() if p.ndim == 2 and "embed" not in name]
        outer = [p for name, p in self.model.named_parameters() if p.ndim != 2 or "embed" in name]
        self.muon = Muon(inner, s.weight_decay)
        self.adamw = torch.optim.AdamW(outer, lr=s.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=device == "cuda")
        self.forward = torch.compile(self.model) if s.compiled else self.model

    def state(self) -> dict:
        return {"model": self.model.state_dict(), "adamw": self.adamw.state_dict(), "muon": self.muon.buffers}

    def restore(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self.adamw.load_state_dict(copy.deepcopy(state["adamw"]))  # it keeps the tensors it is given
        for buffer, saved in zip(self.muon.buffers, state["muon"]):
            buffer.copy_(saved)

    def run(self, stream: Stream, steps: int, rate_at: Callable[[int], float], seed: int, log: Log) -> None:
        s = self.settings
        generator = torch.Generator(self.device).manual_seed(seed)
        batches = stream.batches(s.batch, s.length, generator)
        self.model.train()
        began, total = time.monotonic(), torch.zeros((), device=self.device)
        every = max(1, steps // 40)
        for step in range(steps):
            rate = rate_at(step)
            window = next(batches)
            with torch.autocast(self.device, torch.bfloat16):
                loss = self.forward(window[:, :-1], window[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            for group in self.adamw.param_groups:
                group["lr"] = rate
            self.adamw.step()
            self.muon.step(rate)
            self.model.zero_grad(set_to_none=True)
            total += loss.detach()
            if (step + 1) % every == 0:
                seconds = time.monotonic() - began
                log({"step": step + 1, "loss": round(total.item() / every, 4), "rate": round(rate, 6),
                     "seconds": round(seconds, 1), "tokens": (step + 1) * s.batch * s.length})
                total.zero_()

    def stable(self, stream: Stream, part: int, log: Log) -> None:
        """One of `stable_parts` equal parts of the first phase."""
        s = self.settings
        steps = s.stable_steps // s.stable_parts
        before = part * steps
        add = lambda row: log({**row, "step": row["step"] + before, "tokens": row["tokens"] + before * s.batch * s.length})
        self.run(stream, steps, lambda step: s.rate * min(1.0, (before + step + 1) / s.warmup_steps), s.seed + 1 + 100 * part, add)

    def decay(self, stream: Stream, log: Log) -> None:
        s = self.settings
        self.run(stream, s.decay_steps, lambda step: s.rate * (1 - step / s.decay_steps), s.seed + 2, log)
