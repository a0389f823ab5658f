"""Samples the conversation teacher and keeps what passes: rounds of prompts, each asked twice, saved one file per round, so that
a run that was cut short continues with the next one. `python chats.py GGUF FOLDER --rounds 1 --batch 32` measures what the rules
keep, on a CPU too."""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from chat_teacher import ChatTeacher, prompt
from corpus.talk import sampled


def teach(gguf: Path, folder: Path, *, seed: int, rounds: int, batch: int, window: int, temperature: float, min_p: float, seconds: float, device: str, say: Callable = print) -> list[str]:
    """Documents of all rounds. No round starts after `seconds`; the rounds that are missing then are reported."""
    folder.mkdir(parents=True, exist_ok=True)
    began, teacher = time.monotonic(), None
    for number in range(rounds):
        file = folder / f"{number:03d}.json"
        if file.exists():
            continue
        if time.monotonic() - began > seconds:
            say(f"conversation teacher: {seconds} s are over, {rounds - number} of {rounds} rounds are missing")
            break
        if teacher is None:
            teacher = ChatTeacher(gguf, batch, window, device, temperature, min_p)
        rng = random.Random(f"chats:{seed}:{number}")
        torch.manual_seed(1_000_003 * seed + number)
        asks, ids = [], []
        while len(asks) < batch // 2:
            a = sampled.ask(rng)
            encoded = teacher.coder.encode(prompt(list(a.examples), a.question, sampled.SYSTEM)).ids
            if len(encoded) < window - 24:
                asks.append(a)
                ids += [encoded, encoded]
        replies = [teacher.coder.decode(made) for made in teacher.sample(ids)]
        kept, reasons, raw = [], Counter(), []
        for a, one, two in zip(asks, replies[::2], replies[1::2]):
            reply, reason = sampled.chosen(a, one, two)
            reasons[reason] += 1
            raw.append([a.kind, a.question, one, two, reason])
            if reply is not None:
                kept.append([a.kind, sampled.document(a, reply, rng)])
        file.write_text(json.dumps({"kept": kept, "reasons": reasons, "examples": raw[:40]}, indent=1))
        if number in (0, rounds - 1):
            say("conversation teacher, round", number + 1, "of", rounds, f"{time.monotonic() - began:.0f} s", dict(reasons))
    made = [json.loads(file.read_text()) for file in sorted(folder.glob("[0-9]*.json"))]
    total = Counter()
    for each in made:
        total.update(each["reasons"])
    texts = list(dict.fromkeys(text for each in made for _, text in each["kept"]))
    say(f"conversation teacher: {total['kept']} of {total.total()} pairs kept, {len(texts)} distinct;", dict(total))
    return texts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--seed", type=int, default=8)
    options = parser.parse_args()
    teach(options.gguf, options.folder, seed=options.seed, rounds=options.rounds, batch=options.batch, window=options.window, temperature=0.7, min_p=0.1, seconds=10**6,
          device="cuda" if torch.cuda.is_available() else "cpu")
