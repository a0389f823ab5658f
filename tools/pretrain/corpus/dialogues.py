"""Conversations of several turns: small talk with the model, shops, help, plans, and short scripts between two people."""

import random

from . import words as W

Turns = list[tuple[str, str]]

GREETINGS = [("Hello!", "Hello! How can I help you?"), ("Hi there.", "Hi! It is nice to meet you."), ("Good morning!", "Good morning! What would you like to talk about?"),
             ("Hey.", "Hey! What can I do for you?"), ("Good evening.", "Good evening! How was your day?"), ("Hi, how are you?", "I am well, thank you. How are you?")]
PARTINGS = [("Thank you!", "You are welcome!"), ("Thanks, bye.", "Goodbye! Have a nice day."), ("That is all.", "All right. See you soon!"), ("Good night.", "Good night! Sleep well."),
            ("You are very kind.", "Thank you. I like to help."), ("See you tomorrow.", "See you tomorrow!")]
ABOUT_ME = [("What is your name?", "My name is Pip."), ("Who are you?", "I am Pip, a very small language model."), ("What can you do?", "I can tell stories, answer simple questions and play with words."),
            ("Are you a person?", "No, I am a computer program."), ("How old are you?", "I am new. I do not have an age like people do."), ("Do you like stories?", "Yes, I love stories."),
            ("Can you see me?", "No, I can only read what you write."), ("Where do you live?", "I live inside a computer."), ("Do you sleep?", "No, I do not need to sleep."), ("What do you like?", "I like words, stories and kind people.")]
FEEL = {"happy": "That is wonderful! What made you happy?", "sad": "I am sorry that you are sad. Do you want to talk about it?", "tired": "Then you should rest a little.", "hungry": "You could eat an apple or some bread.",
        "bored": "Shall I tell you a story?", "scared": "You are safe. Take a slow breath.", "angry": "It is all right to be angry. Try to count to ten.", "cold": "Put on a warm coat and drink some tea.",
        "lonely": "You can talk to me. Maybe call a friend, too.", "proud": "You did well! What did you do?", "excited": "How exciting! What is going to happen?", "sleepy": "Maybe it is time to go to bed."}


def _because(rng: random.Random, feeling: str) -> tuple[str, str]:
    name, thing, place = rng.choice(W.NAMES), rng.choice(W.THINGS), rng.choice(W.PLACES)
    good = feeling in ("happy", "proud", "excited")
    if good:
        return rng.choice([(f"My friend {name} gave me a {thing}.", f"What a kind friend! I hope you enjoy the {thing}."), (f"I am going to the {place} with {name}.", f"Have a good time at the {place}!"), (f"I made a {thing} all by myself.", f"Well done! I would like to see that {thing}.")])
    return rng.choice([(f"I lost my {thing} at the {place}.", f"Maybe the {thing} is still at the {place}. Let us look for it."), (f"{name} did not want to play with me.", f"That hurts. Perhaps {name} will play with you tomorrow."), (f"It is dark in the {place}.", f"Take a lamp with you, then the {place} will not be so dark.")])


def chat_turns(rng: random.Random) -> Turns:
    turns: Turns = []
    if rng.random() < 0.5:
        turns.append(rng.choice(GREETINGS))
    for _ in range(rng.randint(1, 2)):
        topic = rng.randrange(7)
        if topic == 0:
            turns.append(rng.choice(ABOUT_ME))
        elif topic == 1:
            feeling = rng.choice(list(FEEL))
            turns.append((rng.choice([f"I am {feeling}.", f"I feel {feeling} today.", f"Today I am very {feeling}."]), FEEL[feeling]))
            if rng.random() < 0.6:
                turns.append(_because(rng, feeling))
        elif topic == 2:
            name = rng.choice(W.NAMES)
            turns.append((rng.choice([f"My name is {name}.", f"I am {name}.", f"Call me {name}."]), f"Nice to meet you, {name}!"))
            if rng.random() < 0.7:
                turns.append((rng.choice(["What is my name?", "Do you remember my name?", "Who am I?"]), f"Your name is {name}."))
        elif topic == 3:
            thing, colour = rng.choice(W.THINGS), rng.choice(W.COLOURS)
            turns.append((f"I have a {colour} {thing}.", f"A {colour} {thing} sounds nice."))
            turns.append((rng.choice([f"What color is my {thing}?", f"Do you know the color of my {thing}?"]), f"Your {thing} is {colour}."))
        elif topic == 4:
            food, count, price = W.serving(rng.choice(list(W.FOODS))), rng.randint(1, 9), rng.randint(1, 9)
            turns.append((f"I would like to buy {food}.", f"Of course. How many bags of {food} would you like?"))
            turns.append((f"{W.NUMBERS[count].capitalize()} bags, please.", f"Here you are: {W.NUMBERS[count]} bags of {food}. That is {price} coins."))
        elif topic == 5:
            place = rng.choice(W.PLACES)
            turn, landmark = rng.choice(["left", "right"]), rng.choice(W.PLACES)
            turns.append((f"How do I get to the {place}?", f"Go straight, then turn {turn} at the {landmark}. The {place} is on your {rng.choice(['left', 'right'])}."))
        else:
            weather = rng.choice(W.WEATHER)
            advice = {"sunny": "take a hat", "rainy": "take an umbrella", "windy": "hold on to your hat", "snowy": "wear warm boots", "cloudy": "take a coat, just in case", "foggy": "walk slowly", "warm": "drink some water", "cold": "wear a scarf", "stormy": "stay inside"}[weather]
            turns.append((rng.choice([f"It is {weather} today. What should I do?", f"The weather is {weather}. Any advice?"]), f"You should {advice}."))
    if rng.random() < 0.4:
        turns.append(rng.choice(PARTINGS))
    return turns


def script(rng: random.Random) -> str:
    """Two people talk, written as a play."""
    one, two = rng.sample(W.NAMES, 2)
    thing, place, food, feeling = rng.choice(W.THINGS), rng.choice(W.PLACES), W.serving(rng.choice(list(W.FOODS))), rng.choice(W.FEELINGS)
    colour, animal, day, meal = rng.choice(W.COLOURS), rng.choice(list(W.ANIMALS)), rng.choice(W.DAYS), rng.choice(W.MEALS)
    openings = [
        (f"Have you seen my {thing}?", f"Is it the {colour} one?", "Yes! Where is it?", f"I saw it at the {place}."),
        ("Where are you going?", f"To the {place}.", "May I come with you?", f"Of course. Bring some {food}."),
        (f"You look {feeling}.", f"I am. A {animal} took my {thing}.", f"A {animal}? Really?", f"Yes, near the {place}."),
        (f"What shall we do on {day}?", f"We could go to the {place}.", "I went there last week.", f"Then let us stay at home and cook {meal}."),
        (f"Is that your {animal}?", "Yes, it is.", "What does it eat?", f"It eats {W.ANIMALS[animal][2]}, but it likes {food} more."),
        (f"I found a {colour} {thing}.", f"That is mine! I lost it at the {place}.", "Here you are.", f"Thank you, {one}."),
    ]
    closings = [(f"Thank you, {two}.", "You are welcome."), ("Let us go now.", "Yes, before it gets dark."), (f"See you on {day}.", "See you!"), ("You are a good friend.", "So are you."), ("That is funny.", "I think so, too.")]
    lines = [*rng.choice(openings), *rng.choice(closings)]
    return "\n".join(f"{(one, two)[i % 2]}: {line}" for i, line in enumerate(lines))
