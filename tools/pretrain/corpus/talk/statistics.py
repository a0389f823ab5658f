"""`python -m corpus.talk.statistics [COUNT]` (in tools/pretrain): how varied the domains of this folder are, over COUNT documents each."""

import random
import re
import sys

from contamination import without
from corpus.talk import DOCUMENTS

_ASKED = re.compile(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", re.DOTALL)


def describe(domain: str, count: int) -> dict[str, float]:
    rng = random.Random(f"statistics:{domain}")
    made = [DOCUMENTS[domain](rng) for _ in range(count)]
    distinct = list(dict.fromkeys(made))
    words = [text.split() for text in distinct]
    grams = [" ".join(each[i : i + 8]) for each in words for i in range(len(each) - 7)]
    asked = {question for text in distinct for question in _ASKED.findall(text)}
    return {"documents": count, "distinct": len(distinct), "distinct questions in chat": len(asked), "words": sum(map(len, words)), "mean words": round(sum(map(len, words)) / len(words), 1),
            "distinct 8-grams": len(set(grams)), "share of 8-grams distinct": round(len(set(grams)) / max(1, len(grams)), 3), "contain an evaluation prompt": len(distinct) - len(without(distinct))}


if __name__ == "__main__":
    for name in DOCUMENTS:
        print(name, describe(name, int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
