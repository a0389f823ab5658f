"""JSON by schema and extraction: a schema of one to five properties, a text that holds their values, and the object that fits.
Schemas are drawn from many named fields, so that the model must read the schema rather than recall it."""

import json
import random

from .. import render
from .. import words as W

STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
CITIES = list(W.CAPITALS.values())
THINGS = sorted({*W.THINGS, "lamp", "table", "bag", "shirt", "phone", "pen", "bottle", "coat", "sofa", "ticket", "parcel", "machine"})
GOODS = "apples, eggs, bread, milk, nails, pens, cups, shoes, books, tickets, chairs, roses, balls, stamps, keys, boxes".split(", ")
HOBBIES = "chess, football, tennis, music, painting, reading, cooking, dancing, hiking, singing, swimming, fishing".split(", ")
LAST = "Miller, Baker, Stone, Hill, Wood, Fisher, Young, King, Brook, Lane".split(", ")
STREETS = "Mill Lane, Rose Street, Park Street, High Street, Lake Road, Oak Avenue, Castle Hill".split(", ")


def _enum(rng: random.Random, *values: str) -> dict:
    return {"type": "string", "enum": list(values)}


def _list(kind: dict) -> dict:
    return {"type": "array", "items": kind}


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def _time(rng: random.Random) -> str:
    return f"{rng.randrange(24):02d}:{rng.choice([0, 5, 10, 15, 20, 30, 40, 45, 50]):02d}"


def _person(rng: random.Random) -> tuple[str, list]:
    name, age, city, job, hobby, pet = rng.choice(W.NAMES), rng.randint(3, 90), rng.choice(CITIES), rng.choice(list(W.JOBS)), rng.choice(HOBBIES), rng.choice(list(W.ANIMALS))
    parts = [("age", INTEGER, age, rng.choice(["is {} years old", "is {}"])), ("city", STRING, city, rng.choice(["lives in {}", "comes from {}"])), ("job", STRING, job, rng.choice(["works as a {}", "is a {}"])),
             ("hobby", STRING, hobby, rng.choice(["likes {}", "loves {}"])), ("pet", STRING, pet, "has a {}"), ("married", BOOLEAN, rng.random() < 0.5, None), ("year", INTEGER, rng.randint(1940, 2020), "was born in {}")]
    chosen = rng.sample(parts, rng.randint(1, 3))
    said = [("is married" if value else "is not married") if form is None else form.format(value) for _, _, value, form in chosen]
    return f"{name} {_and(said)}.", [(rng.choice(["name", "name", "person", "first_name"]), STRING, name), *[(key, kind, value) for key, kind, value, _ in chosen]]


def _item(rng: random.Random) -> tuple[str, list]:
    thing, colour, price, size, stock = rng.choice(THINGS), rng.choice(W.COLOURS), rng.randint(1, 300), rng.choice(["S", "M", "L", "XL"]), rng.random() < 0.5
    key = rng.choice(["item", "product", "thing", "article"])
    kind = rng.randrange(4)
    if kind == 0:
        return f"The {colour} {thing} costs {price} {rng.choice(['euros', 'dollars', 'coins'])}.", [(key, STRING, thing), ("color", STRING, colour), ("price", INTEGER, price)]
    if kind == 1:
        return f"{rng.choice(['I want', 'I would like', 'Do you have', 'Please send me'])} the {thing} in {colour}, size {size}.", [(key, STRING, thing), ("color", STRING, colour), ("size", _enum(rng, "S", "M", "L", "XL"), size)]
    if kind == 2:
        return f"The {thing} is {'in stock' if stock else 'sold out'} and costs {price}.", [(key, STRING, thing), ("in_stock", BOOLEAN, stock), ("price", INTEGER, price)]
    owner = rng.choice(W.NAMES)
    return rng.choice([f"The {colour} {thing} is {owner}'s.", f"{owner} owns a {colour} {thing}."]), [("owner", STRING, owner), (key, STRING, thing), ("color", STRING, colour)]


