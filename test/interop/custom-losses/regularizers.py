"""The regularizers of `@tinklet/sdk/losses` and a combined loss, by PyTorch in double precision: values, derivatives by each log-prob,
and for the combined loss its metrics and the norm of each term's gradient. `regularizers.py FILE`; one line of JSON per case."""

import json
import sys

import torch
import torch.nn.functional as F
from numbers_of import series

REFERENCE, MASK = "ref_logprobs", "weights"


def kl_forward(l, r):
    return F.kl_div(l, r, reduction="none", log_target=True)


def kl_reverse(l, r):
    return F.kl_div(r, l, reduction="none", log_target=True)


def kl_symmetric(l, r):
    return (kl_forward(l, r) + kl_reverse(l, r)) / 2


def kl_sampled(l, r):
    return torch.expm1(r - l) - (r - l)


def entropy(l, _):
    return torch.special.entr(l.exp())


def consistency(l, r):
    return F.mse_loss(l, r, reduction="none")


TERMS = {
    "klForward": (kl_forward, 2), "klReverse": (kl_reverse, 2), "klSymmetric": (kl_symmetric, 2),
    "klSampled": (kl_sampled, 1), "entropy": (entropy, 2), "consistency": (consistency, 1),
}  # fmt: skip
LENGTHS, WIDTH = (4, 7), 3


def tensors(rank, length):
    """Log-probs, those of a reference, and a factor per position, of which one is 0."""
    shape = [length] if rank == 1 else [length, WIDTH]
    make = lambda name, size, low, high: torch.tensor(series(name, size, low, high), dtype=torch.float64).reshape(size)
    mask = make(f"mask{length}", [length], 0.1, 1.5)
    mask[1] = 0
    return make(f"l{length}", shape, -3.0, -0.1).requires_grad_(True), make(f"r{length}", shape, -3.0, -0.1), mask


def reduced(values, mask, reduction):
    each = values.sum(1) if values.dim() == 2 else values
    if mask is None:
        return each.sum() if reduction == "sum" else each.mean()
    return (each * mask).sum() if reduction == "sum" else (each * mask).sum() / mask.sum()


def flat(tensor):
    return [round(float(x), 12) for x in tensor.detach().reshape(-1)]


def described(tensor):
    return {"shape": list(tensor.shape), "data": flat(tensor)}


def single(name, fn, rank, reduction, masked):
    data = []
    for length in LENGTHS:
        l, r, mask = tensors(rank, length)
        value = reduced(fn(l, r), mask if masked else None, reduction)
        value.backward()
        inputs = {"logprobs": described(l), REFERENCE: described(r), MASK: described(mask)}
        data.append({"inputs": inputs, "value": flat(value)[0], "gradient": flat(l.grad)})
    return {"term": name, "reduction": reduction, "masked": masked, "data": data}


def combined(rank, terms):
    """A weighted cross entropy with terms of the given weights, over the whole batch."""
    batch = [tensors(rank, length) for length in LENGTHS]
    logprobs = [l for l, _, _ in batch]
    base = sum(-(l * (mask if rank == 1 else mask[:, None])).sum() for l, _, mask in batch)
    values = {name: sum(reduced(TERMS[name][0](l, r), mask, "mean") for l, r, mask in batch) for name in terms}
    weighted = {name: weight * values[name] for name, weight in terms.items()}
    total = base + sum(weighted.values())

    def slopes(value):
        return torch.autograd.grad(value, logprobs, retain_graph=True)

    norm = lambda value: float(torch.cat([s.reshape(-1) for s in slopes(value)]).norm())
    norms = {name: round(norm(value), 12) for name, value in {"base": base, **weighted, "total": total}.items()}
    data = [
        {"inputs": {"logprobs": described(l), REFERENCE: described(r), MASK: described(mask)}, "gradient": flat(slope)}
        for (l, r, mask), slope in zip(batch, slopes(total), strict=True)
    ]
    sums = {name: flat(value)[0] for name, value in values.items()}
    return {"rank": rank, "terms": terms, "loss": flat(total)[0], "values": sums, "norms": norms, "data": data}


if __name__ == "__main__":
    torch.set_num_threads(1)
    terms = [
        single(name, fn, rank, reduction, masked)
        for name, (fn, rank) in TERMS.items()
        for reduction in ("sum", "mean")
        for masked in (False, True)
    ]
    losses = [
        combined(1, {"klSampled": 0.05, "consistency": 0.3}),
        combined(2, {"klForward": 0.1, "klReverse": 0.2, "klSymmetric": 0.4, "entropy": -0.01}),
    ]
    lines = lambda rows: ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    with open(sys.argv[1], "w") as out:
        out.write(f'{{"terms":[\n{lines(terms)}\n],\n"combined":[\n{lines(losses)}\n]}}\n')
    print(f"{len(terms)} regularizers and {len(losses)} combined losses recorded with torch {torch.__version__}")
