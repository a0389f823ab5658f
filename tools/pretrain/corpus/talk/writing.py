"""Instructions whose result can be checked: how many words, lines or items, which form, rewriting, summarising, short notes
and poems. The content comes from word lists, so the form is what there is to learn."""

import json
import random

from .. import lists, render
from .. import words as W
from ..exchange import Exchange
from . import knowledge as K

NOUNS = sorted({*W.THINGS, *W.ANIMALS, *W.PLACES})
VERBS = [("walks", "walked", "walk"), ("runs", "ran", "run"), ("plays", "played", "play"), ("sleeps", "slept", "sleep"), ("sings", "sang", "sing"), ("cooks", "cooked", "cook"), ("reads", "read", "read"), ("works", "worked", "work"), ("swims", "swam", "swim"), ("waits", "waited", "wait"), ("dances", "danced", "dance"), ("paints", "painted", "paint")]
RHYMES = [("sun", "fun", "run"), ("tree", "bee", "me"), ("day", "play", "way"), ("night", "light", "bright"), ("sea", "free", "me"), ("moon", "soon", "tune"), ("sky", "high", "fly"), ("snow", "go", "slow"), ("rain", "lane", "again"), ("cat", "hat", "mat"), ("spring", "sing", "ring"), ("wind", "pinned", "grinned"), ("star", "far", "are")]
GROUPS = {name: members for name, members in lists.GROUPS.items() if len(members) >= 6}


def _sentence(rng: random.Random, about: str | None = None) -> str:
    noun, colour, place, name = about or rng.choice(NOUNS), rng.choice(W.COLOURS), rng.choice(W.PLACES), rng.choice(W.NAMES)
    return rng.choice([f"The {noun} is {colour}.", f"{name} sees the {noun}.", f"There is a {noun} near the {place}.", f"I like the {noun} very much.", f"{name} looks for the {noun} every day.", f"The {noun} is not far from the {place}.", f"We found the {noun} in the morning.", f"Everyone knows the {noun}."])


def _start(text: str) -> str:
    return text[0].upper() + text[1:]


def _members(rng: random.Random) -> tuple[str, list[str]]:
    group = rng.choice(list(GROUPS))
    return group, rng.sample(GROUPS[group], rng.randint(2, 6))


def _list(rng: random.Random) -> tuple[str, str]:
    group, items = _members(rng)
    count = W.NUMBERS[len(items)] if rng.random() < 0.7 else str(len(items))
    form = rng.randrange(5)
    lead = rng.choice([f"Name {count} {group}", f"List {count} {group}", f"Give me {count} {group}", f"Write down {count} {group}", f"I need {count} {group}"])
    if form == 0:
        return lead + rng.choice([", one on each line.", ". One per line.", ", each on a new line."]), "\n".join(items)
    if form == 1:
        return lead + rng.choice([" with numbers.", " as a numbered list.", ". Number them.", ", numbered."]), "\n".join(f"{i + 1}. {item}" for i, item in enumerate(items))
    if form == 2:
        return lead + rng.choice([" with dashes.", " as a list with dashes.", " as bullet points."]), "\n".join(f"- {item}" for item in items)
    if form == 3:
        return lead + rng.choice([" with commas between them.", ", separated by commas.", " in one line with commas."]), ", ".join(items)
    return rng.choice([f"Write a JSON list of {count} {group}.", f"{lead} as a JSON array."]), json.dumps(items)


