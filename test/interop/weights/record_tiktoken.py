"""Records what the `tiktoken` package makes of awkward texts with Kimi's pattern, for a small vocabulary trained here.

Run by record.mjs. Writes tiktoken.json into the folder: the contents of a
tiktoken.model, settings with special tokens, and the ids of each text, split into parts as Kimi's own tokenizer does.
"""

import base64
import json
import sys
from pathlib import Path

import tiktoken
from tiktoken._educational import bpe_train

pattern = "|".join([
    r"""[\p{Han}]+""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""\p{N}{1,3}""",
    r""" ?[^\s\p{L}\p{N}]+[\r\n]*""",
    r"""\s*[\r\n]+""",
    r"""\s+(?!\S)""",
    r"""\s+""",
])  # fmt: skip
corpus = """The quick brown fox jumps over the lazy dog. I'll say it's what we'd do, they've said; don't. HTTPServer handles 1234567
requests, and the other fox jumps over another lazy dog: aaaaaaaa bbbb    spaces    日本語の日本語中文中文 ééé naïve café don't it's we'll
the theme of the thesis is that the then other others bother brothers. print(x)\n\n\nprint(y)\n""" * 4
texts = [
    "", " ", "\n", "a", "Hello world! 123", "don't I'm we've they'll he'd it's DON'T I'M WE'RE it'\u017f", "1234567890", "٣٤٥ ² ½ Ⅷ",
    "日本語のテキストと中文文本 한국어", "中文ABC中文abc", "é e\u0301 ñ", "👨‍👩‍👧‍👦 🇩🇪", "a\u00a0b\u3000c\ufeffd\u0085e\u2028f", "  leading and trailing  ",
    "\n\n\nx\n \n", "\t\ttabs\tand  \r\n crlf\r", "HTTPServer camelCase", "the others bother brothers", "aaaaaaaaaaaaaaaaaaaaaa", "'''' 's 't",
    "[BOS]hi<|im_end|>x<|reserved_token_{r}|>y[EOS]", "[BO", "price: $3.50 (50%)\n", "\x00\x01\x1c\x7f", "ÀÉ Ünïcödé ẞß İı Ǆ ǅ ʰ", "العربية हिन्दी ไทย",
]  # fmt: skip
repeated = [("a", 60000), (" ", 60000), ("ab ", 20000), ("\x1c", 25001), ("x y", 140000)]

ranks = bpe_train(corpus, 400, "(?V1)" + pattern, visualise=None)  # V1: "&&" is an intersection in the package regex, too
base = len(ranks)
named = {base: "[BOS]", base + 1: "[EOS]", base + 2: "<|im_end|>", base + 5: "<think>"}
special = {named.get(i, f"<|reserved_token_{i}|>"): i for i in range(base, base + 256)}
encoding = tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def parts(text: str):
    """`_split_whitespaces_or_nonwhitespaces` of Kimi's tokenizer, on slices of 400,000."""
    for first in range(0, len(text), 400_000):
        s = text[first : first + 400_000]
        length, is_space, start = 0, s[0].isspace(), 0
        for i, character in enumerate(s):
            now = character.isspace()
            if is_space ^ now:
                length, is_space = 1, now
            else:
                length += 1
                if length > 25_000:
                    yield s[start:i]
                    start, length = i, 1
        yield s[start:]


def encode(text: str) -> list[int]:
    return [i for part in parts(text) for i in encoding.encode(part, allowed_special="all")]


def summary(ids: list[int]) -> dict:
    """Long results as their count and a polynomial hash."""
    total = 0
    for i in ids:
        total = (total * 31 + i) % 1_000_000_007
    return {"count": len(ids), "hash": total}


texts = [text.replace("{r}", str(base + 9)) for text in texts]
result = {
    "model": "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()),
    "settings": {
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]",
        "added_tokens_decoder": {str(i): {"content": c, "special": c != "<think>"} for i, c in named.items()},
    },
    "texts": [{"text": text, "ids": encode(text)} for text in texts],
    "repeated": [{"text": text, "times": times, **summary(encode(text * times))} for text, times in repeated],
}  # fmt: skip
Path(sys.argv[1], "tiktoken.json").write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")
