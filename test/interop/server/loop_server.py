"""A training loop in Python, of which test/interop/server/loop-main.ts is the same in TypeScript: loop_server.py URL BASE_MODEL.

Prints one line of JSON: the losses, what was sampled, and a digest of the adapter.
"""

import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request

import tinker
from tinker import types

url, base_model = sys.argv[1:3]
service = tinker.ServiceClient(base_url=url, api_key="tml-loop")
training = service.create_lora_training_client(base_model=base_model, rank=8, seed=42)
losses = []
for step in range(10):
    batch = []
    for i in range(4):
        tokens = [(7 * step + 3 * i + k * k) % 200 + 1 for k in range(24)]
        batch.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(tokens[:-1]),
                loss_fn_inputs={"target_tokens": tokens[1:], "weights": [1.0 if k % 3 else 0.5 for k in range(23)]},
            )
        )
    forward = training.forward_backward(batch, "cross_entropy")
    training.optim_step(types.AdamParams(learning_rate=3e-3, weight_decay=0.01, grad_clip_norm=1.0)).result()
    losses.append(forward.result().metrics["loss:sum"])
sampler = training.save_weights_and_get_sampling_client()
params = types.SamplingParams(max_tokens=12, temperature=0.8, seed=7)
sampled = [s.tokens for s in sampler.sample(types.ModelInput.from_ints([5, 6, 7]), num_samples=3, sampling_params=params).result().sequences]
training.save_state("end").result()
link = f"{url}/api/v1/training_runs/{training.model_id}/checkpoints/weights/end/archive"
answer = json.load(urllib.request.urlopen(urllib.request.Request(link, headers={"X-API-Key": "tml-loop"})))
archive = tarfile.open(fileobj=io.BytesIO(urllib.request.urlopen(answer["url"]).read()), mode="r:gz")
adapter = archive.extractfile("adapter_model.safetensors").read()
print(json.dumps({"losses": losses, "sampled": sampled, "adapter": hashlib.sha256(adapter).hexdigest()}))
sys.stdout.flush()
os._exit(0)