def _length(rng: random.Random) -> tuple[str, str]:
    noun = rng.choice(NOUNS)
    count = rng.randint(1, 4)
    kind = rng.randrange(4)
    if kind < 2:
        text = " ".join(_sentence(rng, noun) for _ in range(count))
        number = W.NUMBERS[count]
        return rng.choice([f"Write {number} {'sentence' if count == 1 else 'sentences'} about a {noun}.", f"Tell me about a {noun} in {number} {'sentence' if count == 1 else 'sentences'}.", f"Describe a {noun} in exactly {number} {'sentence' if count == 1 else 'sentences'}."]), text
    if kind == 2:
        table = rng.choice([("OPPOSITES", "the opposite of {}"), ("SYNONYMS", "another word for {}"), ("YOUNG", "the name of a young {}")])
        key, value = rng.choice([pair.split(": ") for pair in getattr(K, table[0]).split("; ")])
        return rng.choice([f"In one word: {table[1].format(key)}?", f"Answer with a single word. What is {table[1].format(key)}?", f"Only one word, please: {table[1].format(key)}."]), _start(value) + "." if rng.random() < 0.5 else _start(value)
    words = rng.choice([("Good morning", "greet someone"), ("Thank you", "thank someone"), ("Good night", "wish a good night"), ("See you", "say goodbye"), ("Well done", "praise someone"), ("Come in", "ask a guest in"), ("Happy birthday", "wish a happy birthday"), ("Hi there", "greet a friend")])
    return f"{_start(words[1])} in two words.", words[0] + rng.choice(["!", "."])


def _case(rng: random.Random) -> tuple[str, str]:
    noun, sentence = rng.choice(NOUNS), _sentence(rng)
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice([f"Write {noun} in capital letters.", f"Put the word {noun} in capitals.", f"Write the word {noun} with big letters."]), noun.upper()
    if kind == 1:
        return rng.choice([f"Write this in capital letters: {sentence}", f"Make every letter big: {sentence}"]), sentence.upper()
    if kind == 2:
        return rng.choice([f"Write this in small letters: {sentence}", f"Use only small letters: {sentence}"]), sentence.lower()
    if kind == 3:
        colour = rng.choice(K.COLOURS.strip().splitlines()).split(": ")
        thing = rng.choice(colour[1].split(", "))
        return rng.choice([f"Use capital letters: what color is {thing}?", f"Tell me in capital letters the color of {thing}."]), f"{colour[0].upper()}." if rng.random() < 0.5 else f"IT IS {colour[0].upper()}."
    if kind == 4:
        return rng.choice([f"Put {noun} in quotation marks.", f"Write {noun} in quotes."]), f'"{noun}"'
    return rng.choice(["Write something in small letters only.", "Give me a sentence without capital letters."]), sentence.lower()


