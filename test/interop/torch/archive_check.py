"""Loads a base model and the adapter of a checkpoint's archive with PEFT, prints the largest difference of log-probs to the server's,
relative to the largest of them, and writes the adapter anew as PEFT does it, in half precision and with another alpha."""

import json
import pathlib
import sys

import torch
from logprobs import difference, logprobs
from peft import PeftModel
from transformers import AutoModelForCausalLM

model_folder, work = sys.argv[1], pathlib.Path(sys.argv[2])
expected = json.loads((work / "expected.json").read_text())
tokens = torch.tensor(expected["tokens"])

base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
result = {"base": difference(logprobs(base, tokens), expected["base"])}
adapted = PeftModel.from_pretrained(base, work / "adapter").eval()
result["peft"] = difference(logprobs(adapted, tokens), expected["adapted"])
assert difference(logprobs(adapted, tokens), expected["base"]) > 1e-3, "the adapter changes nothing"

config = adapted.peft_config["default"]
config.lora_alpha *= 2
for name, value in adapted.named_parameters():
    if ".lora_" in name:
        value.data = (value.data / 2 if ".lora_B." in name else value.data).to(torch.bfloat16)
adapted.save_pretrained(work / "rewritten")
again = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
result["rewritten"] = logprobs(PeftModel.from_pretrained(again, work / "rewritten").float().eval(), tokens).tolist()
print(json.dumps(result))
