"""Lists: name some members of a group, count up and down, shopping lists, plans, alphabets."""

import random

from . import words as W
from .exchange import Exchange

GROUPS = {
    "animals": list(W.ANIMALS), "fruits": [f for f, (_, k) in W.FOODS.items() if k == "fruit"], "colors": W.COLOURS,
    "vegetables": [f for f, (_, k) in W.FOODS.items() if k == "vegetable"], "days of the week": W.DAYS, "months": W.MONTHS,
    "jobs": list(W.JOBS), "things in a house": ["table", "chair", "bed", "lamp", "rug", "clock", "window", "door", "mirror", "plate"],
    "birds": ["owl", "crow", "parrot", "duck", "hen", "penguin"], "farm animals": ["cow", "pig", "sheep", "hen", "horse", "goat", "donkey"],
    "places": W.PLACES, "feelings": W.FEELINGS, "capital cities": list(W.CAPITALS.values()), "countries": list(W.CAPITALS), "tools": ["hammer", "saw", "ladder", "shovel", "broom", "brush"],
    "kinds of weather": W.WEATHER, "names for a boy": W.BOYS, "names for a girl": W.GIRLS,
}
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def _shape(rng: random.Random, items: list[str]) -> str:
    form = rng.randrange(4)
    if form == 0:
        return ", ".join(items[:-1]) + " and " + items[-1] + "."
    if form == 1:
        return "\n".join(f"{i + 1}. {item}" for i, item in enumerate(items))
    if form == 2:
        return "\n".join(f"- {item}" for item in items)
    return ", ".join(items)


def list_task(rng: random.Random) -> Exchange:
    kind = rng.randrange(8)
    if kind < 3:
        group = rng.choice(list(GROUPS))
        items = rng.sample(GROUPS[group], rng.randint(2, min(6, len(GROUPS[group]))))
        count = W.NUMBERS[len(items)] if rng.random() < 0.7 else str(len(items))
        question = rng.choice([f"Name {count} {group}.", f"List {count} {group}.", f"Can you tell me {count} {group}?", f"Give me {count} {group}.", f"I need {count} {group}."])
        return Exchange(f"list:{group}:{','.join(sorted(items))}", question, _shape(rng, items))
    if kind == 3:
        start, length, step = rng.randint(0, 90), rng.randint(4, 9), rng.choice([1, 1, 1, 2, 5, 10])
        if rng.random() < 0.3:
            numbers = list(range(start, max(-1, start - length), -1))
            return Exchange(f"list:down:{start}:{length}", f"Count down from {numbers[0]} to {numbers[-1]}.", " ".join(map(str, numbers)))
        numbers = list(range(start, start + step * length, step))
        by = "" if step == 1 else f" by {step}s"
        return Exchange(f"list:up:{start}:{length}:{step}", f"Count from {numbers[0]} to {numbers[-1]}{by}.", " ".join(map(str, numbers)))
    if kind == 4:
        start, step = rng.randint(0, 40), rng.choice([1, 2, 3, 5, 10])
        shown = [start + step * i for i in range(4)]
        return Exchange(f"list:next:{start}:{step}", f"What comes next: {', '.join(map(str, shown))}?", str(start + 4 * step))
    if kind == 5:
        name, foods = rng.choice(W.NAMES), rng.sample(list(W.FOODS), rng.randint(3, 5))
        return Exchange(f"list:shop:{name}:{','.join(sorted(foods))}", f"Write a shopping list for {name} with {', '.join(foods[:-1])} and {foods[-1]}.", f"{name}'s shopping list:\n" + "\n".join(f"- {food}" for food in foods))
    if kind == 6:
        at, length = rng.randrange(20), rng.randint(3, 6)
        letters = ALPHABET[at : at + length]
        return Exchange(f"list:abc:{at}:{length}", rng.choice([f"Say {length} letters starting with {letters[0]}.", f"Write the alphabet from {letters[0]} to {letters[-1]}."]), " ".join(letters))
    name, morning, noon, evening = rng.choice(W.NAMES), rng.choice(W.PLACES), rng.choice(W.PLACES), rng.choice(W.PLACES)
    return Exchange(f"list:plan:{name}:{morning}:{noon}:{evening}", rng.choice([f"Make a plan for the day of {name}.", f"What will {name} do today?", f"Write a plan for {name}."]),
                    f"Morning: {name} goes to the {morning}.\nNoon: {name} eats at the {noon}.\nEvening: {name} walks home from the {evening}.")
