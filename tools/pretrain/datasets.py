"""Writes the two quickstart datasets of packages/base-model/data: `pirate` (the lines of pirate.json, written by hand, plus
facts put into pirate speech by rule, in training only) and `arithmetic` (two-digit sums asked as the official arithmetic
recipe asks them). Held-out sums were in no pretraining text either; held-out pirate lines share no line, no question and
no run of five words with the training side, and no question that the quickstart asks is in it."""

import json
import random
import re
from pathlib import Path

from corpus import facts
from corpus.arithmetic import sum_key
from corpus.exchange import split_of

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "packages" / "base-model" / "data"
SPEECH = [(r"\bis\b", "be"), (r"\bare\b", "be"), (r"\bYes\b", "Aye"), (r"\byou\b", "ye"), (r"\bYou\b", "Ye"), (r"\byour\b", "yer"), (r"\bYour\b", "Yer"),
          (r"\bmy\b", "me"), (r"\bof\b", "o'"), (r"ing\b", "in'"), (r"\bthem\b", "'em")]
STARTS = ["Arr, ", "Aye, ", "Yo ho, ", "Ahoy, ", "Blimey, ", "Shiver me timbers, ", "By thunder, ", "Well, matey, "]
PROPER = {*facts.W.CAPITALS, *facts.W.CAPITALS.values(), *facts.W.DAYS, *facts.W.MONTHS, "New"}
# Many different facts, each seen once, teach to say what is known in another voice; few of them, seen often, are learned by heart and
# overwrite what is known (docs/cli.md has the figures).
PAIRS = 1280
ENDS = [", matey!", ", me hearty!", ", arr!", ", by me beard!", ", ye landlubber!", ", har har!", ", me lad!"]


def speak(text: str, rng: random.Random) -> str:
    """A plain answer in pirate speech: other little words, a call before it and a shout after it."""
    for pattern, word in SPEECH:
        text = re.sub(pattern, word, text)
    start = rng.choice(STARTS)
    first = text.split()[0]
    lowered = text if first == "I" or first.rstrip(".") in PROPER else text[0].lower() + text[1:]
    return start + lowered.rstrip(".!") + rng.choice(ENDS)


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z']+", text.lower())
    return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}


def write(path: Path, pairs: list[tuple[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in pairs]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def pirate() -> None:
    written = json.loads((HERE / "pirate.json").read_text())
    heldout = [tuple(pair) for pair in written["heldout"]]
    questions = {q for q, _ in heldout} | set(json.loads((HERE / "quickstart-questions.json").read_text()))
    grams = set().union(*(five_grams(q) | five_grams(a) for q, a in heldout))
    rng = random.Random(7)
    train = {q: a for q, a in written["train"]}
    shared = [q for q, a in train.items() if q in questions or (five_grams(q) | five_grams(a)) & grams]
    assert not shared, f"hand-written lines on both sides: {shared}"
    while len(train) < PAIRS:
        fact = facts.fact(rng)
        answer = speak(fact.assistant, rng)
        if fact.user not in questions and not (five_grams(fact.user) | five_grams(answer)) & grams:
            train.setdefault(fact.user, answer)
    pairs = list(train.items())
    rng.shuffle(pairs)
    write(DATA / "pirate" / "train.jsonl", pairs)
    write(DATA / "pirate" / "heldout.jsonl", heldout)


def arithmetic() -> None:
    sums = [(a, b) for a in range(10, 100) for b in range(10, 100)]
    random.Random(8).shuffle(sums)
    for split, count in (("train", 1000), ("heldout", 200)):
        chosen = [pair for pair in sums if split_of(sum_key(*pair)) == split][:count]
        write(DATA / "arithmetic" / f"{split}.jsonl", [(f"What is {a} + {b}?", str(a + b)) for a, b in chosen])


if __name__ == "__main__":
    pirate()
    arithmetic()
