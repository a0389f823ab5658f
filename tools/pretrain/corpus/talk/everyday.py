"""Everyday questions and advice, from the tables in `knowledge`: one entry, one of many phrasings, one of its answers."""

import random
from functools import cache

from .. import words as W
from ..exchange import Exchange
from . import knowledge as K


@cache
def _rows(table: str) -> list[list[list[str]]]:
    """Lines of a table: fields of alternatives."""
    return [[[each.strip() for each in field.split(" / ")] for field in line.split(" | ")] for line in getattr(K, table).strip().splitlines()]


@cache
def _pairs(table: str) -> list[tuple[str, str]]:
    return [(key.strip(), value.strip()) for key, value in (pair.split(": ", 1) for pair in getattr(K, table).split("; "))]


def _start(text: str) -> str:
    return text[0].upper() + text[1:]


def _bare(text: str) -> str:
    return text.removeprefix("a ").removeprefix("an ").removeprefix("the ")


def _advice(rng: random.Random) -> tuple[str, str]:
    situations, advice = rng.choice(_rows("PROBLEMS"))
    said = _start(rng.choice(situations))
    asks = ["What should I do?", "What can I do?", "What do I do now?", "Can you help me?", "Do you have a tip?", "Any advice?", "What helps?", "Please help.", "What would you do?", "How can I fix this?"]
    return rng.choice([f"{said}. {rng.choice(asks)}", f"{said}! {rng.choice(asks)}", f"Help! {said}.", f"What should I do if {said[0].lower() if not said.startswith('I ') else 'I'}{said[1:]}?"]), rng.choice(advice)


def _tool(rng: random.Random) -> tuple[str, str]:
    tasks, (tool,) = rng.choice(_rows("TOOLS"))
    task = rng.choice(tasks)
    question = rng.choice([f"I want to {task}. What do I need?", f"What do I need to {task}?", f"What do you use to {task}?", f"What can I use to {task}?", f"How can I {task}?", f"I have to {task}. What should I use?"])
    return question, rng.choice([f"You need {tool}.", f"Use {tool}.", f"You can use {tool}.", f"{_start(tool)}.", f"To {task} you need {tool}."])


def _person(rng: random.Random) -> tuple[str, str]:
    (one, many), tasks, (where,) = rng.choice(_rows("PEOPLE"))
    task = rng.choice(tasks)
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([f"What does {one} do?" if one != "the police" else "What do the police do?", f"What is the job of {one}?", f"What do {many} do?"]), _start(f"{many} {task}.")
    if kind == 1:
        verb, _, rest = task.partition(" ")
        ending = "es" if verb.endswith(("ch", "sh", "x", "o", "ss")) else "s"
        third = f"{verb[:-1]}ies" if verb.endswith("y") and verb[-2] not in "aeou" else verb + ending
        question = rng.choice([f"Who {third} {rest}?", f"Who can {task}?", f"Whose job is it to {task}?"])
        return question, rng.choice([f"{_start(one)}.", f"{_start(one)} can do that.", f"{_start(many)} {task}."])
    if kind == 2:
        return f"Where does {one} work?" if rng.random() < 0.5 else f"Where do {many} work?", _start(f"{many} work {where}.")
    return rng.choice([f"I need a person who can {task}. Who can I ask?", f"Who can help me? I need help to {task}."]), f"Ask {one}."


def _place(rng: random.Random) -> tuple[str, str]:
    needs, (place,) = rng.choice(_rows("PLACES"))
    need = rng.choice(needs)
    question = rng.choice([f"Where can I {need}?", f"Where do I go to {need}?", f"I want to {need}. Where should I go?", f"What is a good place to {need}?", f"Where do people {need.replace('my', 'their')}?"])
    return question, rng.choice([f"You can do that at {place}.", f"Go to {place}.", f"{_start(place)}.", f"Try {place}."])


def _why(rng: random.Random) -> tuple[str, str]:
    questions, answers = rng.choice(_rows("WHYS"))
    return rng.choice(questions), rng.choice(answers)


