"""What the generators produce and which side of the split it falls on.

An `Exchange` is one question and its answer; its `key` names the instance (the numbers added, the words sorted, the fact
and the phrasing), whatever dress it is rendered in later. Keys are hashed into a training and a held-out side, so a
held-out instance never appears in training in any form, chat or plain."""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "heldout"]
HELDOUT_SHARE = 0.03


@dataclass(frozen=True)
class Exchange:
    key: str
    user: str
    assistant: str


Generator = Callable[[random.Random], Exchange]


def split_of(key: str) -> Split:
    point = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") / 2**32
    return "heldout" if point < HELDOUT_SHARE else "train"


def draw(generator: Generator, rng: random.Random, split: Split) -> Exchange:
    """One exchange of the wanted side, by rejection."""
    while True:
        exchange = generator(rng)
        if split_of(exchange.key) == split:
            return exchange
