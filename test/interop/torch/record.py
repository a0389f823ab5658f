"""Computes the fixtures: see record.mjs. Sequences run one at a time, without padding, in float32."""

import base64
import json
import pathlib
import sys

import numpy as np
import torch

import seeded
from record_models import ALPHA, MODELS, RANK, VOCAB, adapted, build, reset

torch.set_num_threads(1)
LENGTHS = [11, 5, 16]
# Sequences that begin alike, as names and lengths of their parts: one goes on from another, and one ends within all of them.
TREE = [[("root", 9), ("a", 4)], [("root", 9), ("b", 6)], [("root", 9), ("b", 6), ("c", 3)], [("root", 9)], [("alone", 7)]]
TREE_MODELS = ["llama-tied", "qwen2-untied", "qwen3-untied"]


def encode(values):
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def data(sequences):
    batch = []
    for index, tokens in enumerate(sequences):
        length = len(tokens)
        floats = lambda name: torch.from_numpy(seeded.uniform(f"{name}{index}", length))
        batch.append(dict(
            tokens=torch.from_numpy(tokens),
            targets=torch.from_numpy(seeded.tokens(f"targets{index}", length, VOCAB)),
            weights=(floats("weights") + 1) * (floats("mask") > -0.5),
            noise=floats("logprobs"),
            advantages=floats("advantages"),
        ))
    return batch


def logprobs_of(peft, item):
    logits = peft(input_ids=item["tokens"][None]).logits[0]
    return torch.log_softmax(logits, dim=-1).gather(1, item["targets"][:, None])[:, 0]


def loss_of(name, logprobs, item):
    weight, advantage, sampling = item["weights"], item["advantages"], item["sampling"]
    ratio = torch.exp(logprobs - sampling)
    if name == "cross_entropy":
        value = -weight * logprobs
    elif name == "importance_sampling":
        value = -weight * ratio * advantage
    elif name == "ppo":
        value = -weight * torch.min(ratio * advantage, torch.clamp(ratio, 0.8, 1.2) * advantage)
    elif name == "cispo":
        value = -weight * torch.clamp(ratio, 0.0, 4.0).detach() * logprobs * advantage
    elif name == "dro":
        value = -weight * (logprobs * advantage - 0.5 * 0.05 * (logprobs - sampling) ** 2)
    return value


def gradients(peft):
    grads = {key: encode(parameter.grad) for key, parameter in adapted(peft).items()}
    peft.zero_grad(set_to_none=True)
    return grads


def add_sampling(peft, batch):
    """The sampler's log-probs are near the model's, so that ratios fall on both sides of the clipping thresholds."""
    with torch.no_grad():
        for item in batch:
            item["sampling"] = logprobs_of(peft, item) + 0.4 * item["noise"]


def losses(peft, batch, names):
    result = {}
    for loss_fn in names:
        logprobs = [logprobs_of(peft, item) for item in batch]
        values = [loss_of(loss_fn, lp, item) for lp, item in zip(logprobs, batch)]
        torch.cat(values).sum().backward()
        result[loss_fn] = dict(logprobs=[encode(lp.detach()) for lp in logprobs],
                               values=[encode(value.detach()) for value in values], gradients=gradients(peft))
    return result


def record_tree(name):
    _, peft, _ = build(name)
    batch = data([np.concatenate([seeded.tokens(f"tree.{part}", length, VOCAB) for part, length in parts]) for parts in TREE])
    add_sampling(peft, batch)
    return dict(parts=TREE, lengths=[len(item["tokens"]) for item in batch],
                sampling=[encode(item["sampling"]) for item in batch],
                losses=losses(peft, batch, ["cross_entropy", "importance_sampling"]))


def record(name):
    config, peft, targets = build(name)
    batch = data([seeded.tokens(f"tokens{index}", length, VOCAB) for index, length in enumerate(LENGTHS)])
    add_sampling(peft, batch)
    with torch.no_grad():
        logits = peft(input_ids=batch[0]["tokens"][None]).logits[0]
    every = ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro"]
    named = every if name in ("llama-tied", "qwen3-untied") else ["cross_entropy", "ppo"]
    fixture = dict(name=name, config=config.to_dict(), rank=RANK, alpha=ALPHA, lengths=LENGTHS, targetModules=targets,
                   logits=encode(logits), sampling=[encode(item["sampling"]) for item in batch],
                   losses=losses(peft, batch, named))
    parameters = list(adapted(peft).values())
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, betas=(0.9, 0.95), eps=1e-12, weight_decay=0.1)
    history = dict(loss=[], norm=[])
    for _ in range(50):
        loss = torch.cat([loss_of("cross_entropy", logprobs_of(peft, item), item) for item in batch]).sum()
        loss.backward()
        history["norm"].append(float(torch.nn.utils.clip_grad_norm_(parameters, 20.0)))
        history["loss"].append(float(loss))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    fixture["training"] = dict(**history, parameters={key: encode(p.detach()) for key, p in adapted(peft).items()})
    reset(peft)
    prompt = batch[1]["tokens"]
    with torch.inference_mode():
        output = peft.generate(input_ids=prompt[None], attention_mask=torch.ones_like(prompt[None]), do_sample=False,
                               max_new_tokens=200, min_new_tokens=200)
    fixture["greedy"] = output[0, len(prompt):].tolist()
    return fixture


def write(folder, name, fixture):
    path = pathlib.Path(__file__).parents[2] / "fixtures" / folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(fixture, sort_keys=True) + "\n")
    print("recorded", f"{folder}/{name}")


if __name__ == "__main__":
    if "trees" not in sys.argv:
        for name in MODELS:
            write("torch", name, record(name))
    for name in TREE_MODELS:
        write("torch-trees", name, record_tree(name))
