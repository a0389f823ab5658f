"""Short prose from grammars: fables, letters, diaries, recipes, reports, descriptions, riddles and rules, and the opening
sentences handed to the story teacher. Each piece has a title-like request, so that it can also be a chat answer."""

import random

from . import words as W


def _who(rng: random.Random) -> tuple[str, str, str]:
    """(name, pronoun, possessive)"""
    return (rng.choice(W.GIRLS), "she", "her") if rng.random() < 0.5 else (rng.choice(W.BOYS), "he", "his")


def fable(rng: random.Random) -> tuple[str, str]:
    one, two = rng.sample(list(W.ANIMALS), 2)
    place, food, size = rng.choice(W.PLACES), W.ANIMALS[one][2], rng.choice(W.SIZES)
    start = rng.choice([f"{W.article(size).capitalize()} {one} and {W.article(two)} lived near the {place}.", f"Long ago, {W.article(one)} met {W.article(two)} at the {place}.", f"Every morning {W.article(one)} walked past the {place}, where {W.article(two)} lived."])
    problem, turn, lesson = rng.choice([
        (f"The {one} had found some {food}, but would not share it.", f"When winter came, the {one} had nothing left. The {two} opened the door and said, \"Come in and eat with me.\" The {one} felt ashamed and thanked the {two}.", "Those who share are never poor."),
        (f"The {one} laughed at the {two} for being so slow.", f"One day a storm came, and the {one} ran into the wrong valley. The {two} walked slowly, found the right path, and led the {one} home.", "Slow and careful is better than fast and lost."),
        (f"The {one} said, \"I am the strongest of all.\"", f"Then the {one} got caught in a net. The {two} bit through the ropes one by one until the {one} was free.", "Even the strong need friends."),
        (f"The {one} told the {two} a lie to get the best place in the sun.", f"Later the {one} really needed help, but nobody believed a word. Only when the {one} said sorry did the {two} come.", "Tell the truth, and you will be believed."),
        (f"The {one} wanted to do everything alone and never asked for help.", f"But the stone in front of the door was too heavy. The {one} pushed and pushed. At last the {one} called the {two}, and together they moved it.", "Many hands make light work."),
        (f"The {one} was afraid of the dark and stayed inside.", f"The {two} brought a small lamp and said, \"Look, the dark is only the day with its eyes closed.\" They walked together until the {one} was not afraid.", "A friend makes the dark smaller."),
    ])
    return f"Write a fable about {W.article(one)} and {W.article(two)}.", f"{start} {problem} {turn} {rng.choice(['The lesson is:', 'This story teaches us:', 'Remember:'])} {lesson}"


def letter(rng: random.Random) -> tuple[str, str]:
    sender, receiver = rng.sample(W.NAMES, 2)
    place, thing, food, weather, feeling = rng.choice(W.PLACES), rng.choice(W.THINGS), rng.choice(W.MEALS), rng.choice(W.WEATHER), rng.choice(W.FEELINGS)
    body = rng.sample([
        f"I am writing to you from the {place}.", f"The weather here is {weather}.", f"Yesterday I found an old {thing} and thought of you.", f"We ate {food} for dinner, and we enjoyed it very much.",
        f"I felt {feeling} when I read your last letter.", f"Please bring your {rng.choice(W.THINGS)} when you come.", f"My {rng.choice(list(W.ANIMALS))} is well and says hello.", f"On {rng.choice(W.DAYS)} we will go to the {rng.choice(W.PLACES)}."], rng.randint(3, 5))
    return f"Write a letter from {sender} to {receiver}.", f"Dear {receiver},\n{' '.join(body)}\n{rng.choice(['Your friend', 'With love', 'Best wishes', 'See you soon'])},\n{sender}"


def diary(rng: random.Random) -> tuple[str, str]:
    day, weather, place, animal, feeling = rng.choice(W.DAYS), rng.choice(W.WEATHER), rng.choice(W.PLACES), rng.choice(list(W.ANIMALS)), rng.choice(W.FEELINGS)
    friend, thing, food = rng.choice(W.NAMES), rng.choice(W.THINGS), rng.choice(W.MEALS)
    events = rng.sample([f"I went to the {place}.", f"I saw {W.article(animal)}, and it {W.ANIMALS[animal][0].rstrip('s')}ed at me." if animal in ("dog", "owl", "duck", "crow") else f"I saw {W.article(animal)} for the first time.",
                         f"{friend} came to visit, and we played with a {thing}.", f"I helped to cook {food}.", f"I lost my {thing}, but {friend} found it.", "I read a long book.", f"I learned a new song at the {place}."], 3)
    return f"Write a diary page for a {weather} {day}.", f"{day}. It was {weather} today. {' '.join(events)} In the evening I felt {feeling}. {rng.choice(['Tomorrow will be a new day.', 'Now I am going to sleep.', 'I hope tomorrow is like this.', 'I will write more tomorrow.'])}"


