"""What the model can do, in numbers and in text: held-out loss per domain, additions by size, chat form, repetition, and
outputs to read. Runs on a folder in Hugging Face layout (`python evaluate.py FOLDER`) or on a model in memory, in
float32 over bf16-rounded weights either way."""

import argparse
import json
import math
import random
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from corpus.arithmetic import sum_key
from corpus.documents import opening
from corpus.exchange import split_of
from corpus.render import IM_END, IM_START, chat

HERE = Path(__file__).parent
END_OF_TEXT_ID, IM_START_ID, IM_END_ID = 0, 1, 2
STORY_TEMPERATURE = 0.8


def ask(question: str, before: list[tuple[str, str]] = ()) -> str:
    """A chat prompt that waits for the assistant."""
    return chat(list(before)) + f"{IM_START}user\n{question}{IM_END}\n{IM_START}assistant\n"


@torch.inference_mode()
def generate(model, tokenizer: Tokenizer, prompts: list[str], tokens: int, temperature: float, seed: int = 0, batch: int = 512) -> list[list[int]]:
    """Completions as ids, cut after the first end marker (kept) if there is one."""
    device = model.device
    torch.manual_seed(seed)
    outputs: list[list[int]] = []
    for at in range(0, len(prompts), batch):
        encoded = [tokenizer.encode(prompt).ids for prompt in prompts[at : at + batch]]
        width = max(map(len, encoded))
        ids = torch.tensor([[END_OF_TEXT_ID] * (width - len(e)) + e for e in encoded], device=device)
        mask = torch.tensor([[0] * (width - len(e)) + [1] * len(e) for e in encoded], device=device)
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature > 0 else {"do_sample": False}
        made = model.generate(ids, attention_mask=mask, max_new_tokens=tokens, eos_token_id=[END_OF_TEXT_ID, IM_END_ID], pad_token_id=END_OF_TEXT_ID, **sampling)
        for row in made[:, width:].tolist():
            end = next((i for i, token in enumerate(row) if token in (END_OF_TEXT_ID, IM_END_ID)), len(row) - 1)
            outputs.append(row[: end + 1])
    return outputs


def _answer(tokenizer: Tokenizer, ids: list[int]) -> str:
    return tokenizer.decode(ids).split("\n")[0].strip()


def pairs(digits: int, count: int, seed: int, split: str | None = None) -> list[tuple[int, int]]:
    if digits == 1:
        return [(a, b) for a in range(10) for b in range(10)]
    rng, low, high, out = random.Random(seed), 10 ** (digits - 1), 10**digits - 1, []
    while len(out) < count:
        a, b = rng.randint(low, high), rng.randint(low, high)
        if split is None or split_of(sum_key(a, b)) == split:
            out.append((a, b))
    return out


@torch.inference_mode()
def chance(model, tokenizer: Tokenizer, operands: list[tuple[int, int]]) -> float:
    """Mean probability of the exact answer and its end marker: the share right at temperature 1, without sampling noise."""
    total = 0.0
    for at in range(0, len(operands), 250):
        rows = [(tokenizer.encode(ask(f"What is {a} + {b}?")).ids, tokenizer.encode(str(a + b)).ids + [IM_END_ID]) for a, b in operands[at : at + 250]]
        width = max(len(prompt) + len(answer) for prompt, answer in rows)
        ids = torch.tensor([p + a + [END_OF_TEXT_ID] * (width - len(p) - len(a)) for p, a in rows], device=model.device)
        counted = torch.tensor([[len(p) - 1 <= t < len(p) + len(a) - 1 for t in range(width - 1)] for p, a in rows], device=model.device)
        chosen = F.log_softmax(model(input_ids=ids[:, :-1], use_cache=False).logits.float(), -1).gather(2, ids[:, 1:, None])[..., 0]
        total += (chosen * counted).sum(1).exp().sum().item()
    return total / len(operands)


