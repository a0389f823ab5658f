"""Keeps the evaluation's prompts out of the training text. `reserved()` reads them from eval/*.json; `found_in` names those that a
text contains; `without` drops such texts while the corpus is made. `python contamination.py WORK` decodes the finished token stream
of a work folder and exits with 1 if a prompt is in it.

Case, punctuation and markup do not count. A prompt of five words or more counts anywhere in a text; a shorter one at the start of a
line, because "Call Peter" inside a longer sentence is ordinary text."""

import argparse
import json
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

EVAL = Path(__file__).parent / "eval"
ANYWHERE = 5  # words
_WORDS = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_MARKUP = re.compile(r"<\|[a-z_]+\|>(?:user|assistant|system)?|^(?:user|assistant|question|answer|q|a):", re.MULTILINE)


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(text.lower()))


def prompts() -> list[str]:
    """Every text that the evaluation asks, and the turns that its fine-tune trains on."""
    read = lambda name: json.loads((EVAL / f"{name}.json").read_text())
    asked = [each["ask"] for name in ("everyday", "instructions") for each in read(name)]
    asked += [task["ask"] for task in read("tool-calls")["tasks"]] + [task["text"] for task in read("json-schemas")]
    support = read("support")
    return asked + [each["ask"] for each in support["questions"]] + [turn for turns in support["conversations"] for turn in turns]


@cache
def reserved() -> tuple[dict, dict]:
    """Prompts as words: long ones by their first three words, short ones by their first."""
    long, short = defaultdict(set), defaultdict(set)
    for prompt in prompts():
        words = _words(prompt)
        (long[words[:3]] if len(words) >= ANYWHERE else short[words[0]]).add(words)
    return dict(long), dict(short)


def found_in(text: str) -> set[str]:
    long, short = reserved()
    text = _MARKUP.sub("\n", text.lower())
    found = set()
    words = _words(text)
    for i in range(len(words) - 2):
        for prompt in long.get(words[i : i + 3], ()):
            if words[i : i + len(prompt)] == prompt:
                found.add(" ".join(prompt))
    for line in text.split("\n"):
        start = _words(line[:80])
        for prompt in short.get(start[0], ()) if start else ():
            if start[: len(prompt)] == prompt:
                found.add(" ".join(prompt))
    return found


def without(texts: list[str]) -> list[str]:
    """The texts that contain no prompt of the evaluation."""
    return [text for text in texts if not found_in(text)]


def check(work: Path) -> int:
    """How many documents of a work folder's stream contain a prompt; prints the first ones."""
    import numpy as np
    from tokenizers import Tokenizer

    coder = Tokenizer.from_file(str(work / "tokenizer.json"))
    tokens, lengths = np.load(work / "tokens.npy"), np.load(work / "lengths.npy")
    ends = np.cumsum(lengths)
    bad = 0
    for at in range(0, len(lengths), 4000):
        part = [tokens[end - length : end].tolist() for end, length in zip(ends[at : at + 4000], lengths[at : at + 4000])]
        for text in coder.decode_batch(part, skip_special_tokens=False):
            hits = found_in(text)
            bad += bool(hits)
            if hits and bad <= 5:
                print("CONTAINS", sorted(hits), "in", text[:200].replace("\n", " "))
    print(f"{bad} of {len(lengths)} documents contain a prompt of the evaluation")
    return bad


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    sys.exit(1 if check(parser.parse_args().work) else 0)
