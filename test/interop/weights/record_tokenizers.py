"""Records what the `tokenizers` package (the Rust library) makes of awkward texts, for the kinds of tokenizers found in GGUF files.

Run by record.mjs. Writes tokenizers.json into the folder given: texts, a small byte-level vocabulary with merges and the ids of the
texts for each way of cutting words, and a small SentencePiece vocabulary with scores and its ids; both with decoded random ids.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

random.seed(20260101)

texts = [
    "", " ", "\n", "Hello world! 123", "Once upon a time, there was a little girl named Lily.",
    "don't I'm we've they'll he'd it's DON'T I'M WE'RE", "  leading and trailing  ", "\n\n\nx\n \n",
    "\t\ttabs\tand  spaces   \n mixed \r\n crlf\r", "price: $3.50 (50%), 1,234.56e-7", "1234567890123",
    "٣٤٥ ² ³ ½ Ⅷ ① 一二三", "日本語のテキストと中文文本 한국어", "é e\u0301 ñ n\u0303 Å A\u030a", "👨‍👩‍👧‍👦 🇩🇪 👍🏽 🦊",
    "a\u00a0b\u2003c\u3000d\ufeffe\u200bf\u0085g\u2028h", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "x<|endoftext|>y <|im_end|> z", "<|im_start", 'for(i=0;i<10;i++){ print("x") }', "https://example.com/a?b=c&d=e#f",
    "a" * 60, " " * 30, "\x00\x01\x7f", "Ünïcödé ẞ ß İ ı", "العربية עברית हिन्दी ไทย", "…—–‘’“”«»", "\u202eRTL",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈", "snake_case camelCase PascalCase kebab-case HTTPServer", "''''", "'s 't 're", "’s ’t", "foo'sbar",
    "\u1680x\u180ey\u2007z", "▁x ▁▁", "<0x41> <s> </s> <unk>",
]  # fmt: skip
pools = [
    "abcdefghijklmnopqrstuvwxyzABCDE", " \t\n\r\u00a0\u2003\u0085\ufeff\u200b\u3000", "0123456789²½٣Ⅷ①",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…—", "éüßñøžçİı", "日本語中文한국어ไทยहिन", "👍🏽🦊😀👨\u200d👩🇩🇪", "\u0301\u0308",
]  # fmt: skip
words = ["the", "and", " was", " a", " Lily", "ing", "don't", "'s", " 12", "<|im_end|>", "\n\n", " to", "user"]
while len(texts) < 80:
    parts = [
        random.choice(words) if random.random() < 0.4 else random.choice(random.choice(pools)) * random.choice([1, 1, 2])
        for _ in range(random.randint(2, 16))
    ]
    texts.append("".join(parts))

special = [AddedToken(t, special=True, normalized=False) for t in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]]
english = [t for t in texts if t.isascii()] * 3 + ["the cat and the dog and the house was there in the end"] * 5
base = Tokenizer(models.BPE())
base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
base.train_from_iterator(
    english,
    trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())),
)
model = json.loads(base.to_str())["model"]
tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]

# As published in the tokenizer.json of a model of each kind.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def split(pattern: str):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


kinds = {
    "gpt-2": (pre_tokenizers.ByteLevel(add_prefix_space=False), False, None),
    "smollm": (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        False,
        None,
    ),
    "llama-bpe": (split(LLAMA3), True, None),
    "qwen2": (split(QWEN2), False, normalizers.NFC()),
    "tekken": (split(TEKKEN), True, None),
}
ids = {}
for name, (pre, ignore_merges, normalizer) in kinds.items():
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=pairs, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens(special)
    ids[name] = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def random_decodes(tokenizer: Tokenizer, size: int) -> list:
    drawn = [[random.randrange(size) for _ in range(random.randint(1, 12))] for _ in range(60)]
    return [[d, tokenizer.decode(d, skip_special_tokens=False), tokenizer.decode(d, skip_special_tokens=True)] for d in drawn]


byte_level = {"tokens": tokens, "merges": merges, "ids": ids, "decodes": random_decodes(tokenizer, len(tokens))}

# SentencePiece: unknown, begin, end, 256 bytes, then pieces, better ones first.
pieces = ["▁the", "th", "▁t", "▁a", "in", "he", "an", "▁and", "nd", "er", "▁▁", "▁w", "as", "▁was", "re", "on", "▁L", "il", "ily",
          "▁Lily", "▁1", "23", "end", "▁up", "▁upon", "on", "ing", "ello", "ll", "▁H", "▁Hello", "日本", "é"]  # fmt: skip
letters = sorted({c for piece in pieces for c in piece} | set("▁abcdefghijklmnopqrstuvwxyzH0123456789.,!'"))
spm = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
spm += list(dict.fromkeys(pieces)) + [c for c in letters if c not in pieces]
types = [2, 3, 3] + [6] * 256 + [1] * (len(spm) - 259)
scores = [0.0] * 259 + [-float(i) for i in range(len(spm) - 259)]
vocab = {token: i for i, token in enumerate(spm)}
ranked = []
for i in range(259, len(spm)):
    for cut in range(1, len(spm[i])):
        left, right = spm[i][:cut], spm[i][cut:]
        if vocab.get(left, 0) >= 259 and vocab.get(right, 0) >= 259:
            ranked.append((-scores[i], vocab[left], vocab[right], left, right))
ranked.sort()
tokenizer = Tokenizer(
    models.BPE(vocab=vocab, merges=[(l, r) for *_, l, r in ranked], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
)
tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ["<unk>", "<s>", "</s>"]])
sentence_piece = {
    "tokens": spm,
    "types": types,
    "scores": scores,
    "ids": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
    "decodes": random_decodes(tokenizer, len(spm)),
}



def whole(tokenizer: Tokenizer, texts: list) -> dict:
    """A tokenizer with its tokenizer.json, and the ids of texts."""
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return {"definition": json.loads(tokenizer.to_str()), "texts": texts, "ids": ids}


# Added tokens that take the blanks beside them: U+0085 is a blank, U+FEFF and U+200B are none.
strip = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(merge.split(" ")) for merge in merges]))
strip.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
strip.decoder = decoders.ByteLevel()
sides = {"<l>": (True, False), "<r>": (False, True), "<b>": (True, True), "<n>": (False, False)}
strip.add_special_tokens([AddedToken(t, lstrip=l, rstrip=r, special=True, normalized=False) for t, (l, r) in sides.items()])
strip.add_tokens([AddedToken("[w]", lstrip=True, rstrip=True, normalized=True)])
blanks = ["", " ", "  ", "\n", "\t \r\n", "\u0085", " \u0085", "\u0085 ", "\ufeff", " \ufeff", "\ufeff ", "\u00a0", "\u3000", "\u2028",
          "\u200b", "\u200b ", "\u1680", "\u180e", "\u001c"]  # fmt: skip
strip_texts = [f"a{left}{token}{right}b" for token in [*sides, "[w]"] for left in blanks for right in [left, " ", ""]]
strip_texts += ["".join(random.choice([*sides, "[w]", "x", *blanks]) for _ in range(8)) for _ in range(200)]

# Gemma's way: blanks become signs first, so that the cut at blanks never finds one.
gemma = Tokenizer(
    models.BPE(vocab=vocab, merges=[(l, r) for *_, l, r in ranked], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
)
gemma.normalizer = normalizers.Replace(" ", "▁")
gemma.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
gemma.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
gemma.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ["<unk>", "<s>", "</s>", "<start_of_turn>"]])
gemma.add_tokens([AddedToken(t, normalized=False) for t in ["\n\n", "▁▁", "<table>"]])

recorded = {
    "texts": texts,
    "byteLevel": byte_level,
    "sentencePiece": sentence_piece,
    "stripped": whole(strip, list(dict.fromkeys(strip_texts))),
    "gemma": {**whole(gemma, [*texts, "<start_of_turn>user\n\nthe  cat<table> was"]), "decodes": random_decodes(gemma, len(spm) + 4)},
}
(Path(sys.argv[1]) / "tokenizers.json").write_text(json.dumps(recorded) + "\n")
