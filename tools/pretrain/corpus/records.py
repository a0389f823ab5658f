"""JSON snippets: write an object from a sentence, read a value from one, extend one, count in one."""

import json
import random

from . import words as W
from .exchange import Exchange


def _person(rng: random.Random) -> dict:
    fields = {"name": rng.choice(W.NAMES), "age": rng.randint(3, 80), "city": rng.choice(list(W.CAPITALS.values())), "pet": rng.choice(list(W.ANIMALS)),
              "color": rng.choice(W.COLOURS), "job": rng.choice(list(W.JOBS)), "happy": rng.random() < 0.5}
    chosen = ["name"] + rng.sample([f for f in fields if f != "name"], rng.randint(1, 3))
    return {field: fields[field] for field in chosen}


def _sentence(person: dict) -> str:
    phrases = {"age": "is {} years old", "city": "lives in {}", "pet": "has a pet {}", "color": "likes the color {}", "job": "works as a {}", "happy": "is happy"}
    parts = [("is not happy" if field == "happy" and not value else phrases[field].format(value)) for field, value in person.items() if field != "name"]
    return f"{person['name']} {', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]}."


def record_task(rng: random.Random) -> Exchange:
    kind = rng.randrange(6)
    person = _person(rng)
    dumped = json.dumps(person)
    if kind in (0, 1):
        return Exchange(f"json:write:{dumped}", rng.choice([f"Write as JSON: {_sentence(person)}", f"Turn this into JSON. {_sentence(person)}", f"JSON please: {_sentence(person)}"]), dumped)
    if kind == 2:
        field = rng.choice(list(person))
        return Exchange(f"json:read:{dumped}:{field}", rng.choice([f"What is the {field} in {dumped}?", f"{dumped}\nGive me the value of {field}.", f"Read the field {field}: {dumped}"]), str(person[field]) if not isinstance(person[field], bool) else json.dumps(person[field]))
    if kind == 3:
        return Exchange(f"json:say:{dumped}", rng.choice([f"Say this in words: {dumped}", f"Write a sentence for {dumped}"]), _sentence(person))
    if kind == 4:
        items = rng.sample(W.THINGS, rng.randint(2, 5))
        return Exchange(f"json:list:{','.join(items)}", rng.choice([f"Write a JSON list of: {', '.join(items)}", f"Make a JSON array: {' '.join(items)}"]), json.dumps(items))
    thing, count, colour = rng.choice(W.THINGS), rng.randint(1, 20), rng.choice(W.COLOURS)
    return Exchange(f"json:item:{thing}:{count}:{colour}", rng.choice([f"Write JSON for {count} {colour} {W.plural(thing)}.", f"Describe {count} {colour} {W.plural(thing)} as JSON."]), json.dumps({"item": thing, "count": count, "color": colour}))
