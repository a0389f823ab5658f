"""How much of a text is in the training text word for word: hashes of word 8-grams, and the shares of other texts' 8-grams
that are among them. `python overlap.py WORK FILE…` asks it of lists of texts (JSON files; `FILE#name` takes one list of an
object), against the 8-grams that `pretrain.py` left in its work folder."""

import argparse
import json
import zlib
from pathlib import Path
from statistics import median

import numpy as np

WORDS = 8
_POWERS = np.array([pow(1_000_003, k, 2**64) for k in range(WORDS)], dtype=np.uint64)


def grams(texts: list[str]) -> np.ndarray:
    """Hashes of the word 8-grams of some texts, in order, as int64."""
    out = []
    for text in texts:
        codes = np.array([zlib.crc32(word.encode()) for word in text.lower().split()], dtype=np.uint64)
        if len(codes) >= WORDS:
            out.append((np.lib.stride_tricks.sliding_window_view(codes, WORDS) * _POWERS).sum(1))
    return np.concatenate(out).view(np.int64) if out else np.array([], dtype=np.int64)


def _longest(found: np.ndarray) -> int:
    """Words in the longest stretch whose every 8-gram was found: no passage copied from one place is longer."""
    best = run = 0
    for hit in found:
        run = run + 1 if hit else 0
        best = max(best, run)
    return best + WORDS - 1 if best else 0


def overlap(texts: list[str], seen: np.ndarray) -> dict[str, float]:
    """seen: the training text's hashes, ascending. The share is of all 8-grams of the texts together."""
    if not texts:
        return {"texts": 0}
    founds = []
    for text in texts:
        asked = grams([text])
        founds.append(seen[np.searchsorted(seen, asked).clip(max=len(seen) - 1)] == asked)
    longest = [_longest(found) for found in founds]
    return {
        "texts": len(texts),
        "share": round(float(np.concatenate(founds).mean()), 4),
        "whole": sum(bool(found.all()) for found in founds),
        "longest_words_median": median(longest),
        "longest_words_max": max(longest),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    hashes = np.load(options.work / "grams.npy")
    report = {}
    for file in options.files:
        path, _, name = file.partition("#")
        texts = json.loads(Path(path).read_text())
        report[file] = overlap(texts[name] if name else texts, hashes)
    print(json.dumps(report, indent=1))
