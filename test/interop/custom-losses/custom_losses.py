"""Custom losses as the official SDK traces them, with what PyTorch makes of each: its graph as the wire carries it, and for
two data of different lengths the loss, the slope by each log-prob and the metrics. One line of JSON per loss."""

import json
import math
import sys

import torch
import torch.nn.functional as F
from numbers_of import series
from tinker.lib.public_interfaces.custom_loss import encode_graph, trace_loss

CASES = []


def case(**ranks):
    """A traced function with the ranks of its inputs; `logprobs` is of rank 1 unless said otherwise."""

    def register(fn):
        CASES.append((fn, {"logprobs": 1, **ranks}))
        return fn

    return register


# ---- the five standard losses, as formulas -----------------------------------------------------------------------------


@case(weights=1)
def cross_entropy(logprobs, weights):
    loss = -(logprobs * weights).sum()
    return loss, {"custom/nll:sum": loss}


@case(sampling=1, advantages=1)
def importance_sampling(logprobs, sampling, advantages):
    ratio = torch.exp(logprobs - sampling)
    return -(ratio * advantages).sum(), {"custom/ratio:mean": ratio.mean()}


@case(sampling=1, advantages=1)
def ppo(logprobs, sampling, advantages):
    ratio = torch.exp(logprobs - sampling)
    clipped = torch.clamp(ratio, 0.8, 1.2)
    loss = -torch.min(ratio * advantages, clipped * advantages).sum()
    return loss, {"custom/clipped:mean": (ratio != clipped).float().mean()}


@case(sampling=1, advantages=1)
def cispo(logprobs, sampling, advantages):
    ratio = torch.exp(logprobs - sampling)
    clipped = torch.clamp(ratio, min=0.8, max=1.2).detach()
    return -(clipped * logprobs * advantages).sum(), {}


@case(sampling=1, advantages=1)
def dro(logprobs, sampling, advantages):
    quadratic = (logprobs - sampling) ** 2
    return -(logprobs * advantages - 0.5 * 0.1 * quadratic).sum(), {}


# ---- preference, divergence, entropy -----------------------------------------------------------------------------------


@case(reference=1, weights=1, label=0)
def anchored_preference(logprobs, reference, weights, label):
    margin = ((logprobs - reference) * weights).sum()
    loss = -F.logsigmoid(0.1 * label * margin)
    return loss, {"custom/margin:mean": margin, "custom/right:mean": (margin * label > 0).float()}


@case(sampling=1, reference=1, advantages=1)
def kl_penalty(logprobs, sampling, reference, advantages):
    log_ratio = reference - logprobs
    kl = torch.exp(log_ratio) - 1 - log_ratio
    ratio = torch.exp(logprobs - sampling)
    loss = -(ratio * advantages).sum() + 0.05 * kl.sum()
    return loss, {"custom/kl:mean": kl.mean().detach()}


@case(sampling=1, advantages=1)
def sampled_entropy_bonus(logprobs, sampling, advantages):
    ratio = torch.exp(logprobs - sampling)
    entropy = -(ratio.detach() * logprobs)
    return (-(ratio * advantages) - 0.01 * entropy).mean(), {"custom/entropy:mean": entropy.mean()}


@case(weights=1)
def focal(logprobs, weights):
    hard = (1 - logprobs.exp()).pow(2)
    return torch.dot(-(hard * logprobs), weights), {}


@case(mask=1)
def masked_mean(logprobs, mask):
    count = mask.sum().clamp(min=1)
    return -(logprobs * mask).sum() / count, {"custom/tokens:sum": count}


@case(mask=1)
def masked_fill_bool(logprobs, mask):
    kept = logprobs.masked_fill(mask == 0, 0.0)
    return kept.square().sum(), {"custom/kept:sum": (mask != 0).sum()}


# ---- [T, K] targets ----------------------------------------------------------------------------------------------------


@case(logprobs=2, teacher=2)
def forward_kl(logprobs, teacher):
    loss = (teacher.exp() * (teacher - logprobs)).sum(dim=-1).mean()
    return loss, {"custom/kl:mean": loss}


@case(logprobs=2, teacher=2)
def reverse_kl_renormalized(logprobs, teacher):
    student = F.log_softmax(logprobs, dim=-1)
    other = torch.log_softmax(teacher, dim=-1)
    return (student.exp() * (student - other)).sum(), {}


@case(logprobs=2, teacher=2)
def jensen_shannon(logprobs, teacher):
    middle = torch.logaddexp(logprobs, teacher) - math.log(2.0)
    left = (logprobs.exp() * (logprobs - middle)).sum(-1)
    right = (teacher.exp() * (teacher - middle)).sum(-1)
    return 0.5 * (left + right).mean(), {}


