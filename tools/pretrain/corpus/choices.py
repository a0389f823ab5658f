"""Yes/no questions, choices and small inferences whose answer follows from the question or from the shared word lists."""

import random

from . import words as W
from .exchange import Exchange


def _yes_no(rng: random.Random) -> tuple[str, str]:
    kind = rng.randrange(7)
    if kind == 0:
        groups = {"an animal": list(W.ANIMALS), "a fruit": [f for f, (_, k) in W.FOODS.items() if k == "fruit"], "a color": W.COLOURS,
                  "a vegetable": [f for f, (_, k) in W.FOODS.items() if k == "vegetable"], "a day of the week": W.DAYS, "a month": W.MONTHS}
        asked, true = rng.choice(list(groups)), rng.random() < 0.5
        member = rng.choice(groups[asked] if true else groups[rng.choice([g for g in groups if g != asked])])
        if member == "orange":
            return "Is orange a color?", "Yes, orange is a color."
        subject = member if member in W.COLOURS + W.DAYS + W.MONTHS else W.article(member)
        return f"Is {subject} {asked}?", f"Yes, {subject} is {asked}." if true else f"No, {subject} is not {asked}."
    if kind == 1:
        a, b = rng.sample(range(1, 100), 2)
        big = rng.random() < 0.5
        word = rng.choice(["bigger", "greater", "more"]) if big else rng.choice(["smaller", "less"])
        return f"Is {a} {word} than {b}?", "Yes." if (a > b) == big else "No."
    if kind == 2:
        a = rng.randrange(100)
        word = rng.choice(["even", "odd"])
        return f"Is {a} {word}?", "Yes." if (a % 2 == 0) == (word == "even") else "No."
    if kind == 3:
        name, thing, colour = rng.choice(W.NAMES), rng.choice(W.THINGS), rng.choice(W.COLOURS)
        asked = colour if rng.random() < 0.5 else rng.choice([c for c in W.COLOURS if c != colour])
        return f"{name} has a {colour} {thing}. Is the {thing} {asked}?", f"Yes, the {thing} is {asked}." if asked == colour else f"No, the {thing} is {colour}."
    if kind == 4:
        listed = rng.sample(W.THINGS, rng.randint(3, 5))
        asked = rng.choice(listed) if rng.random() < 0.5 else rng.choice([t for t in W.THINGS if t not in listed])
        return f"In the box there are: {', '.join(listed)}. Is there a {asked} in the box?", f"Yes, there is a {asked}." if asked in listed else f"No, there is no {asked}."
    if kind == 5:
        animal = rng.choice(list(W.ANIMALS))
        legs = W.ANIMALS[animal][3]
        said = legs if rng.random() < 0.5 else rng.choice([n for n in (0, 2, 4, 6, 8) if n != legs])
        return f"True or false: {W.article(animal)} has {W.NUMBERS[said]} legs.", "True." if said == legs else "False."
    left, right = rng.choice(list(W.OPPOSITES.items()))
    other = right if rng.random() < 0.5 else rng.choice([v for v in W.OPPOSITES.values() if v != right])
    return f"Is {other} the opposite of {left}?", "Yes, it is." if other == right else f"No, the opposite of {left} is {right}."


def _choice(rng: random.Random) -> tuple[str, str]:
    kind = rng.randrange(7)
    if kind == 0:
        pools = {"an animal": list(W.ANIMALS), "a fruit": [f for f, (_, k) in W.FOODS.items() if k == "fruit"], "a tool": ["hammer", "saw", "spoon", "broom", "ladder", "shovel"], "a color": [c for c in W.COLOURS if c != "orange"]}
        asked = rng.choice(list(pools))
        right = rng.choice(pools[asked])
        options = [right] + [rng.choice(pools[p]) for p in rng.sample([p for p in pools if p != asked], rng.randint(1, 2))]
        rng.shuffle(options)
        return f"Which one is {asked}: {', '.join(options[:-1])} or {options[-1]}?", right.capitalize() + "."
    if kind == 1:
        a, b = rng.sample(range(100), 2)
        if rng.random() < 0.5:
            return f"Which is {rng.choice(['bigger', 'larger', 'greater'])}, {a} or {b}?", str(max(a, b))
        return f"Which is {rng.choice(['smaller', 'less'])}, {a} or {b}?", str(min(a, b))
    if kind == 2:
        one, two, thing = *rng.sample(W.NAMES, 2), rng.choice(W.THINGS)
        word, other = rng.choice([("taller", "shorter"), ("older", "younger"), ("faster", "slower"), ("stronger", "weaker")])
        return (f"{one} is {word} than {two}. Who is {word}?", f"{one} is {word}.") if rng.random() < 0.5 else (f"{one} is {word} than {two}. Who is {other}?", f"{two} is {other}.")
    if kind == 3:
        people, things = rng.sample(W.NAMES, 3), rng.sample(W.THINGS, 3)
        at = rng.randrange(3)
        story = " ".join(f"{p} has {W.article(t)}." for p, t in zip(people, things))
        return (f"{story} What does {people[at]} have?", f"{people[at]} has {W.article(things[at])}.") if rng.random() < 0.5 else (f"{story} Who has the {things[at]}?", f"{people[at]} has the {things[at]}.")
    if kind == 4:
        name, start, end, thing = rng.choice(W.NAMES), *rng.sample(W.PLACES, 2), rng.choice(W.THINGS)
        return f"{name} took the {thing} from the {start} to the {end}. Where is the {thing} now?", f"The {thing} is at the {end}."
    if kind == 5:
        options = rng.sample(W.THINGS, 3)
        letter = rng.choice("ABC")
        return f"A) {options[0]} B) {options[1]} C) {options[2]}. What is option {letter}?", f"Option {letter} is {options['ABC'.index(letter)]}."
    odd = rng.choice(list(W.ANIMALS))
    things = rng.sample(W.THINGS, 3)
    options = things + [odd]
    rng.shuffle(options)
    return f"Which word does not belong: {', '.join(options)}?", f"{odd.capitalize()} does not belong. It is an animal."


def choice(rng: random.Random) -> Exchange:
    question, answer = _yes_no(rng) if rng.random() < 0.5 else _choice(rng)
    return Exchange(f"choice:{question}", question, answer)
