"""The model's tokenizer: byte-level BPE with single digits (a sum is then a sum of symbols, not of chunks) and three
special tokens. Writes `tokenizer.json` and its two configurations; the chat template is in one of them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus import tool_chat
from corpus.render import END_OF_TEXT, IM_END, IM_START

SPECIALS = [END_OF_TEXT, IM_START, IM_END]  # ids 0, 1, 2
# Words with their leading space, one digit at a time, punctuation, line breaks apart from what precedes them. No inline
# flags: JavaScript engines read this pattern too.
PATTERN = r"'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"
MARKED = re.compile("|".join(map(re.escape, tool_chat.MARKERS)))
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train(texts: Iterable[str], vocabulary: int, tools: bool = False) -> Tokenizer:
    """`tools` adds the markers of tool calls as the last tokens of the vocabulary, not special: decoded text keeps them."""
    markers = tool_chat.MARKERS if tools else []
    if tools:
        texts = (MARKED.sub(" ", text) for text in texts)  # no merges for what is one token anyway
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary - len(markers), special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(marker, normalized=False, special=False) for marker in markers])
    return tokenizer


def write_config(folder: Path, context: int, tools: bool = False) -> None:
    special = {str(i): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
               for i, token in enumerate(SPECIALS)}
    if tools:
        added = Tokenizer.from_file(str(folder / "tokenizer.json"))
        special |= {str(added.token_to_id(token)): {**special["0"], "content": token, "special": False} for token in tool_chat.MARKERS}
    config = {
        "added_tokens_decoder": special,
        "bos_token": None,
        "chat_template": tool_chat.SOURCE.read_text() if tools else CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": IM_END,
        "model_max_length": context,
        "pad_token": END_OF_TEXT,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": IM_END, "pad_token": END_OF_TEXT}, indent=2) + "\n")