@case(logprobs=2, choice=1)
def chosen_column(logprobs, choice):
    picked = logprobs.gather(1, choice.long().unsqueeze(-1)).squeeze(-1)
    return -picked.sum(), {"custom/picked:mean": picked.mean()}


@case(logprobs=2, scores=2)
def margin_ranking(logprobs, scores):
    best = logprobs[:, 0:1]
    rest = logprobs[:, 1:]
    return F.relu(0.5 - (best - rest) * (scores[:, :1] - scores[:, 1:]).sign()).sum(), {}


@case(logprobs=2)
def top_mass(logprobs):
    peak, where = logprobs.max(dim=1)
    mass = torch.logsumexp(logprobs, dim=1)
    return (mass - peak).sum(), {"custom/where:mean": where.float().mean()}


@case(logprobs=2, columns=1)
def column_weights(logprobs, columns):
    return -(logprobs.t() * columns[None, :].mean()).sum(dim=(0, 1)), {}


@case(logprobs=2, weights=1)
def weighted_rows(logprobs, weights):
    return -(weights @ logprobs.exp()).log().sum(), {}


# ---- clipping, reductions, indexing, where -----------------------------------------------------------------------------


@case(sampling=1, advantages=1, low=0, high=0)
def two_sided_clip(logprobs, sampling, advantages, low, high):
    log_ratio = logprobs - sampling
    ratio = log_ratio.exp()
    clipped = torch.maximum(torch.minimum(ratio, 1 + high), 1 - low)
    chosen = torch.where(advantages > 0, torch.minimum(ratio, clipped), torch.maximum(ratio, clipped))
    return -(chosen * advantages).sum(), {"custom/low:mean": (ratio < 1 - low).float().mean()}


@case(sampling=1, advantages=1)
def sequence_ratio(logprobs, sampling, advantages):
    mean_log = (logprobs - sampling).mean()
    ratio = torch.exp(mean_log)
    loss = -torch.min(ratio * advantages.mean(), ratio.clip(0.9, 1.1) * advantages.mean())
    return loss, {"custom/seq_ratio:mean": ratio}


@case(sampling=1, rewards=1)
def discounted_returns(logprobs, sampling, rewards):
    returns = torch.flip(torch.cumsum(torch.flip(rewards, [0]), 0), [0])
    centred = (returns - returns.mean()) / (returns.std() + 1e-6)
    return -(torch.exp(logprobs - sampling) * centred).sum(), {"custom/return:mean": returns[0]}


@case(weights=1)
def without_ends(logprobs, weights):
    inner = logprobs[1:-1] * weights[1:-1]
    return -inner.sum() - 0.1 * logprobs[0] - 0.2 * logprobs[-1], {}


@case(weights=1)
def smooth_neighbours(logprobs, weights):
    change = logprobs[1:] - logprobs[:-1]
    return (change**2 * weights[1:]).sum() + change.abs().max(), {}


@case(weights=1)
def every_second(logprobs, weights):
    return -(logprobs[::2] * weights[::2]).sum() / logprobs.shape[0], {}


@case(mask=1)
def boolean_index(logprobs, mask):
    kept = logprobs[mask > 0.5]
    return -kept.sum() / logprobs.size(0), {"custom/share:mean": (mask > 0.5).float().mean()}


@case(order=1)
def integer_index(logprobs, order):
    return (logprobs[order.long()] * torch.arange(order.shape[0])).sum(), {}


@case(weights=1, advantages=1)
def where_positive(logprobs, weights, advantages):
    up = advantages > 0
    loss = torch.where(up & (weights > 0), -logprobs * advantages, torch.zeros_like(logprobs))
    down = torch.where(~up, F.softplus(logprobs), 0.0)
    return loss.sum() + down.mean(), {"custom/up:sum": up.sum()}


@case(target=1)
def huber(logprobs, target):
    return F.huber_loss(logprobs, target, delta=0.3) + F.mse_loss(logprobs, target, reduction="sum"), {}


@case(target=1)
def smooth_l1(logprobs, target):
    return F.smooth_l1_loss(logprobs, target) + F.l1_loss(logprobs, target), {}


@case(target=1)
def binary_targets(logprobs, target):
    return F.binary_cross_entropy_with_logits(logprobs, torch.sigmoid(target)), {}


@case(reference=1)
def squared_error_family(logprobs, reference):
    d = logprobs - reference
    total = d.pow(2).mean() + torch.tanh(d).sum() + torch.sqrt(1 + d * d).sum() + d.abs().amax()
    total += torch.log1p(d.exp()).mean()
    return total, {"custom/std:mean": d.std(), "custom/var:mean": d.var(unbiased=False)}


@case(reference=1)
def length_normalized(logprobs, reference):
    return -(logprobs - reference).sum() / math.sqrt(logprobs.numel()), {}