def _placed(rng: random.Random) -> tuple[str, str]:
    noun = rng.choice(NOUNS)
    name, place, colour = rng.choice(W.NAMES), rng.choice(W.PLACES), rng.choice(W.COLOURS)
    kind = rng.randrange(8)
    if kind == 0:
        start = rng.choice(["Today", "Tomorrow", "Once", "Maybe", "Sometimes", "Now", "Every morning", "In summer", "Last week", "At night"])
        past = start in ("Once", "Last week")
        return rng.choice([f"Start a sentence with {start}.", f"Write a sentence that begins with {start}.", f"Make a sentence with {start} as its start."]), f"{start} {name} {'went' if past else 'goes'} to the {place}."
    if kind == 1:
        end = rng.choice(["tree", "house", "garden", "friend", "river", "school", "again", "together", "slowly", "fast"])
        middle = {"again": f"{name} saw the {noun} again.", "together": f"We play with the {noun} together.", "slowly": f"The {noun} moved slowly.", "fast": f"{name} runs fast."}
        return rng.choice([f"End a sentence with {end}.", f"Write a sentence whose last word is {end}.", f"Make a sentence that ends with the word {end}."]), middle.get(end, f"{name} goes to the {end}.")
    if kind == 2:
        other = rng.choice([each for each in NOUNS if each != noun])
        return rng.choice([f"Use {noun} and {other} in a sentence.", f"Write a sentence with the words {noun} and {other}.", f"Make one sentence with {noun} and {other}."]), rng.choice([f"The {noun} is next to the {other}.", f"{name} has a {noun} and a {other}.", f"I saw a {noun} and a {other}."])
    if kind == 3:
        start, answer = rng.choice(["Of course", "Well", "Yes", "Sure", "Gladly", "All right"]), f"the {noun} is {colour}."
        return rng.choice([f"Begin your answer with {start}. What color is the {noun}?", f"Start your answer with the word {start} and name a color."]), f"{start}, {answer}" if rng.random() < 0.6 else f"{start}, {colour}."
    if kind == 4:
        word, times = rng.choice(["hello", "jump", "yes", "go", "ho", "la", "tick", "row", "bye", noun]), rng.randint(2, 6)
        return rng.choice([f"Say {word} {W.NUMBERS[times]} times.", f"Write {word} {times} times.", f"Repeat {word} {W.NUMBERS[times]} times."]), " ".join([word] * times)
    if kind == 5:
        topic = rng.choice([("my holiday", "Where did you go on your holiday?"), ("my family", "How many people are in your family?"), ("my pet", "What is the name of your pet?"), ("my school", "Do you like your school?"), ("my food", "What is your favorite food?"), ("my weekend", "What did you do on the weekend?"), ("my job", "What do you do at work?")])
        return rng.choice([f"Ask me something about {topic[0]}.", f"Ask a question about {topic[0]}."]), topic[1]
    if kind == 6:
        end = rng.choice(["over", "thanks", "bye", "ready", "finished", "please"])
        return f"Put the word {end} at the end of your answer. Name a color.", f"{_start(colour)}, {end}"
    avoid, sentence = rng.choice([("cat", "My kitten sleeps in the sun."), ("sun", "It is bright and warm today."), ("water", "The river is deep and cold."), ("red", "The tomato is ripe."), ("happy", "I am glad and I laugh."), ("tree", "The oak has green leaves."), ("bird", "It sings and has wings."), ("snow", "White flakes fall from the sky.")])
    return rng.choice([f"Write a sentence about {'a ' if avoid in ('cat', 'tree', 'bird') else ''}{avoid} but do not use the word {avoid}.", f"Describe {avoid} without the word {avoid}."]), sentence


def _rewrite(rng: random.Random) -> tuple[str, str]:
    now, past, base = rng.choice(VERBS)
    name, place, noun, colour, time = rng.choice(W.NAMES), rng.choice(W.PLACES), rng.choice(NOUNS), rng.choice(W.COLOURS), rng.choice(["every day", "in the morning", "with a friend", "at the " + rng.choice(W.PLACES)])
    pronoun, his = ("She", "her") if name in W.GIRLS else ("He", "his")
    kind = rng.randrange(9)
    if kind == 0:
        return rng.choice([f"Put this in the past: I {base} {time}.", f"Write in the past tense: I {base} {time}."]), f"I {past} {time}."
    if kind == 1:
        return rng.choice([f"Write with she instead of I: I {base} {time}.", f"Change I to she: I {base} {time}."]), f"She {now} {time}."
    if kind == 2:
        return rng.choice([f"Change I to he: I have a {noun}.", f"Write with he instead of I: I have a {noun}."]), f"He has a {noun}."
    if kind == 3:
        return rng.choice([f"Make a question: You {base} {time}.", f"Turn into a question: You {base} {time}."]), f"Do you {base} {time}?"
    if kind == 4:
        order = rng.choice([f"open the {noun}", f"bring me the {noun}", "close the door", "be quiet", f"pass the {noun}", "come here", "help me", f"show me the {noun}", "wait for me"])
        return rng.choice([f"Say it politely: {_start(order)}!", f"Make this polite: {_start(order)}.", f"Write this in a friendly way: {_start(order)}!"]), rng.choice([f"Could you please {order}?", f"Please {order}.", f"Would you {order}, please?"])
    if kind == 5:
        size, mood = rng.choice([("small", "happy"), ("tall", "tired"), ("young", "friendly"), ("quiet", "kind")])
        return rng.choice([f"Make this shorter: The very {size} and very {mood} {noun} was standing next to the {colour} house.", f"Say it in fewer words: There was once a {size} and {mood} {noun} and it was near the {colour} house."]), f"The {size} {noun} was near the house."
    if kind == 6:
        return f"Write in the negative: {name} {now} {time}.", f"{name} does not {base} {time}."
    if kind == 7:
        mixed = [f"the {noun}", "is", colour]
        rng.shuffle(mixed)
        return f"Put in the right order: {' / '.join(mixed)}", f"The {noun} is {colour}."
    return f"Replace the name by {pronoun.lower()}: {name} {now} {time}.", f"{pronoun} {now} {time}."


