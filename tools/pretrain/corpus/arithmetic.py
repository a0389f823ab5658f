"""Numbers. `number_sense` is everything but addition and is plentiful; additions are drawn separately because how many
of them the model sees sets how well it adds, and that number is calibrated: too many and reinforcement learning has
nothing to climb, none and it has nowhere to start. Every answer is right; what is rationed is practice."""

import random

from . import words as W
from .exchange import Exchange


def number_sense(rng: random.Random) -> Exchange:
    kind = rng.randrange(9)
    if kind == 0:
        n = rng.randrange(len(W.NUMBERS))
        form = rng.randrange(3)
        question, answer = [(f"Write the number {W.NUMBERS[n]} in digits.", str(n)), (f"Write {n} as a word.", W.NUMBERS[n]), (f"How do you say {n}?", W.NUMBERS[n].capitalize() + ".")][form]
        return Exchange(f"number:word:{n}:{form}", question, answer)
    if kind == 1:
        n = rng.randrange(1, 999)
        return Exchange(f"number:after:{n}", rng.choice([f"What number comes after {n}?", f"Which number follows {n}?"]), str(n + 1))
    if kind == 2:
        n = rng.randrange(1, 999)
        return Exchange(f"number:before:{n}", f"What number comes before {n}?", str(n - 1))
    if kind == 3:
        n = rng.randrange(10, 1000)
        digits = str(n)
        at = rng.randrange(len(digits))
        place = {0: "last", len(digits) - 1: "first"}.get(len(digits) - 1 - at, "middle")
        return Exchange(f"number:digit:{n}:{place}", f"What is the {place} digit of {n}?", digits[at])
    if kind == 4:
        n = rng.randrange(10, 1000)
        return Exchange(f"number:digits:{n}", f"How many digits does {n} have?", str(len(str(n))))
    if kind == 5:
        numbers = rng.sample(range(1, 100), 3)
        word, pick = rng.choice([("biggest", max), ("smallest", min), ("largest", max)])
        return Exchange(f"number:{word}:{numbers}", f"Which is the {word}: {numbers[0]}, {numbers[1]} or {numbers[2]}?", str(pick(numbers)))
    if kind == 6:
        n, thing = rng.randint(2, 12), rng.choice(W.THINGS)
        return Exchange(f"number:count:{n}:{thing}", f"Count the words: {' '.join([thing] * n)}", str(n))
    if kind == 7:
        a, b = sorted(rng.sample(range(10), 2), reverse=True)
        return Exchange(f"number:minus:{a}:{b}", rng.choice([f"What is {a} - {b}?", f"{a} - {b} =", f"Take {b} from {a}."]), str(a - b))
    n = rng.randrange(1, 10)
    return Exchange(f"number:tens:{n}", rng.choice([f"How many tens are in {n}0?", f"{n}0 is how many tens?"]), str(n))


def _operand(rng: random.Random, digits: int) -> int:
    return rng.randrange(10) if digits == 1 else rng.randrange(10 ** (digits - 1), 10**digits)


def _worked(a: int, b: int) -> str:
    """Column addition, the units first: `7 + 8 = 15, write 5, carry 1.`"""
    steps, carry, x, y = [], 0, a, b
    while x or y:
        total = x % 10 + y % 10 + carry
        carried = f" + {carry}" if carry else ""
        last = x < 10 and y < 10
        step = f"{x % 10} + {y % 10}{carried} = {total}"
        steps.append(step + ("." if last else f", write {total % 10}, carry 1." if total > 9 else f", write {total}."))
        carry, x, y = total // 10, x // 10, y // 10
    return " ".join(steps) + f" The answer is {a + b}."


def addition(rng: random.Random, digits: int) -> Exchange:
    """A bare sum. Single-digit sums are few enough to be learned by heart and are not held out."""
    a, b = _operand(rng, digits), _operand(rng, digits)
    question = rng.choices([f"What is {a} + {b}?", f"{a} + {b} =", f"Add {a} and {b}.", f"How much is {a} + {b}?"], [7, 1, 1, 1])[0]
    return Exchange("sum" if digits == 1 else sum_key(a, b), question, str(a + b))


def worked_addition(rng: random.Random, digits: int) -> Exchange:
    a, b = _operand(rng, digits), _operand(rng, digits)
    question = rng.choice([f"Add {a} and {b} step by step.", f"Show how to add {a} and {b}.", f"What is {a} + {b}? Show your work."])
    return Exchange(sum_key(a, b), question, _worked(a, b))


def told_addition(rng: random.Random) -> Exchange:
    """A single-digit sum told as a small event."""
    a, b, name, thing = rng.randint(1, 9), rng.randint(1, 9), rng.choice(W.NAMES), W.plural(rng.choice(W.THINGS))
    question = rng.choice([
        f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?",
        f"There are {a} {thing} here and {b} {thing} there. How many {thing} are there in all?",
        f"{name} found {a} {thing} in the morning and {b} in the evening. How many {thing} did {name} find?"])
    return Exchange(f"told:{a}:{b}:{name}:{thing}", question, str(a + b))


def sum_key(a: int, b: int) -> str:
    return f"sum:{a}+{b}"