@case(reference=1, weights=1)
def stacked_terms(logprobs, reference, weights):
    terms = torch.stack([logprobs * weights, (logprobs - reference) ** 2, torch.expm1(logprobs)])
    joined = torch.cat([terms[0], terms[1], terms[2][:1]])
    return terms.sum(0).mean() + joined.reshape(-1).softmax(0).max() + terms.view(-1)[0], {}


@case(logprobs=2, weights=2)
def axes_and_views(logprobs, weights):
    probs = logprobs.softmax(-1)
    swapped = probs.transpose(0, 1).reshape(probs.size(1), -1)
    spread = swapped.permute(1, 0).unsqueeze(0).expand(2, -1, -1)
    return (spread * weights).sum(dim=[1, 2], keepdim=True).mean(), {"custom/min:mean": probs.min()}


@case(temperature=0, weights=1)
def scalar_temperature(logprobs, temperature, weights):
    scaled = logprobs / temperature
    return -(scaled.softmax(dim=0) * weights).sum() + torch.logsumexp(scaled, 0), {"custom/t:mean": temperature}


@case(tokens=1, weights=1)
def skip_token(logprobs, tokens, weights):
    keep = torch.logical_and(tokens != 3, tokens.remainder(2) == 1).to(torch.float32)
    return -(logprobs * weights * keep).sum() / torch.clamp_min(keep.sum(), 1.0), {}


@case(sampling=1)
def infinite_guard(logprobs, sampling):
    ratio = torch.exp(torch.clamp(logprobs - sampling, min=-20.0, max=float("inf")))
    return torch.nan_to_num(ratio).sum(), {"custom/finite:mean": torch.isfinite(ratio).float().mean()}


@case(segments=1, advantages=1)
def per_turn(logprobs, segments, advantages):
    hot = F.one_hot(segments.long(), num_classes=3).float()
    sums = (logprobs.unsqueeze(1) * hot).sum(0)
    counts = hot.sum(0).clamp(min=1)
    return -((sums / counts) * (advantages.unsqueeze(1) * hot).sum(0)).sum(), {}


# ---- what they run on --------------------------------------------------------------------------------------------------


KINDS = {
    "logprobs": (-3.0, -0.1), "sampling": (-3.0, -0.1), "reference": (-3.0, -0.1), "teacher": (-3.0, -0.1),
    "target": (-2.0, 1.0), "advantages": (-1.5, 1.5), "rewards": (-1.0, 1.0), "weights": (0.0, 1.0),
    "columns": (0.1, 1.0), "scores": (-1.0, 1.0), "low": (0.1, 0.3), "high": (0.1, 0.3), "temperature": (0.5, 2.0),
}  # fmt: skip


def value(name, rank, length, width):
    shape = [[], [length], [length, width]][rank]
    count = math.prod(shape)
    if name == "mask":
        return shape, "float32", [float(i % 3 != 1) for i in range(count)]
    if name == "label":
        return shape, "float32", [1.0 if length == 4 else -1.0]
    if name in ("choice", "segments"):
        return shape, "int64", [(i * 2) % 3 for i in range(count)]
    if name == "order":
        return shape, "int64", [(i * 3 + 1) % length for i in range(count)]
    if name == "tokens":
        return shape, "int64", [(i * 5 + 3) % 7 for i in range(count)]
    return shape, "float32", series(f"{name}{length}", shape, *KINDS[name])


def numbers(tensor):
    return [float(x) for x in tensor.detach().double().reshape(-1)]


def recorded(fn, ranks):
    handle = trace_loss(fn, ranks, "session")
    data = []
    for length in (4, 7):
        inputs = {name: value(name, rank, length, 3) for name, rank in ranks.items()}
        tensors = [
            torch.tensor(flat, dtype=getattr(torch, dtype)).reshape(shape) for shape, dtype, flat in inputs.values()
        ]
        tensors[0].requires_grad_(True)
        loss, metrics = handle.graph(*tensors)
        loss.backward()
        data.append(
            {
                "inputs": {name: {"shape": s, "dtype": d, "data": v} for name, (s, d, v) in inputs.items()},
                "loss": float(loss.detach()),
                "gradient": numbers(tensors[0].grad),
                "metrics": {key: float(v.detach()) for key, v in metrics.items()},
            }
        )
    graph = encode_graph(handle).model_dump(mode="json")
    ranks_list = [{"name": i.name, "rank": i.rank} for i in handle.inputs]
    return {"name": handle.name, "inputs": ranks_list, "graph": graph, "data": data}


if __name__ == "__main__":
    torch.set_num_threads(1)
    lines = [json.dumps(recorded(fn, ranks), separators=(",", ":")) for fn, ranks in CASES]
    with open(sys.argv[1], "w") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(lines)} losses recorded with torch {torch.__version__}")
