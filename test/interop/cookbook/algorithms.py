"""What the official cookbook's algorithms make of the inputs of algorithms-main.ts: the same fields, under the same names.

Input:  {"supervised": […], "rollouts": {…}, …}, each with the inputs of one algorithm
Output: the same keys with the official results
"""

import asyncio
import json
import sys
from types import SimpleNamespace

import tinker
import torch
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.distillation import train_off_policy, train_on_policy
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.rl import train as rl_train
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.metrics import incorporate_kl_penalty
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition
from tinker_cookbook.supervised.common import compute_mean_nll, datum_from_model_input_weights
from tinker_cookbook.supervised.train import Config as SupervisedConfig
from tinker_cookbook.utils.lr_scheduling import compute_schedule_lr_multiplier

model_input = tinker.ModelInput.from_ints


def values(datum, name):
    return datum.loss_fn_inputs[name].to_torch().tolist()


class Reference:
    """Log-probs that algorithms-main.ts computes alike from the tokens."""

    async def compute_logprobs_async(self, prompt):
        tokens = prompt.to_ints()
        return [0.0 if at == 0 else -(((token * 7 + at * 3) % 11) / 10) - 0.1 for at, token in enumerate(tokens)]

    async def sample_async(self, prompt, topk_prompt_logprobs, **_):
        rows = [
            None if at == 0 else [((token * 5 + j * 3) % 97, -0.2 - 0.7 * j) for j in range(topk_prompt_logprobs)]
            for at, token in enumerate(prompt.to_ints())
        ]
        return SimpleNamespace(topk_prompt_logprobs=rows)


def supervised(one):
    if one["ours"] is None:
        return None
    reduction = {"sum": "none", "mean": "mean"}[one["reduction"]]
    weights = torch.tensor(one["weights"], dtype=torch.float32)
    datum = datum_from_model_input_weights(model_input(one["tokens"]), weights, one["max_length"], reduction)
    return {
        "input": datum.model_input.to_ints(),
        "targets": values(datum, "target_tokens"),
        "weights": values(datum, "weights"),
    }


def group_of(trajectories):
    made = [
        Trajectory(
            transitions=[
                Transition(
                    ob=model_input(turn["observation"]),
                    ac=TokensWithLogprobs(tokens=turn["tokens"], maybe_logprobs=turn["logprobs"]),
                    reward=0.0,
                    episode_done=False,
                )
                for turn in one["turns"]
            ],
            final_ob=model_input([]),
        )
        for one in trajectories
    ]
    return TrajectoryGroup(made, [one["reward"] for one in trajectories], [{} for _ in trajectories])


def policy_data(groups):
    made = [group_of(group) for group in groups]
    return assemble_training_data(made, compute_advantages(made))[0]


def shown(datum):
    targets = values(datum, "target_tokens")
    return {
        "tokens": [*datum.model_input.to_ints(), targets[-1]],
        "logprobs": values(datum, "logprobs"),
        "advantages": values(datum, "advantages"),
        "mask": values(datum, "mask"),
    }


async def kl(one, groups):
    data = policy_data(groups)
    if one["centred"]:
        await incorporate_kl_penalty(data, Reference(), one["coefficient"], one["discount"])
    else:
        teachers = [Reference() for _ in data]
        await train_on_policy.incorporate_kl_penalty(data, teachers, [0] * len(data), one["coefficient"], one["discount"])
    return [shown(datum) for datum in data]


def preference(one):
    sums = [torch.tensor(answer[1:]).sum() for answer in one["answers"]]
    reference = [torch.tensor(value) for value in one["reference"]]
    loss, metrics = train_dpo.compute_dpo_loss(sums[::2], sums[1::2], reference[::2], reference[1::2], one["beta"])
    named = {f"dpo/{name}": metrics[name] for name in ("accuracy", "margin", "chosen_reward", "rejected_reward")}
    return {"loss": loss.item(), **named}


async def taught(one):
    targets = tinker.TensorData.from_torch(torch.tensor(one["tokens"][1:]))
    weights = tinker.TensorData.from_torch(torch.tensor(one["weights"], dtype=torch.float32))
    inputs = {"target_tokens": targets, "weights": weights}
    datum = tinker.Datum(model_input=model_input(one["tokens"][:-1]), loss_fn_inputs=inputs)
    made = await train_off_policy._collect_topk_for_datum(Reference(), datum, 4)
    flat = {name: made.loss_fn_inputs[name].to_torch() for name in ("target_tokens", "weights")}
    return {
        "targets": flat["target_tokens"].flatten().tolist(),
        "weights": flat["weights"].flatten().tolist(),
        "shape": list(flat["target_tokens"].shape),
    }


def nll(one):
    def floats(name):
        return [tinker.TensorData.from_torch(torch.tensor(datum[name], dtype=torch.float32)) for datum in one["batch"]]

    return compute_mean_nll(floats("logprobs"), floats("weights"))


class Trainer:
    """Takes the passes and the optimizer steps of the official train_step."""

    def __init__(self):
        self.sizes, self.adam = [], []

    async def forward_backward_async(self, data, loss_fn, loss_fn_config=None):
        self.sizes.append(len(data))
        outputs = [{"logprobs": datum.loss_fn_inputs["logprobs"]} for datum in data]
        return self.later(SimpleNamespace(loss_fn_outputs=outputs))

    async def optim_step_async(self, adam):
        self.adam.append(adam)
        return self.later(SimpleNamespace(metrics={}))

    @staticmethod
    def later(value):
        async def result_async():
            return value

        return SimpleNamespace(result_async=result_async)


async def substeps(one, groups):
    trainer = Trainer()
    await rl_train.train_step(policy_data(groups), trainer, 1e-3, one["count"], "importance_sampling")
    return trainer.sizes, trainer.adam[0]


def adam_defaults(config):
    fields = {field.logical_name: field for field in config.__chz_fields__.values()}
    return {name: fields[f"adam_{name}"]._default for name in ("beta1", "beta2", "eps")}


async def main(source, target):
    given = json.load(open(source, encoding="utf-8"))
    groups = given["rollouts"]["groups"]
    parts = [await substeps(one, groups) for one in given["substeps"]]
    adam = parts[0][1]
    results = {
        "supervised": [supervised(one) for one in given["supervised"]],
        "rollouts": [shown(datum) for datum in policy_data(groups)],
        "kl": [await kl(one, groups) for one in given["kl"]],
        "preference": [preference(one) for one in given["preference"]],
        "taught": [await taught(one) for one in given["taught"]],
        "nll": [nll(one) for one in given["nll"]],
        "schedules": [
            compute_schedule_lr_multiplier(one["schedule"], one["step"], one["total"]) for one in given["schedules"]
        ],
        "substeps": [sizes for sizes, _ in parts],
        "adam": {
            "rl": {"beta1": adam.beta1, "beta2": adam.beta2, "eps": adam.eps},
            "supervised": adam_defaults(SupervisedConfig),
            "dpo": adam_defaults(train_dpo.Config),
        },
    }
    json.dump(results, open(target, "w", encoding="utf-8"))


asyncio.run(main(*sys.argv[1:]))
