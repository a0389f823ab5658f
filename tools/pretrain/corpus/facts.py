"""Simple facts as questions, each in several phrasings. The key joins fact and phrasing, so held-out questions ask known
facts in combinations that training never showed."""

import random

from . import words as W
from .exchange import Exchange


def _ask(rng: random.Random, topic: str, subject: str, pairs: list[tuple[str, str]]) -> Exchange:
    at = rng.randrange(len(pairs))
    question, answer = pairs[at]
    return Exchange(f"fact:{topic}:{subject}:{at}", question, answer)


def _animal(rng: random.Random) -> Exchange:
    animal = rng.choice(list(W.ANIMALS))
    sound, home, food, legs, covering = W.ANIMALS[animal]
    an, many = W.article(animal), W.plural(animal)
    count = W.NUMBERS[legs]
    topic = rng.choice(["sound", "home", "food", "legs", "covering", "young", "about"])
    if topic == "sound":
        return _ask(rng, topic, animal, [
            (f"What sound does {an} make?", f"{an.capitalize()} {sound}."), (f"What does {an} do?", f"{an.capitalize()} {sound}."),
            (f"Which animal {sound}?", f"{an.capitalize()} {sound}.")])
    if topic == "home":
        return _ask(rng, topic, animal, [
            (f"Where does {an} live?", f"{an.capitalize()} lives in {home}."), (f"Where do {many} live?", f"{many.capitalize()} live in {home}."),
            (f"Where can I find {an}?", f"You can find {an} in {home}.")])
    if topic == "food":
        return _ask(rng, topic, animal, [
            (f"What does {an} eat?", f"{an.capitalize()} eats {food}."), (f"What do {many} eat?", f"{many.capitalize()} eat {food}."),
            (f"What should I feed {an}?", f"You can feed {an} {food}.")])
    if topic == "legs":
        has = "no legs" if legs == 0 else f"{count} legs"
        return _ask(rng, topic, animal, [
            (f"How many legs does {an} have?", f"{an.capitalize()} has {has}."), (f"How many legs do {many} have?", f"{many.capitalize()} have {has}.")])
    if topic == "covering":
        return _ask(rng, topic, animal, [
            (f"What covers {an}?", f"{an.capitalize()} is covered with {covering}."), (f"Does {an} have fur?", f"Yes, {an} has fur." if covering == "fur" else f"No, {an} has {covering}.")])
    if topic == "young" and animal in W.YOUNG:
        young = W.YOUNG[animal]
        return _ask(rng, topic, animal, [
            (f"What is a young {animal} called?", f"A young {animal} is called a {young}."), (f"What do you call a baby {animal}?", f"A baby {animal} is a {young}."),
            (f"Which animal has a {young}?", f"{an.capitalize()} has a {young}.")])
    return _ask(rng, "about", animal, [
        (f"Tell me about the {animal}.", f"The {animal} lives in {home}. It eats {food}. It {sound} and is covered with {covering}."),
        (f"Say two things about {many}.", f"{many.capitalize()} live in {home}. They eat {food}."),
        (f"What do you know about {many}?", f"{many.capitalize()} eat {food} and live in {home}. They are covered with {covering}.")])


def _other(rng: random.Random) -> Exchange:
    topic = rng.choice(["food", "opposite", "job", "tool", "day", "month", "capital", "part", "season", "plain"])
    if topic == "food":
        food = rng.choice(list(W.FOODS))
        colour, kind = W.FOODS[food]
        an = W.article(food) if kind in ("fruit", "vegetable") else food
        kind_text = W.article(kind) if kind in ("fruit", "vegetable", "drink") else "a kind of food"
        return _ask(rng, topic, food, [
            (f"What color is {an}?", f"{an.capitalize()} is {colour}."), (f"What kind of thing is {an}?", f"{an.capitalize()} is {kind_text}."),
            (f"Is {an} something to eat or to drink?", f"{an.capitalize()} is something to {'drink' if kind == 'drink' else 'eat'}.")])
    if topic == "opposite":
        left, right = rng.choice(list(W.OPPOSITES.items()))
        if rng.random() < 0.5:
            left, right = right, left
        return _ask(rng, topic, left, [
            (f"What is the opposite of {left}?", f"The opposite of {left} is {right}."), (f"Give me the opposite of {left}.", right.capitalize() + "."),
            (f"If it is not {left}, what is it?", f"It is {right}."), (f"{left.capitalize()} is the opposite of what?", f"{left.capitalize()} is the opposite of {right}.")])
    if topic == "job":
        job = rng.choice(list(W.JOBS))
        does, place, tool = W.JOBS[job]
        return _ask(rng, topic, job, [
            (f"What does a {job} do?", f"A {job} {does}."), (f"Where does a {job} work?", f"A {job} works in {place}." if place != "the road" else f"A {job} works on the road."),
            (f"What does a {job} use?", f"A {job} uses {tool}."), (f"Who {does}?", f"A {job} {does}."), (f"Tell me about the work of a {job}.", f"A {job} {does}. The {job} often uses {tool}.")])
    if topic == "tool":
        tool, use = rng.choice(list(W.TOOLS.items()))
        an = W.article(tool) if not tool.endswith("ors") and tool != "soap" else tool
        verb = "are" if tool == "scissors" else "is"
        return _ask(rng, topic, tool, [
            (f"What {verb} {an} for?", f"You use {an} to {use}."), (f"What do you use to {use}?", f"You use {an} to {use}."), (f"How do you use {an}?", f"You use it to {use}." if verb == "is" else f"You use them to {use}."),
            (f"I want to {use}. What do I need?", f"You need {an}.")])
    if topic in ("day", "month"):
        names = W.DAYS if topic == "day" else W.MONTHS
        at = rng.randrange(len(names))
        name, after, before = names[at], names[(at + 1) % len(names)], names[at - 1]
        return _ask(rng, topic, name, [
            (f"What {topic} comes after {name}?", f"{after} comes after {name}."), (f"What {topic} comes before {name}?", f"{before} comes before {name}."),
            (f"Which {topic} follows {name}?", f"{after}."), (f"If this {topic} is {name}, what is the next one?", f"The next {topic} is {after}.")])
    if topic == "capital":
        country, city = rng.choice(list(W.CAPITALS.items()))
        return _ask(rng, topic, country, [
            (f"What is the capital of {country}?", f"The capital of {country} is {city}."), (f"{city} is the capital of which country?", f"{city} is the capital of {country}."),
            (f"Name the capital of {country}.", f"{city}.")])
    if topic == "part":
        part, use = rng.choice(list(W.PARTS.items()))
        return _ask(rng, topic, part, [
            (f"What do you do with your {part}?", f"You {use} with your {part}."), (f"What do you {use} with?" if " " not in use else f"What helps you {use}?", f"Your {part}."),
            (f"Why do we need {part}?", f"We need {part} to {use}.")])
    if topic == "season":
        season, event = rng.choice(list(W.SEASONS.items()))
        names = list(W.SEASONS)
        after = names[(names.index(season) + 1) % 4]
        return _ask(rng, topic, season, [
            (f"What happens in {season}?", f"In {season} {event}."), (f"What season comes after {season}?", f"{after.capitalize()} comes after {season}."),
            (f"In which season is it true that {event}?", f"In {season}.")])
    question, answer = rng.choice(W.PLAIN_FACTS)
    return _ask(rng, topic, question, [(question, answer), (f"Please tell me: {question[0].lower()}{question[1:]}", answer), (f"I have a question. {question}", answer)])


def fact(rng: random.Random) -> Exchange:
    return _animal(rng) if rng.random() < 0.4 else _other(rng)