def recipe(rng: random.Random) -> tuple[str, str]:
    dish, items, steps = rng.choice([
        ("fruit salad", ["an apple", "a banana", "some grapes", "a little honey"], ["Wash the fruit.", "Cut it into small pieces.", "Put it in a bowl.", "Add the honey and stir."]),
        ("tea", ["water", "tea leaves", "a cup"], ["Boil the water.", "Put the tea in the cup.", "Pour the hot water over it.", "Wait three minutes."]),
        ("a cheese sandwich", ["two slices of bread", "some butter", "a slice of cheese"], ["Spread the butter on the bread.", "Put the cheese on one slice.", "Cover it with the other slice.", "Cut it in half."]),
        ("vegetable soup", ["two carrots", "a potato", "an onion", "water", "a little salt"], ["Wash and cut the vegetables.", "Put them in a pot with the water.", "Cook them until they are soft.", "Add the salt."]),
        ("pancakes", ["two eggs", "a cup of milk", "a cup of flour"], ["Mix the eggs and the milk.", "Stir in the flour.", "Pour a little into a hot pan.", "Turn it when it is brown."]),
        ("lemonade", ["two lemons", "sugar", "cold water"], ["Cut the lemons in half.", "Press out the juice.", "Add sugar and water.", "Stir well."]),
        ("a boiled egg", ["an egg", "water"], ["Put the egg in the pot.", "Cover it with water.", "Boil it for eight minutes.", "Cool it and take off the shell."]),
        ("a paper boat", ["a sheet of paper"], ["Fold the paper in half.", "Fold the two corners to the middle.", "Fold up the edges.", "Pull the sides apart."]),
        ("a bird house", ["wood", "nails", "a hammer", "a saw"], ["Saw the wood into six pieces.", "Cut a round hole in one piece.", "Nail the pieces together.", "Hang it in a tree."]),
        ("a small garden", ["seeds", "soil", "water", "a shovel"], ["Dig the soil.", "Put the seeds in a row.", "Cover them.", "Water them every day."]),
    ])
    form = rng.randrange(3)
    name = rng.choice(W.NAMES)
    if form == 0:
        text = f"You need {', '.join(items[:-1])}{' and ' if len(items) > 1 else ''}{items[-1]}. " + " ".join(steps)
    elif form == 1:
        text = f"How {name} makes {dish}:\n" + "\n".join(f"{i + 1}. {step}" for i, step in enumerate(steps))
    else:
        text = f"First, {steps[0][0].lower()}{steps[0][1:]} Then {steps[1][0].lower()}{steps[1][1:]} After that, {steps[2][0].lower()}{steps[2][1:]} Last, {steps[3][0].lower()}{steps[3][1:]} {name} likes it best with friends."
    return rng.choice([f"How do you make {dish}?", f"Tell {name} how to make {dish}.", f"I want to make {dish}. What should I do?"]), text


def report(rng: random.Random) -> tuple[str, str]:
    place, today, tomorrow, number = rng.choice(list(W.CAPITALS.values())), *rng.sample(W.WEATHER, 2), rng.randint(-5, 35)
    name, thing, animal, where = rng.choice(W.NAMES), rng.choice(W.THINGS), rng.choice(list(W.ANIMALS)), rng.choice(W.PLACES)
    if rng.random() < 0.5:
        return f"What is the weather like in {place}?", f"Today it is {today} in {place}, with {number} degrees. Tomorrow it will be {tomorrow}. {rng.choice(['Take a coat with you.', 'It is a good day for a walk.', 'Stay inside if you can.', 'The evening will be quiet.'])}"
    return f"Write a news report about {W.article(animal)} in {place}.", f"News from {place}: {W.article(animal)} was seen at the {where} this {rng.choice(['morning', 'evening', 'week'])}. It carried a {thing}. \"I could not believe my eyes,\" said {name}. The {animal} is now {rng.choice(['safe at home', 'back in the forest', 'asleep', 'very famous'])}."


def portrait(rng: random.Random) -> tuple[str, str]:
    name, she, her = _who(rng)
    job = rng.choice(list(W.JOBS))
    does, place, tool = W.JOBS[job]
    traits = rng.sample(["kind", "quiet", "funny", "patient", "clever", "careful", "cheerful", "strong"], 2)
    return f"Who is {name} the {job}?", f"{name} is a {job}. {she.capitalize()} {does} and works in {place}. {name} is {traits[0]} and {traits[1]}. On {rng.choice(W.DAYS)} {she} likes to go to the {rng.choice(W.PLACES)} with {her} {rng.choice(list(W.ANIMALS))}. {her.capitalize()} favorite color is {rng.choice(W.COLOURS)}, and {she} never leaves home without {tool}."


