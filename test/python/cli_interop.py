"""Makes a run with checkpoints for the command lines to look at: cli_interop.py URL BASE_MODEL. Prints their names as JSON."""

import json
import sys

import tinker
from tinker import types

url, base_model = sys.argv[1:3]
service = tinker.ServiceClient(base_url=url, api_key="tml-cli", user_metadata={"who": "cli"})
training = service.create_lora_training_client(base_model=base_model, rank=4, seed=1, user_metadata={"note": "cli"})
datum = types.Datum(
    model_input=types.ModelInput.from_ints([1, 2, 3]), loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0, 1.0, 1.0]}
)
training.forward_backward([datum], "cross_entropy").result()
training.optim_step(types.AdamParams()).result()
weights = training.save_state("state").result().path
sampler = training.save_weights_for_sampler("sampler").result().path
print(json.dumps({"run": training.model_id, "weights": weights, "sampler": sampler}))
