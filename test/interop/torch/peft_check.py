"""Loads a base model, a PEFT adapter over it and a merged model, and prints the largest difference of log-probs to ours, relative to
the largest of them."""

import json
import pathlib
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

model_folder, work = sys.argv[1], pathlib.Path(sys.argv[2])
expected = json.loads((work / "expected.json").read_text())
tokens = torch.tensor(expected["tokens"])


def difference(model, wanted):
    with torch.inference_mode():
        logits = model(input_ids=tokens[None, :-1]).logits[0].float()
    got = torch.log_softmax(logits, -1).gather(1, tokens[1:, None])[:, 0]
    wanted = torch.tensor(wanted)
    return float((got - wanted).abs().max() / wanted.abs().max())


load = lambda folder: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
result = {"base": difference(load(model_folder), expected["base"])}
result["peft"] = difference(PeftModel.from_pretrained(load(model_folder), work / "adapter").eval(), expected["adapted"])
result["merged"] = difference(load(work / "merged"), expected["adapted"])
print(json.dumps(result))