def riddle(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.5:
        animal = rng.choice(list(W.ANIMALS))
        sound, home, food, legs, covering = W.ANIMALS[animal]
        clues = rng.sample([f"I live in {home}", f"I eat {food}", f"I have {W.NUMBERS[legs] if legs else 'no'} legs", f"I am covered with {covering}"], 3)
        return ". ".join(clues) + ". What am I?", f"You are {W.article(animal)}."
    tool, use = rng.choice(list(W.TOOLS.items()))
    return f"You use me to {use}. My name starts with {tool[0].upper()}. What am I?", f"You are {W.article(tool) if tool not in ('scissors', 'soap') else tool}."


def rules(rng: random.Random) -> tuple[str, str]:
    place = rng.choice(W.PLACES)
    chosen = rng.sample(["Be kind to everyone.", "Do not run.", "Speak softly.", "Wash your hands.", "Wait for your turn.", "Help your friends.", "Keep it clean.", "Do not feed the animals.", "Ask before you take something.", "Be home before dark.", "Say please and thank you.", "Put things back."], rng.randint(3, 5))
    return f"What are the rules at the {place}?", f"Rules for the {place}:\n" + "\n".join(f"{i + 1}. {rule}" for i, rule in enumerate(chosen))


KINDS = [fable, letter, diary, recipe, report, portrait, riddle, rules]


def piece(rng: random.Random) -> tuple[str, str]:
    """(request, text) of a random kind."""
    return rng.choice(KINDS)(rng)


def opening(rng: random.Random) -> str:
    """A first sentence for the story teacher: other people, animals, places and moods than it would choose alone, but of
    the kind that it can carry on. An opening it cannot would give a story that no student should learn from."""
    girl = rng.random() < 0.5
    name, she, her = (rng.choice(W.STORY_GIRLS), "she", "her") if girl else (rng.choice(W.STORY_BOYS), "he", "his")
    friend = rng.choice([n for n in W.STORY_GIRLS + W.STORY_BOYS if n != name])
    animal, thing, place = rng.choice(W.STORY_ANIMALS), rng.choice(W.STORY_THINGS), rng.choice(W.STORY_PLACES)
    colour, size, weather = rng.choice(["red", "blue", "green", "yellow", "pink"]), rng.choice(["big", "small", "little"]), rng.choice(["sunny", "rainy", "windy", "cold", "warm"])
    feeling = rng.choice(["happy", "sad", "excited", "scared", "angry", "lonely", "bored", "tired", "proud", "curious"])
    family = rng.choice(["mom", "dad", "grandma", "grandpa", "brother", "sister"])
    return rng.choice([
        f"Once upon a time, there was a {size} {animal} named {name}.", f"Once upon a time, there was a {size} {animal} who lived near the {place}.", f"Once upon a time, a {animal} and a {rng.choice([a for a in W.STORY_ANIMALS if a != animal])} were best friends.",
        f"{name} and {friend} were best friends.", f"{name} and {friend} were playing in the {place}.", f"One {weather} day, {name} went to the {place} with {her} {family}.", f"{name} had a {colour} {thing} that {she} loved very much.",
        f"One day, {name} found a {colour} {thing} in the {place}.", f"{name} wanted a {colour} {thing}.", f"{name} was {feeling} because {she} could not find {her} {thing}.", f"It was a {weather} day and {name} was {feeling}.", f"{name} loved to go to the {place}.",
        f"Deep in the forest, there lived a {size} {animal}.", f"A {size} {animal} was walking in the {place} when it saw a {colour} {thing}.", f"The {size} {animal} was {feeling}.", f"{name} and {her} {family} made a cake together.", f"One night, {name} heard a strange noise.",
        f"{name} had a pet {animal}.", f"There was a {size} {animal} who wanted to find a friend.", f"{name} saw a {size} {animal} in the {place}.", f"\"Can we go to the {place}?\" {name} asked {her} {family}.", f"{name} got a {colour} {thing} for {her} birthday.",
        f"{name} lost {her} {colour} {thing} at the {place}.", f"{name} and {friend} wanted to build a {rng.choice(['tower', 'house', 'boat', 'castle'])}.", f"An old {rng.choice(['man', 'woman'])} lived in a small house near the {place}.", f"{name} did not want to share {her} {thing}.",
    ]).replace("a old", "an old").replace("a owl", "an owl").replace("a elephant", "an elephant")