def _how(rng: random.Random) -> tuple[str, str]:
    tasks, (answer,) = rng.choice(_rows("HOW_TO"))
    task = rng.choice(tasks)
    yours = task.replace("my", "your")
    return rng.choice([f"How do I {task}?", f"How do you {yours}?", f"How can I {task}?", f"Tell me how to {yours}.", f"Explain how to {yours}."]), answer


@cache
def _counts() -> list[tuple[str, str, str]]:
    return [(part.strip(), thing, number) for line in K.COUNTS.strip().splitlines() for part, listed in [line.split(" | ")] for thing, number in (each.split(": ") for each in listed.split("; "))]


def _count(rng: random.Random) -> tuple[str, str]:
    part, thing, number = rng.choice(_counts())
    plural = thing.split()[0] in ("two", "three")
    do, have, are = ("do", "have", "are") if plural else ("does", "has", "are")
    question = rng.choice([f"How many {part} {do} {thing} have?", f"How many {part} {are} there in {thing}?" if part not in ("legs", "wings", "eyes") else f"How many {part} can you count on {thing}?", f"Tell me how many {part} {thing} {have}."])
    noun = part if number not in ("one",) else part[:-1]
    return question, rng.choice([f"{_start(thing)} {have} {number} {noun}.", _start(f"{number} {noun}."), f"There are {number} {noun}." if number != "one" else f"There is one {noun}."])