def _order(rng: random.Random) -> tuple[str, list]:
    name, count, goods, city, day, number = rng.choice(W.NAMES), rng.randint(2, 40), rng.choice(GOODS), rng.choice(CITIES), rng.choice(W.DAYS), rng.randint(100, 9999)
    kind = rng.randrange(4)
    if kind == 0:
        return f"{name} {rng.choice(['bought', 'wants', 'needs', 'asked for'])} {count} {goods}.", [(rng.choice(["customer", "name", "buyer"]), STRING, name), (rng.choice(["product", "goods"]), STRING, goods), (rng.choice(["count", "amount", "quantity"]), INTEGER, count)]
    if kind == 1:
        return f"{rng.choice(['Deliver', 'Bring', 'Ship'])} {count} {goods} to {name} in {city} on {day}.", [("goods", STRING, goods), ("count", INTEGER, count), ("to", STRING, name), ("city", STRING, city), ("day", STRING, day)]
    if kind == 2:
        paid = rng.random() < 0.5
        return f"Bill {number} is {'paid' if paid else 'not paid yet'}.", [(rng.choice(["bill", "number", "invoice"]), INTEGER, number), ("paid", BOOLEAN, paid)]
    came = rng.random() < 0.5
    return f"Parcel {number} {'has arrived' if came else 'is still on its way'}.", [(rng.choice(["parcel", "number", "order"]), INTEGER, number), ("arrived", BOOLEAN, came)]


def _event(rng: random.Random) -> tuple[str, list]:
    what, day, room, time, city, other = rng.choice(["party", "lesson", "concert", "game", "exam", "dinner", "talk"]), rng.choice(W.DAYS), rng.randint(1, 60), _time(rng), *rng.sample(CITIES, 2)
    kind = rng.randrange(3)
    if kind == 0:
        return f"The {what} is on {day} at {time} in room {room}.", [(rng.choice(["event", "what", "title"]), STRING, what), ("day", STRING, day), ("time", STRING, time), ("room", INTEGER, room)]
    if kind == 1:
        vehicle, number = rng.choice(["train", "bus", "flight"]), rng.randint(1, 200)
        return f"{_start(vehicle)} {number} to {city} {rng.choice(['starts', 'departs', 'goes'])} at {time}.", [(vehicle, INTEGER, number), (rng.choice(["to", "city", "goal"]), STRING, city), ("time", STRING, time)]
    name = rng.choice(W.NAMES)
    return f"{name} {rng.choice(['travels', 'goes', 'drives'])} from {other} to {city} on {day}.", [("name", STRING, name), ("from", STRING, other), ("to", STRING, city), ("day", STRING, day)]


def _start(text: str) -> str:
    return text[0].upper() + text[1:]


def _state(rng: random.Random) -> tuple[str, list]:
    kind = rng.randrange(6)
    room, on = rng.choice(["kitchen", "hall", "bathroom", "garage", "office", "attic"]), rng.random() < 0.5
    if kind == 0:
        thing = rng.choice(["light", "radio", "fan", "heater"])
        state = "on" if on else "off"
        return f"{rng.choice(['Switch', 'Turn'])} {state} the {thing} in the {room}.", [("device", STRING, thing), ("room", STRING, room), ("state", _enum(rng, "on", "off"), state)]
    if kind == 1:
        mood, text = rng.choice([("happy", "I love it, thank you so much!"), ("happy", "Everything was perfect."), ("sad", "I miss my old friend."), ("sad", "My fish died today."), ("angry", "This is the third time that it broke!"), ("angry", "Nobody answers my letters. I am furious."), ("calm", "It is all right, take your time.")])
        return text, [(rng.choice(["mood", "feeling"]), _enum(rng, *rng.sample(["happy", "sad", "angry", "calm"], 4)), mood)]
    if kind == 2:
        stars = rng.randint(1, 5)
        thing = rng.choice(["hotel", "film", "cake", "pizza", "book", "trip"])
        good = stars > 3
        return f"{'The ' + thing + ' was wonderful' if good else 'The ' + thing + ' was bad'}. {W.NUMBERS[stars].capitalize()} {'star' if stars == 1 else 'stars'}.", [("stars", INTEGER, stars), ("thing", STRING, thing), (rng.choice(["good", "positive", "recommended"]), BOOLEAN, good)]
    if kind == 3:
        degrees, sky = rng.randint(-9, 38), rng.choice(W.WEATHER)
        return f"{rng.choice(['Today it is', 'It will be', 'Now it is'])} {degrees} degrees and {sky}.", [(rng.choice(["degrees", "temperature"]), INTEGER, degrees), (rng.choice(["sky", "weather"]), STRING, sky)]
    if kind == 4:
        place, opened = rng.choice(["museum", "bank", "bakery", "library", "cafe", "park"]), rng.random() < 0.5
        return f"The {place} is {rng.choice(['open', 'not closed']) if opened else rng.choice(['closed', 'shut', 'not open'])} {rng.choice(['today', 'now', 'on Sunday'])}.", [("place", STRING, place), ("open", BOOLEAN, opened)]
    urgent, thing = rng.random() < 0.5, rng.choice(THINGS)
    return f"{'Please hurry' if urgent else 'There is no hurry'}: the {thing} is broken.", [("urgent", BOOLEAN, urgent), (rng.choice(["object", "thing", "item"]), STRING, thing)]


