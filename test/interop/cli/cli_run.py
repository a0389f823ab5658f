"""A short training run with one checkpoint of each kind, for the command lines to look at."""

import tinker
from tinker import types


def make_run(url, base_model, suffix=""):
    """(training client, path of its state, path of its sampler weights)"""
    service = tinker.ServiceClient(base_url=url, api_key="tml-cli", user_metadata={"who": "cli"})
    training = service.create_lora_training_client(base_model=base_model, rank=4, seed=1, user_metadata={"note": "cli"})
    datum = types.Datum(
        model_input=types.ModelInput.from_ints([1, 2, 3]), loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]}
    )
    training.forward_backward([datum], "cross_entropy").result()
    training.optim_step(types.AdamParams()).result()
    state = training.save_state(f"state{suffix}").result().path
    sampler = training.save_weights_for_sampler(f"sampler{suffix}").result().path
    return training, state, sampler
