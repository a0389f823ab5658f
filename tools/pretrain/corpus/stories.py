"""The teacher's stories: which are kept, and how they become documents."""

import random
import re

from . import prose, render, words
from .exchange import Exchange, Split, split_of

_SENTENCE = re.compile(r"(?<=[.!?])[\"']?\s+")
_GRIM = re.compile(r"\b(died|dead|die|dies|kill\w*|blood\w*|guns?|hated?|murder\w*|stab\w*)\b", re.IGNORECASE)
_ALLOWED = re.compile(r"[A-Za-z0-9 .,!?;:'\"()\-\n]+")

NOUNS = sorted({*words.THINGS, *words.ANIMALS, *words.STORY_THINGS, *words.STORY_PLACES})


def clean(text: str) -> str | None:
    """The story in tidy form, or nothing when it is short, unfinished, repetitive, garbled or grim."""
    text = re.sub(r"[ \t]*\n\s*", "\n", text.replace("\u201c", '"').replace("\u201d", '"').replace("\u2019", "'")).strip()
    text = re.sub(r" {2,}", " ", text)
    tokens = text.split()
    if not 60 <= len(tokens) <= 260 or not _ALLOWED.fullmatch(text) or text[-1] not in '.!?"' or text.count('"') % 2 or _GRIM.search(text):
        return None
    sentences = [s.lower() for s in _SENTENCE.split(text) if len(s.split()) > 3]
    if len(set(sentences)) < len(sentences) or len(set(map(str.lower, tokens))) < 0.38 * len(tokens):
        return None
    return text


def hero(text: str) -> str | None:
    named = re.search(r"\bnamed ([A-Z][a-z]+)", text)
    return named.group(1) if named else None


def document(text: str, rng: random.Random) -> str:
    """Plain text mostly; else the answer to a request, a continuation, or the ground for a question."""
    form = rng.random()
    if form < 0.66:
        return text
    name = hero(text)
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", text)
    if form < 0.86:
        present = [word for word in NOUNS if re.search(rf"\b{word}\b", text)]
        central = [word for word in present if re.search(rf"\b{word}\b", " ".join(sentences[:2])) and len(re.findall(rf"\b{word}s?\b", text)) > 2]
        requests = ["Tell me a story.", "Write a short story.", "Please tell me a story.", "Can you tell me a story?", "I would like to hear a story."]
        if name:
            requests += [f"Tell me a story about {name}.", f"Write a story about {name}."] * 3
        if present:
            chosen = rng.sample(present, min(len(present), rng.randint(1, 3)))
            listed = chosen[0] if len(chosen) == 1 else ", ".join(chosen[:-1]) + " and " + chosen[-1]
            requests += [f"Write a story with {'the word' if len(chosen) == 1 else 'the words'} {listed}."] * 3
        if central:
            subject = words.article(rng.choice(central))
            requests += [f"Tell me a story about {subject}.", f"Write a short story about {subject}."] * 4
        turns = [(rng.choice(requests), text)]
        if name and rng.random() < 0.3:
            turns.append((rng.choice(["Who is the story about?", "What is the name in the story?"]), f"The story is about {name}."))
        return render.chat(turns, rng.choice(render.SYSTEMS) if rng.random() < 0.3 else None)
    if form < 0.95 and len(sentences) > 4:
        cut = rng.randint(1, 3)
        start, rest = " ".join(sentences[:cut]), " ".join(sentences[cut:])
        return render.chat([(rng.choice([f"Continue this story: {start}", f"What happens next? {start}", f"Finish the story. {start}"]), rest)])
    if name:
        question, answer = rng.choice([("Who is the story about?", f"The story is about {name}."), (f"Is the story about {name}?", f"Yes, the story is about {name}.")])
        return f"{text}\n\nQuestion: {question}\nAnswer: {answer}"
    return text


def split_story(text: str) -> Split:
    return split_of("story:" + text)


def piece_exchange(rng: random.Random) -> Exchange:
    request, text = prose.piece(rng)
    return Exchange(f"prose:{text}", request, text)
