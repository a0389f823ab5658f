"""Conversations for the second edition of the model: everyday knowledge and advice, instructions and rewriting, JSON by
schema, tool calls, customer support. Each module owns one domain; `DOCUMENTS` writes one document of each."""

import random
from collections.abc import Callable

from .. import render
from ..exchange import Split, draw, split_of
from . import calls, everyday, schemas, support, writing


def _dressed(generator) -> Callable[[random.Random], str]:
    def write(rng: random.Random) -> str:
        exchanges = [generator(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4]))]
        return render.dress([(e.user, e.assistant) for e in exchanges], rng)

    return write


DOCUMENTS: dict[str, Callable[[random.Random], str]] = {
    "everyday": _dressed(everyday.everyday),
    "writing": writing.writing_document,
    "schemas": schemas.schema_document,
    "calls": calls.call_document,
    "support": support.support_document,
}


def shard(domain: str, seed: int, count: int, split: Split) -> list[str]:
    """Documents of one side of the held-out split. Everyday documents are split by question and answer, others as a whole."""
    rng = random.Random(f"{domain}:{seed}:{split}")
    if domain == "everyday":
        write = _dressed(lambda r: draw(everyday.everyday, r, split))
        return [write(rng) for _ in range(count)]
    made: list[str] = []
    while len(made) < count:
        text = DOCUMENTS[domain](rng)
        if split_of(text) == split:
            made.append(text)
    return made