def _lists(rng: random.Random) -> tuple[str, list]:
    kind = rng.randrange(3)
    if kind == 0:
        goods = rng.sample(GOODS, rng.randint(2, 5))
        return f"{rng.choice(['Buy', 'We still need', 'The list says'])} {_and(goods)}.", [(rng.choice(["list", "goods", "shopping"]), _list(STRING), goods)]
    if kind == 1:
        name, hobbies = rng.choice(W.NAMES), rng.sample(HOBBIES, rng.randint(2, 3))
        return f"{name} enjoys {_and(hobbies)}.", [("name", STRING, name), (rng.choice(["likes", "interests"]), _list(STRING), hobbies)]
    numbers = [rng.randint(1, 99) for _ in range(rng.randint(2, 5))]
    return f"{rng.choice(['The numbers are', 'We counted', 'Note'])} {_and([str(n) for n in numbers])}.", [("numbers", _list(INTEGER), numbers)]


def _nested(rng: random.Random) -> tuple[str, list]:
    name, street, number, city = f"{rng.choice(W.NAMES)} {rng.choice(LAST)}", rng.choice(STREETS), rng.randint(1, 99), rng.choice(CITIES)
    home = {"type": "object", "properties": {"street": STRING, "number": INTEGER, "city": STRING}, "required": ["street", "number", "city"]}
    return f"{name} lives at {street} {number} in {city}.", [("name", STRING, name), (rng.choice(["home", "lives_at", "place"]), home, {"street": street, "number": number, "city": city})]


KINDS = [_person, _person, _item, _item, _order, _order, _event, _event, _state, _state, _state, _lists, _nested]


def task(rng: random.Random) -> tuple[str, dict, dict]:
    """(text, schema, the object that fits it and the text)"""
    text, fields = rng.choice(KINDS)(rng)
    if rng.random() < 0.4 and len(fields) > 1:  # not every field of the text is asked for, nor in the text's order
        fields = rng.sample(fields, rng.randint(1, len(fields)))
    seen: dict[str, tuple] = {}
    for key, kind, value in fields:
        seen.setdefault(key, (kind, value))
    schema: dict = {"type": "object", "properties": {key: kind for key, (kind, _) in seen.items()}, "required": list(seen)}
    if rng.random() < 0.6:
        schema["additionalProperties"] = False
    return text, schema, {key: value for key, (_, value) in seen.items()}


def schema_document(rng: random.Random) -> str:
    turns = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        text, schema, value = task(rng)
        # Both spacings occur: with JSON.stringify and with Python's json.dumps.
        dumped = json.dumps(schema, separators=(",", ":")) if rng.random() < 0.6 else json.dumps(schema)
        form = rng.randrange(8)
        question = [
            f"{text}\nAnswer with JSON that fits this schema: {dumped}", f"{text}\nReply in JSON for this schema: {dumped}", f"{dumped}\n{text}", f"Fill in this JSON schema: {dumped}\nText: {text}",
            f"Extract JSON from the text.\nSchema: {dumped}\nText: {text}", f"Schema: {dumped}\nText: {text}\nJSON:", f"Read the data from this text: {text}\nSchema: {dumped}", f"{text}\nWrite only JSON with this schema: {dumped}",
        ][form]
        turns.append((question, json.dumps(value)))
    system = rng.choice(["You write only JSON.", "You extract data.", "Answer in JSON."]) if rng.random() < 0.2 else None
    return render.chat(turns, system)
