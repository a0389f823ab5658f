"""The bundled model by its name, without a network: `bundled_server.py URL BASE_MODEL FOLDER`. Both clients' tokenizers must load. The
sampling client looks its tokenizer up by the base model's name alone, which for a name that no hub knows works in a folder that has the
model under that name: FOLDER."""

import os
import sys

import tinker
from tinker import types

url, base_model, folder = sys.argv[1:]
os.chdir(folder)
service = tinker.ServiceClient(base_url=url, api_key="tml-bundled")
text = "Once upon a time"
training = service.create_lora_training_client(base_model=base_model, rank=4)
assert training.get_info().model_data.model_name == base_model
tokenizer = training.get_tokenizer()
assert tokenizer.decode(tokenizer.encode(text)) == text

sampler = service.create_sampling_client(base_model=base_model)
assert sampler.get_base_model() == base_model
other = sampler.get_tokenizer()
assert other.encode(text) == tokenizer.encode(text)
prompt = types.ModelInput.from_ints(other.encode(text))
answer = sampler.sample(prompt, num_samples=1, sampling_params=types.SamplingParams(max_tokens=8, seed=1)).result()
written = other.decode(answer.sequences[0].tokens)
assert written.strip(), "nothing was sampled"
print(f"tokenizers of {base_model} load without a network")
