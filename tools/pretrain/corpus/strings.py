"""Work on the letters and words of the question itself: copy, reverse, sort, pick, count, change case."""

import random

from . import words as W
from .exchange import Exchange

POOL = W.THINGS + list(W.ANIMALS) + list(W.FOODS) + W.COLOURS + W.PLACES + W.FEELINGS + list(W.OPPOSITES) + list(W.JOBS) + W.STORY_THINGS + [name.lower() for name in W.NAMES] + W.NUMBERS


def _word(rng: random.Random) -> str:
    """A word of ours, or one time in four an invented one, so that copying is learned and not a list of words."""
    if rng.random() < 0.75:
        return rng.choice(POOL)
    return "".join(rng.choice("bdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(1, 3))) + rng.choice(["", "n", "t", "s", "m", "rk"])


def _ask(rng: random.Random, *phrasings: str) -> str:
    return rng.choice(phrasings)


def string_task(rng: random.Random) -> Exchange:
    kind = rng.randrange(15)
    items = list(dict.fromkeys(_word(rng) for _ in range(rng.randint(2, 5))))
    text, word = " ".join(items), _word(rng)
    key = f"string:{kind}:{text if kind < 8 else word}"
    if kind == 0:
        return Exchange(key, _ask(rng, f"Repeat: {text}", f"Say this again: {text}", f"Copy these words: {text}"), text)
    if kind == 1:
        return Exchange(key, _ask(rng, f"Reverse: {text}", f"Say these words backwards: {text}", f"Write in reverse order: {text}"), " ".join(reversed(items)))
    if kind == 2:
        return Exchange(key, _ask(rng, f"Sort: {text}", f"Put these words in ABC order: {text}", f"Sort these words: {text}"), " ".join(sorted(items)))
    if kind == 3:
        return Exchange(key, _ask(rng, f"What is the first word? {text}", f"Give me the first word of: {text}"), items[0])
    if kind == 4:
        return Exchange(key, _ask(rng, f"What is the last word? {text}", f"Give me the last word of: {text}"), items[-1])
    if kind == 5:
        return Exchange(key, _ask(rng, f"How many words are here? {text}", f"Count the words: {text}"), str(len(items)))
    if kind == 6:
        return Exchange(key, _ask(rng, f"Write with commas: {text}", f"Make a list with commas: {text}"), ", ".join(items))
    if kind == 7:
        return Exchange(key, _ask(rng, f"Write in capital letters: {text}", f"Make it upper case: {text}"), text.upper())
    if kind == 8:
        return Exchange(key, _ask(rng, f"Spell {word}.", f"Spell the word {word}.", f"How do you spell {word}?"), " ".join(word))
    if kind == 9:
        return Exchange(key, _ask(rng, f"What is the first letter of {word}?", f"First letter of {word}?"), word[0])
    if kind == 10:
        return Exchange(key, _ask(rng, f"How many letters are in {word}?", f"Count the letters of {word}."), str(len(word)))
    if kind == 11:
        return Exchange(key, _ask(rng, f"Write {word} three times.", f"Say {word} three times."), f"{word} {word} {word}")
    if kind == 12:
        return Exchange(key, _ask(rng, f"Put {word} in quotes.", f"Write the word {word} in quotes."), f'"{word}"')
    if kind == 13:
        digits = " ".join(rng.choice("0123456789") for _ in range(rng.randint(3, 6)))
        return Exchange(f"string:13:{digits}", _ask(rng, f"Repeat: {digits}", f"Copy these numbers: {digits}"), digits)
    numbers = rng.sample(range(1, 60), rng.randint(3, 5))
    listed = " ".join(map(str, numbers))
    if rng.random() < 0.5:
        return Exchange(f"string:14:{listed}", f"Sort from small to big: {listed}", " ".join(map(str, sorted(numbers))))
    return Exchange(f"string:15:{listed}", f"Sort from big to small: {listed}", " ".join(map(str, sorted(numbers, reverse=True))))