def _summary(rng: random.Random) -> tuple[str, str]:
    name, friend = rng.sample(W.NAMES, 2)
    noun, place, colour, food = rng.choice(W.THINGS), rng.choice(W.PLACES), rng.choice(W.COLOURS), W.serving(rng.choice(list(W.FOODS)))
    text, short, title = rng.choice([
        (f"{name} lost a {colour} {noun} at the {place}. {friend} helped to look for it. In the evening they found it under a bench.", f"{name} lost a {noun}, and {friend} helped to find it.", f"The Lost {_start(noun)}"),
        (f"{name} wanted to make dinner. There was no {food} at home. So {name} went to the shop and came back with {food}.", f"{name} bought {food} for dinner.", "A Trip to the Shop"),
        (f"{name} was afraid of the {place}. One day {friend} came along. Together they went there and it was fun.", f"With {friend}, {name} was not afraid of the {place} any longer.", f"A Brave Day"),
        (f"It rained all day. {name} stayed at home and built a {noun} out of paper. Then {name} gave it to {friend}.", f"On a rainy day {name} built a {noun} for {friend}.", f"The Paper {_start(noun)}"),
        (f"{name} and {friend} ran a race to the {place}. {friend} fell down. {name} stopped to help, and nobody won.", f"{name} stopped a race to help {friend}.", "The Race"),
        (f"{name} planted a small tree near the {place}. Every week it got water. After three years it was tall.", f"{name} planted a tree, and it grew tall.", "The Small Tree"),
        (f"{name} got a {colour} {noun} as a present. It broke on the first day. {friend} repaired it with glue.", f"{friend} repaired the {noun} of {name}.", f"The Broken {_start(noun)}"),
    ])
    if rng.random() < 0.3:
        return rng.choice([f"Find a short title for this text: {text}", f"What is a good title? {text}"]), title
    return rng.choice([f"Sum this up in one sentence: {text}", f"Summarize: {text}", f"What happens here, in short? {text}", f"{text}\nWrite a summary of one sentence."]), short


def _poem(rng: random.Random) -> tuple[str, str]:
    first, second, third = rng.choice(RHYMES)
    name, colour, place = rng.choice(W.NAMES), rng.choice(W.COLOURS), rng.choice(W.PLACES)
    lines = rng.choice([
        [f"I look up and see the {first},", f"and think of {second if second not in ('are', 'again') else 'you'}."],
        [f"Here comes {name} and here is the {first},", f"{W.article(colour)} day for {second}."],
    ])
    extra = [f"Beside the {place} we wait for {third},", f"and sing about the {first}."]
    poem = lines + extra if rng.random() < 0.6 else lines
    return rng.choice([f"Write a poem about the {first}.", f"Write a short poem with the word {first}.", f"Can you write a little poem about the {first}?", f"Write a few lines about the {first} that sound like a poem."]), "\n".join(poem)


def _sorted(rng: random.Random) -> tuple[str, str]:
    kind = rng.randrange(3)
    if kind == 0:
        items = rng.sample(NOUNS, rng.randint(3, 4))
        return rng.choice([f"Put in alphabetical order: {', '.join(items)}", f"Sort these words from A to Z: {', '.join(items)}."]), ", ".join(sorted(items))
    start, length = rng.randint(2, 12), rng.randint(3, 6)
    if kind == 1:
        numbers = list(range(start + length, start, -1))
        return rng.choice([f"Count backwards from {numbers[0]} to {numbers[-1]}.", f"Count down: {numbers[0]} to {numbers[-1]}."]), " ".join(map(str, numbers))
    words = [W.NUMBERS[i] for i in range(start, start + length)]
    return f"Count from {words[0]} to {words[-1]} in words.", _start(", ".join(words)) + "."


