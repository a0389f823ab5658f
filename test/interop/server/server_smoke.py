"""Trains, samples, saves and loads with the official SDK against a server: server_smoke.py URL BASE_MODEL.

The short form of interop_server.py, for a quick look. Exits with a traceback at the first thing that is wrong.
"""

import sys

import tinker
from tinker import types

url, base_model = sys.argv[1], sys.argv[2]
service = tinker.ServiceClient(base_url=url, api_key="tml-smoke")
models = [m.model_name for m in service.get_server_capabilities().supported_models]
assert base_model in models, models

training = service.create_lora_training_client(base_model=base_model, rank=4, seed=11)
info = training.get_info()
assert info.model_data.model_name == base_model, info

tokens = [3, 4, 5, 6, 7, 8, 9, 10]
datum = types.Datum(
    model_input=types.ModelInput.from_ints(tokens[:-1]),
    loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0] * (len(tokens) - 1)},
)
losses = []
for _ in range(5):
    forward = training.forward_backward([datum] * 3, "cross_entropy")
    step = training.optim_step(types.AdamParams(learning_rate=1e-2))
    losses.append(forward.result().metrics["loss:sum"])
    assert step.result().metrics is not None
print("losses", losses)

saved = training.save_state("after-five").result().path
named = training.save_weights_for_sampler("sampler-five").result().path
sampler = training.save_weights_and_get_sampling_client()
prompt = types.ModelInput.from_ints(tokens[:3])
params = types.SamplingParams(max_tokens=6, temperature=1.0, seed=5)
first = sampler.sample(prompt, num_samples=2, sampling_params=params).result()
again = service.create_sampling_client(model_path=named).sample(prompt, num_samples=2, sampling_params=params).result()
assert [s.tokens for s in first.sequences] == [s.tokens for s in again.sequences]
logprobs = sampler.compute_logprobs(prompt).result()
assert len(logprobs) == 3 and logprobs[0] is None, logprobs

resumed = service.create_training_client_from_state_with_optimizer(saved)
expected = training.forward([datum], "cross_entropy").result().metrics["loss:sum"]
got = resumed.forward([datum], "cross_entropy").result().metrics["loss:sum"]
assert got == expected, (got, expected)

bad = types.Datum(
    model_input=types.ModelInput.from_ints([1, 2]), loss_fn_inputs={"target_tokens": [2, 10_000_000], "weights": [1.0, 1.0]}
)
try:
    training.forward_backward([bad], "cross_entropy").result()
    raise AssertionError("a token that is not in the vocabulary was trained on")
except tinker.RequestFailedError as error:
    assert error.category == tinker.types.RequestErrorCategory.User, error
print("smoke ok", getattr(tinker, "__version__", "?"))