def additions(model, tokenizer: Tokenizer, count: int = 1000) -> dict[str, float]:
    """Share of sums answered exactly. `chat` is one user turn; `recipe` the official arithmetic recipe with its example
    turn and operands 0..100; `plain` the bare question."""

    def score(prompts: list[str], answers: list[int], temperature: float, ended: bool) -> float:
        made = generate(model, tokenizer, prompts, 12, temperature, batch=2048)
        right = sum(_answer(tokenizer, ids) == str(a) and (not ended or ids[-1] == IM_END_ID) for ids, a in zip(made, answers))
        return round(right / len(prompts), 4)

    out = {}
    for digits in (1, 2, 3):
        operands = pairs(digits, count, 1)
        operands = operands * max(1, count // len(operands))
        questions, answers = [f"What is {a} + {b}?" for a, b in operands], [a + b for a, b in operands]
        prompts = [ask(q) for q in questions]
        out[f"chat_{digits}_t1"] = score(prompts, answers, 1.0, True)
        unique = len(set(operands))
        out[f"chat_{digits}_greedy"] = score(prompts[:unique], answers[:unique], 0.0, True)
        out[f"plain_{digits}_t1"] = score(questions, answers, 1.0, False)
    held = pairs(2, 200, 2, "heldout")
    out["chat_2_heldout_t1"] = score([ask(f"What is {a} + {b}?") for a, b in held * 3], [a + b for a, b in held * 3], 1.0, True)
    rng = random.Random(3)
    operands = [(rng.randint(0, 100), rng.randint(0, 100)) for _ in range(count)]
    out["recipe_t1"] = score([ask(f"What is {a} + {b}?", [("What is 4 + 5?", "9")]) for a, b in operands], [a + b for a, b in operands], 1.0, True)
    return out


@torch.inference_mode()
def losses(model, tokenizer: Tokenizer, heldout: dict[str, list[str]], batch: int = 32) -> dict[str, dict[str, float]]:
    """Per domain: mean negative log-likelihood per token (the end of the text included), perplexity, bits per byte."""
    out = {}
    for domain, texts in heldout.items():
        if not texts:  # a tiny run may hold out no story
            continue
        total = tokens = size = 0.0
        for at in range(0, len(texts), batch):
            encoded = [tokenizer.encode(text).ids + [END_OF_TEXT_ID] for text in texts[at : at + batch]]
            width = max(map(len, encoded))
            ids = torch.tensor([e + [END_OF_TEXT_ID] * (width - len(e)) for e in encoded], device=model.device)
            keep = torch.tensor([[1.0] * (len(e) - 1) + [0.0] * (width - len(e)) for e in encoded], device=model.device)
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits.float()
            nll = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
            total += (nll * keep).sum().item()
            tokens += keep.sum().item()
            size += sum(len(text.encode()) for text in texts[at : at + batch])
        out[domain] = {"loss": round(total / tokens, 4), "perplexity": round(math.exp(total / tokens), 3), "bits_per_byte": round(total / math.log(2) / size, 4), "tokens": int(tokens)}
    return out


def chat_form(model, tokenizer: Tokenizer, requests: list[str]) -> float:
    """Share of replies that are non-empty, hold no marker inside, and end with the end-of-turn marker."""
    made = generate(model, tokenizer, [ask(request) for request in requests], 400, 1.0)
    good = [ids[-1] == IM_END_ID and not {END_OF_TEXT_ID, IM_START_ID} & set(ids) and tokenizer.decode(ids[:-1]).strip() for ids in made]
    return sum(map(bool, good)) / len(good)


def repetition(texts: list[str]) -> float:
    """Share of word 4-grams that occurred before in the same text."""
    seen = total = 0
    for text in texts:
        words = re.findall(r"[a-z']+", text.lower())
        grams = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
        seen += len(grams) - len(set(grams))
        total += len(grams)
    return round(seen / max(total, 1), 4)


def stories(model, tokenizer: Tokenizer, count: int = 50) -> list[str]:
    """Stories from openings that no training story was started with, two thirds as plain text, the rest in chat."""
    prompts, heads = [], []
    for i in range(count):
        start = opening(20_26, i)
        plain = i % 3 != 2
        prompts.append(start if plain else ask(f"Continue this story: {start}"))
        heads.append(start)
    made = generate(model, tokenizer, prompts, 320, STORY_TEMPERATURE, seed=50)
    return [head + (" " if i % 3 == 2 else "") + tokenizer.decode(ids) for i, (head, ids) in enumerate(zip(heads, made))]


def evaluate(model, tokenizer: Tokenizer, heldout: dict[str, list[str]]) -> dict:
    prompts = json.loads((HERE / "prompts.json").read_text())
    told = stories(model, tokenizer)
    texts = generate(model, tokenizer, [p["text"] if p["form"] == "text" else ask(p["text"]) for p in prompts], 200, STORY_TEMPERATURE, seed=5)
    return {
        "heldout": losses(model, tokenizer, heldout),
        "additions": additions(model, tokenizer),
        "chat_form": chat_form(model, tokenizer, [p["text"] for p in prompts if p["form"] == "chat"] * 12),
        "repetition": repetition(told),
        "stories": told,
        "outputs": [{**p, "output": tokenizer.decode(ids)} for p, ids in zip(prompts, texts)],
    }


if __name__ == "__main__":
    from transformers import Qwen3ForCausalLM

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heldout", type=Path, default=HERE / "heldout.json")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded = Qwen3ForCausalLM.from_pretrained(options.folder, dtype=torch.float32).to(device).eval()
    results = evaluate(loaded, Tokenizer.from_file(str(options.folder / "tokenizer.json")), json.loads(options.heldout.read_text()))
    text = json.dumps(results, indent=1)
    options.out.write_text(text) if options.out else print(text)