def _colour(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.2:
        mix, result = rng.choice(_pairs("MIXES"))
        return rng.choice([f"What do {mix} make?", f"What color comes out when I mix {mix}?", f"Which color is a mix of {mix}?"]), rng.choice([f"{_start(mix)} make {result}.", _start(result) + "."])
    colour, things = rng.choice([line.split(": ") for line in K.COLOURS.strip().splitlines()])
    thing = rng.choice(things.split(", "))
    form = "are" if thing == "jeans" else "is"
    return rng.choice([f"What color {form} {thing}?", f"Which color does {thing} have?", f"Tell me the color of {thing}."]), rng.choice([f"{_start(thing)} {form} {colour}.", _start(colour) + ".", f"It is {colour}."])


def _compare(rng: random.Random) -> tuple[str, str]:
    more, less, things = rng.choice(K.ORDERS.strip().splitlines()).split(" | ")
    order = things.split(", ")
    low, high = sorted(rng.sample(range(len(order)), 2))
    shown = [order[low], order[high]]
    rng.shuffle(shown)
    word, right, wrong = rng.choice([(more, order[low], order[high]), (less, order[high], order[low])])
    question = rng.choice([f"Which is {word}, {shown[0]} or {shown[1]}?", f"What is {word}: {shown[0]} or {shown[1]}?", f"Is {shown[0]} or {shown[1]} {word}?"])
    return question, rng.choice([f"{_start(right)} is {word} than {wrong}.", f"{_start(right)}.", f"{_start(right)} is {word}."])


def _word(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.5:
        word, other = rng.choice(_pairs("OPPOSITES"))
        return rng.choice([f"What is the opposite of {word}?", f"Tell me the opposite of {word}.", f"Which word means the contrary of {word}?"]), rng.choice([f"The opposite of {word} is {other}.", _start(other) + "."])
    word, other = rng.choice(_pairs("SYNONYMS"))
    return rng.choice([f"What is another word for {word}?", f"Give me a word that means the same as {word}.", f"Which word is similar to {word}?"]), rng.choice([f"Another word for {word} is {other}.", _start(other) + "."])


def _pair(rng: random.Random) -> tuple[str, str]:
    kind = rng.randrange(8)
    if kind == 0:
        act, part = rng.choice(_pairs("BODY"))
        return rng.choice([f"What do we use to {act}?", f"Which part of the body do we need to {act}?", f"What do people {act} with?"]), rng.choice([f"We use {part}.", f"{_start(part)}.", f"We {act} with {part}."])
    if kind == 1:
        where, what = rng.choice(_pairs("WEAR"))
        return rng.choice([f"What do you wear on {where}?", f"What do people put on {where}?"]), rng.choice([f"You wear {what}.", f"{_start(what)}."])
    if kind == 2:
        when, what = rng.choice(_pairs("OCCASIONS"))
        return rng.choice([f"What should I wear {when}?", f"What do people wear {when}?", f"What clothes do I need {when}?"]), rng.choice([f"Wear {what}.", f"You should wear {what}.", _start(f"{what}.")])
    if kind == 3:
        does, animal = rng.choice(_pairs("ANIMALS"))
        return rng.choice([f"Which animal {does}?", f"What animal {does}?", f"Name an animal that {does}.", f"It is an animal and it {does}. What is it?"]), rng.choice([f"{_start(animal)} {does}.", f"{_start(animal)}."])
    if kind == 4:
        old, young = rng.choice(_pairs("YOUNG"))
        return rng.choice([f"What is a baby {old} called?", f"How do you call a young {old}?", f"What is the name for the child of a {old}?"]), rng.choice([f"A young {old} is called a {young}.", f"A {young}."])
    if kind == 5:
        who, where = rng.choice(_pairs("HOMES"))
        return rng.choice([f"Where do {who} live?", f"Where can you find {who}?", f"What is the home of {who}?"]), rng.choice([f"{_start(who)} live {where}.", f"{_start(where)}."])
    if kind == 6:
        who, what = rng.choice(_pairs("FOOD"))
        return rng.choice([f"What do {who} eat?", f"What is good food for {who}?", f"What can I give {who} to eat?"]), rng.choice([f"{_start(who)} eat {what}.", f"{_start(what)}."])
    what, of = rng.choice(_pairs("MADE_OF"))
    return rng.choice([f"What is {what} made of?" if what not in ("shoes", "pancakes") else f"What are {what} made of?", f"What do you need to make {what}?", f"Of what is {what} made?" if what not in ("shoes", "pancakes") else f"What do people make {what} from?"]), rng.choice([f"{_start(what)} {'are' if what in ('shoes', 'pancakes') else 'is'} made of {of}.", _start(f"{of}.")])


def _member(rng: random.Random) -> tuple[str, str]:
    group, members = rng.choice(list(K.GROUPS.items()))
    member = rng.choice(members)
    does = member.split()[0] in ("read", "play", "bake", "go", "have")
    question = rng.choice([f"Name {group}.", f"Tell me {group}.", f"What is {group}?" if not does else f"Can you think of {group}?", f"Give me an example of {group}.", f"Can you name {group}?"])
    return question, rng.choice([f"{_start(member)}.", f"{_start(member)}, for example.", f"{_start(member)} is {group}." if not does else f"You could {member}."])


def _calendar(rng: random.Random) -> tuple[str, str]:
    asked, answer = rng.choice(_pairs("CALENDAR"))
    return rng.choice([f"What is {asked}?", f"Tell me {asked}.", f"What do you call {asked}?"]), rng.choice([f"{_start(answer)}.", f"It is {answer}."])


KINDS = [_advice] * 6 + [_tool] * 3 + [_person] * 3 + [_place] * 3 + [_why] * 4 + [_how] * 2 + [_count] * 2 + [_colour] * 2 + [_compare] * 2 + [_word] * 2 + [_pair] * 5 + [_member] * 3 + [_calendar]
ENDINGS = [" I hope that helps.", " Good luck!", " Do you need anything else?", " Tell me if you need more help."]


def everyday(rng: random.Random) -> Exchange:
    question, answer = rng.choice(KINDS)(rng)
    if rng.random() < 0.06:
        question = f"{rng.choice(['Hi!', 'Hello.', 'Please tell me:', 'I have a question.', f'I am {rng.choice(W.NAMES)}.'])} {question}"
    if rng.random() < 0.05:
        answer += rng.choice(ENDINGS)
    return Exchange(f"everyday:{question}:{answer}", question, answer)
