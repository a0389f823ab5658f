"""From generators to documents: how many turns, which dress, which domain. A shard is a pure function of its arguments,
so the corpus is the same however many processes write it."""

import random

from . import arithmetic, choices, dialogues, facts, lists, prose, records, render, stories, strings
from .exchange import Exchange, Generator, Split, draw, split_of

DOMAINS: dict[str, Generator] = {
    "facts": facts.fact,
    "choices": choices.choice,
    "strings": strings.string_task,
    "lists": lists.list_task,
    "json": records.record_task,
    "numbers": arithmetic.number_sense,
}
TURNS = [1, 1, 1, 2, 2, 3, 4]


def _task(domain: str, rng: random.Random, split: Split) -> str:
    count = rng.choice(TURNS)
    exchanges = [draw(DOMAINS[domain], rng, split) for _ in range(count)]
    return render.dress([(e.user, e.assistant) for e in exchanges], rng)


def _mixed(rng: random.Random, split: Split) -> str:
    """A longer chat that wanders between domains."""
    turns: render.Turns = []
    if rng.random() < 0.4:
        turns.append(rng.choice(dialogues.GREETINGS))
    for _ in range(rng.randint(2, 4)):
        e = draw(DOMAINS[rng.choice(list(DOMAINS))], rng, split)
        turns.append((e.user, e.assistant))
    if rng.random() < 0.4:
        turns.append(rng.choice(dialogues.PARTINGS))
    return render.dress(turns, rng)


def _dialogue(rng: random.Random, split: Split) -> str:
    while True:
        if rng.random() < 0.3:
            text = dialogues.script(rng)
            if split_of("script:" + text) == split:
                return text
        else:
            turns = dialogues.chat_turns(rng)
            if split_of(f"dialogue:{turns}") == split:
                return render.dress(turns, rng)


def _prose(rng: random.Random, split: Split) -> str:
    e = draw(stories.piece_exchange, rng, split)
    return e.assistant if rng.random() < 0.4 and not e.user.endswith("am I?") else render.dress([(e.user, e.assistant)], rng)


def shard(domain: str, seed: int, count: int, split: Split) -> list[str]:
    rng = random.Random(f"{domain}:{seed}:{split}")
    if domain in DOMAINS:
        return [_task(domain, rng, split) for _ in range(count)]
    write = {"mixed": _mixed, "dialogues": _dialogue, "prose": _prose}[domain]
    return [write(rng, split) for _ in range(count)]


def _addition(rng: random.Random, digits: int, split: Split) -> Exchange:
    def generate(r: random.Random) -> Exchange:
        if digits == 1:
            return arithmetic.told_addition(r) if r.random() < 0.25 else arithmetic.addition(r, 1)
        return arithmetic.worked_addition(r, digits) if r.random() < 0.1 else arithmetic.addition(r, digits)

    return draw(generate, rng, split)


def additions(seed: int, one_digit: int, two_digit: int, three_digit: int, split: Split = "train") -> list[str]:
    """Documents that hold exactly so many additions of each size, one to four to a document."""
    rng = random.Random(f"additions:{seed}:{split}")
    sizes = [1] * one_digit + [2] * two_digit + [3] * three_digit
    rng.shuffle(sizes)
    documents, at = [], 0
    while at < len(sizes):
        count = rng.choice(TURNS)
        exchanges = [_addition(rng, digits, split) for digits in sizes[at : at + count]]
        at += count
        turns = [(e.user, e.assistant) for e in exchanges]
        # A sixth as the bare question with its answer on the same line, beside what `dress` gives.
        documents.append("\n".join(f"{user} {reply}" for user, reply in turns) if rng.random() < 0.17 else render.dress(turns, rng))
    return documents


def opening(seed: int, index: int) -> str:
    return prose.opening(random.Random(f"opening:{seed}:{index}"))
