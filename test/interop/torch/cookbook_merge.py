"""Merges an adapter with the official cookbook: PEFT's names (`adapter`) and the Tinker service's (`tinker-names`). Prints whether the first
are rejected, whether the base model's embeddings are tied, and the largest differences of log-probs, relative to the largest of them: to the
merge's definition, computed here, and to the server's."""

import json
import pathlib
import sys

import torch
from logprobs import difference, logprobs
from safetensors.torch import load_file
from tinker_cookbook import weights
from tinker_cookbook.exceptions import WeightsMergeError
from transformers import AutoModelForCausalLM

model_folder, work = sys.argv[1], pathlib.Path(sys.argv[2])
expected = json.loads((work / "expected.json").read_text())
tokens = torch.tensor(expected["tokens"])


def build(names, out):
    weights.build_hf_model(base_model=model_folder, adapter_path=str(work / names), output_path=str(work / out), dtype="float32")
    return AutoModelForCausalLM.from_pretrained(work / out, dtype=torch.float32).eval()


result = {"refused": False}
try:
    build("adapter", "merged-peft")
except WeightsMergeError:
    result["refused"] = True
merged = logprobs(build("tinker-names", "merged-tinker"), tokens)

defined = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
result["tied"] = defined.config.tie_word_embeddings
config = json.loads((work / "adapter" / "adapter_config.json").read_text())
adapter = load_file(work / "adapter" / "adapter_model.safetensors")
parameters = dict(defined.named_parameters())
for name, a in adapter.items():
    if not name.endswith(".lora_A.weight"):
        continue
    target = name.removeprefix("base_model.model.").replace(".lora_A", "")
    target = "model.embed_tokens.weight" if result["tied"] and target == "lm_head.weight" else target
    product = adapter[name.replace(".lora_A.", ".lora_B.")] @ a
    parameters[target].data += config["lora_alpha"] / config["r"] * product

result["definition"] = difference(merged, logprobs(defined, tokens))
result["trained"] = difference(merged, expected["adapted"])
for out in ["merged-peft", "merged-tinker"]:
    for file in (work / out).glob("*"):
        file.unlink()
    if (work / out).exists():
        (work / out).rmdir()
print(json.dumps(result))
