"""Every loss of custom_losses.py, traced by the official SDK and run by our server, against the same loss run by the SDK's own
PyTorch path on a model of the same seed: `custom_losses_served.py URL BASE_MODEL`. Loss and norm of the gradient must agree."""

import dataclasses
import math
import sys

import tinker
import torch
from custom_losses import CASES, value
from tinker import types

URL, BASE_MODEL = sys.argv[1:3]
WIDTH = 3


def datum(ranks, length):
    """Inputs as the recorded ones; the log-probs are the model's."""
    rank = ranks["logprobs"]
    shape = [length] if rank == 1 else [length, WIDTH]
    targets = [(i * 7 + 5) % 90 + 1 for i in range(math.prod(shape))]
    inputs = {"target_tokens": types.TensorData.from_torch(torch.tensor(targets).reshape(shape))}
    for name, own in ranks.items():
        if name != "logprobs":
            size, dtype, flat = value(name, own, length, WIDTH)
            inputs[name] = types.TensorData.from_torch(torch.tensor(flat, dtype=getattr(torch, dtype)).reshape(size))
    tokens = [(i * 11 + 3) % 90 + 1 for i in range(length)]
    return types.Datum(model_input=types.ModelInput.from_ints(tokens), loss_fn_inputs=inputs)


def main():
    service = tinker.ServiceClient(base_url=URL, api_key="tml-interop")
    models = [service.create_lora_training_client(base_model=BASE_MODEL, rank=4, seed=9) for _ in range(2)]
    still = types.AdamParams(learning_rate=0.0)
    failed = []
    # the SDK's own path sends `weights` to the server's cross entropy, where they have the shape of the targets
    cases = [(fn, ranks) for fn, ranks in CASES if ranks.get("weights", ranks["logprobs"]) == ranks["logprobs"]]
    for fn, ranks in cases:
        handle = service.create_custom_loss(fn, ranks).result()
        assert handle.loss_id is not None, "the server says that it runs losses"
        data = [datum(ranks, 4), datum(ranks, 7)]
        seen = []
        for model, loss in zip(models, (handle, dataclasses.replace(handle, loss_id=None)), strict=True):
            metrics = model.forward_backward_custom(data, loss).result().metrics
            norm = model.optim_step(still).result().metrics["unclipped_grad_l2:mean"]
            own = {key: number for key, number in metrics.items() if key.startswith("custom/")}
            seen.append({"loss": metrics["loss:sum"], "norm": norm, **own})
        served, local = seen
        far = [k for k in local if not math.isclose(served[k], local[k], rel_tol=1e-5, abs_tol=1e-5)]
        if far or served.keys() != local.keys():
            failed.append(fn.__name__)
            print(f"{fn.__name__}: served {served}, by PyTorch {local}")
    print(f"{len(cases) - len(failed)} of {len(cases)} custom losses run by the server agree with PyTorch to 1e-5")
    sys.exit(1 if failed else 0)


main()
