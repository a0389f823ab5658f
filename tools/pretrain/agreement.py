"""Writes the numbers that our engine must reproduce: transformers' log-probs (float32 over the shipped bf16 weights) and
greedy continuations of a few texts. `python agreement.py`, whenever the weights change."""

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "packages" / "base-model"
FIXTURE = ROOT / "test" / "fixtures" / "base-model" / "transformers.json"
TEXTS = [
    "Once upon a time, there was a little fox who wanted to find a friend. One day",
    "<|im_start|>user\nWhat is 27 + 45?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>system\nYou are a storyteller.<|im_end|>\n<|im_start|>user\nTell me a story about Max.<|im_end|>\n<|im_start|>assistant\n",
    '{"name": "Ruby", "age": 7}\nGive me the value of age.',
    "Zürich, 日本 and 🙂: bytes it has hardly seen.",
]

if __name__ == "__main__":
    tokenizer = AutoTokenizer.from_pretrained(PACKAGE)
    model = AutoModelForCausalLM.from_pretrained(PACKAGE, dtype=torch.float32, attn_implementation="eager").eval()
    cases = []
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=ids).logits[0], -1)
            greedy = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, temperature=None, max_new_tokens=40)
        top = logprobs.topk(5)
        cases.append({
            "text": text,
            "tokens": ids[0].tolist(),
            "promptLogprobs": [round(logprobs[i, token].item(), 6) for i, token in enumerate(ids[0, 1:].tolist())],
            "topTokens": top.indices.tolist(),
            "topLogprobs": [[round(value, 6) for value in row] for row in top.values.tolist()],
            "greedy": greedy[0, ids.shape[1] :].tolist(),
        })
    FIXTURE.write_text(json.dumps(cases) + "\n")