def _note(rng: random.Random) -> tuple[str, str]:
    who, thing = rng.choice(["Grandpa", "Mom", "Dad", "Aunt Rosa", "Uncle Ben", rng.choice(W.NAMES)]), rng.choice(W.THINGS)
    name = rng.choice(W.NAMES)
    kind = rng.randrange(3)
    if kind == 0:
        return rng.choice([f"Write a note to thank {who} for the {thing}.", f"Thank {who} for the {thing} in a short letter."]), f"Dear {who},\nthank you for the {thing}. I like it very much.\n{name}"
    if kind == 1:
        return rng.choice([f"Write an invitation to {who}.", f"Invite {who} to my party."]), f"Dear {who},\nplease come to my party on {rng.choice(W.DAYS)}.\n{name}"
    return rng.choice([f"Write a note to say sorry to {who}.", f"Say sorry to {who} in a letter."]), f"Dear {who},\nI am sorry about the {thing}. I will repair it.\n{name}"


def _object(rng: random.Random) -> tuple[str, str]:
    values = {"name": rng.choice(W.NAMES), "age": rng.randint(3, 80), "city": rng.choice(list(W.CAPITALS.values())), "color": rng.choice(W.COLOURS), "price": rng.randint(1, 90), "count": rng.randint(1, 20), "day": rng.choice(W.DAYS), "animal": rng.choice(list(W.ANIMALS)), "open": rng.random() < 0.5, "title": rng.choice(["The Tree", "Red Sky", "Home"])}
    keys = rng.sample(list(values), rng.randint(1, 4))
    listed = keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + " and " + keys[-1]
    noun = "key" if len(keys) == 1 else "keys"
    return rng.choice([f"Write JSON with the {noun} {listed}.", f"Make a JSON object with {listed}.", f"Give me an example of a JSON object with the {noun} {listed}."]), json.dumps({key: values[key] for key in keys})


def _reasons(rng: random.Random) -> tuple[str, str]:
    what, reasons = rng.choice([("read books", ["You learn new words.", "Stories are exciting.", "It is calm."]), ("drink water", ["It keeps you healthy.", "It is cheap.", "Your body needs it."]), ("have a pet", ["You have a friend.", "You learn to care.", "It makes you laugh."]), ("learn to cook", ["You can eat well.", "It is cheaper.", "You can invite friends."]), ("ride a bike", ["It keeps you fit.", "It is fast.", "It does not make dirt."]), ("go to bed early", ["You are not tired.", "You learn better.", "You feel good."])])
    count = rng.randint(2, 3)
    chosen = rng.sample(reasons, count)
    return rng.choice([f"Give {W.NUMBERS[count]} reasons to {what}. Use numbers.", f"Name {W.NUMBERS[count]} numbered reasons to {what}."]), "\n".join(f"{i + 1}. {reason}" for i, reason in enumerate(chosen))


KINDS = [_list, _list, _length, _length, _case, _placed, _placed, _rewrite, _rewrite, _summary, _poem, _sorted, _note, _object, _reasons]


def writing(rng: random.Random) -> Exchange:
    question, answer = rng.choice(KINDS)(rng)
    return Exchange(f"writing:{question}:{answer}", question, answer)


def writing_document(rng: random.Random) -> str:
    turns = [(e.user, e.assistant) for e in (writing(rng) for _ in range(rng.choice([1, 1, 2, 3])))]
    return render.chat(turns, rng.choice(render.SYSTEMS) if rng.random() < 0.15 else None)
