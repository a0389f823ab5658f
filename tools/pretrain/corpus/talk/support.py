"""Customer support: an invented shop with rules of its own in the system message or in earlier turns, and customers who ask.
The model learns to answer from what it was given, to apologise, to ask for what is missing, and to say that it does not know."""

import random

from .. import render
from .. import words as W

PRODUCTS = "kettle, toaster, chair, desk, jacket, sweater, backpack, tent, clock, radio, camera, blanket, bottle, pan, speaker, vase, mirror, rug, helmet, scooter, printer, keyboard, suitcase, umbrella, guitar, puzzle, doll, ball, watch, mug".split(", ")
SHOPS = "Maple & Co, Little Fox, Bluebell, Oakline, Sunny Home, North Star, Tin Drum, Paper Boat, Green Door, Corner Shop, Casa Verde, Kite".split(", ")
STREETS = "Mill Street, Park Road, Hill Lane, Station Road, Garden Street, Church Street, River Walk".split(", ")
WAYS = "credit card, invoice, bank transfer, cash, voucher, mobile payment".split(", ")
HOURS = "eight, nine, ten, five, six, seven".split(", ")


def _rules(rng: random.Random) -> dict[str, tuple[str, list[str], list[str]]]:
    """topic: (a sentence of the shop's rules, questions, answers)"""
    days, delivery, years = rng.choice([7, 14, 20, 21, 30, 45, 60, 90, 100]), rng.randint(1, 9), rng.randint(1, 5)
    price, free = rng.randint(2, 9), rng.choice([20, 25, 30, 40, 60, 75, 80, 100])
    opens, closes = rng.choice(HOURS[:3]), rng.choice(HOURS[3:])
    first, last = rng.choice([("Monday", "Friday"), ("Monday", "Saturday"), ("Tuesday", "Saturday"), ("Tuesday", "Sunday")])
    way, other = rng.sample(WAYS, 2)
    phone = f"{rng.randint(100, 999)} {rng.randint(100, 999)}"
    street, town = f"{rng.choice(STREETS)} {rng.randint(1, 80)}", rng.choice(list(W.CAPITALS.values()))
    off, code = rng.choice([5, 10, 15, 20]), rng.choice(["HELLO", "SPRING", "TEAM", "WELCOME", "SUN", "NEW"]) + str(rng.randint(1, 30))
    material = rng.choice(["wood", "cotton", "steel", "glass", "wool", "bamboo"])
    return {
        "returns": (f"You can return goods within {days} days.", ["How long can I return it?", "Until when can I send it back?", "I want to return my order. How many days do I have?", "What if I do not like it?", "Can I give it back?"], [f"You can return it within {days} days.", f"You have {days} days to send it back."]),
        "delivery": (f"Delivery takes {delivery} {'day' if delivery == 1 else 'days'}.", ["How long does delivery take?", "When will it arrive?", "How many days until I get my parcel?", "Is the delivery fast?"], [f"Delivery takes {delivery} {'day' if delivery == 1 else 'days'}.", f"It arrives within {delivery} {'day' if delivery == 1 else 'days'}."]),
        "shipping": (f"Shipping costs {price} euros and is free above {free} euros.", ["How much is shipping?", "What do I pay for the delivery?", "Is shipping free?", "What are the postage costs?"], [f"Shipping costs {price} euros. It is free above {free} euros."]),
        "hours": (f"We are open from {first} to {last}, {opens} to {closes}.", ["When are you open?", "What are your opening hours?", "On which days can I come?", "When can I visit the shop?"], [f"We are open from {first} to {last}, from {opens} to {closes}."]),
        "guarantee": (f"The guarantee is {years} {'year' if years == 1 else 'years'}.", ["How many years is the guarantee?", "Is there a guarantee?", "What if it breaks after some months?", "For how long is it covered?"], [f"The guarantee is {years} {'year' if years == 1 else 'years'}.", f"You have a guarantee of {years} {'year' if years == 1 else 'years'}."]),
        "payment": (f"You can pay by {way} or {other}.", ["How can I pay?", "Which payments do you take?", "What ways of payment are there?"], [f"You can pay by {way} or {other}."]),
        "phone": (f"Our phone number is {phone}.", ["What is your phone number?", "Can I call you?", "How do I reach you by phone?", "I would like to talk to a person."], [f"Please call us at {phone}.", f"Our number is {phone}."]),
        "address": (f"Our shop is in {town}, {street}.", ["Where is your shop?", "What is your address?", "Where can I find you?"], [f"Our shop is in {town}, {street}."]),
        "discount": (f"New customers get {off} percent off with the code {code}.", ["Is there a discount?", "Do you have a code for new customers?", "Can I get it cheaper?"], [f"Yes, use the code {code} and get {off} percent off."]),
        "material": (f"Our goods are made of {material}.", ["What are your things made of?", "Which material do you use?"], [f"They are made of {material}."]),
    }


TROUBLES = [
    (["My {p} arrived broken.", "There is a crack in my {p}.", "The {p} that I got is damaged."], ["I am sorry about that. Please send us a photo and we will send you a new {p}.", "I am sorry. We will replace the {p}."]),
    (["I got the wrong {p}.", "I ordered a {c} {p}, but this one is another color."], ["I am sorry for the mistake. We will send you the right {p}.", "I am sorry. Please send it back and we will send the right one."]),
    (["My {p} has not arrived.", "Where is my {p}?", "I am still waiting for my {p}."], ["I am sorry for the delay. Please tell me your order number.", "Please give me the order number and I will check."]),
    (["The {p} does not work.", "My {p} stopped working.", "My new {p} is broken."], ["I am sorry to hear that. Please check the plug first. If it does not help, we will repair it.", "I am sorry. Send it to us and we will repair the {p}."]),
    (["How do I clean the {p}?", "What can I use to clean my {p}?"], ["Use a soft cloth and a little water.", "Wipe the {p} with a dry cloth."]),
    (["I want to cancel my order for the {p}.", "Please cancel the {p}."], ["No problem. Please tell me the order number and I will cancel it."]),
    (["A part of the {p} is missing.", "One screw of the {p} is missing."], ["I am sorry. We will send you the missing part today."]),
    (["I forgot my password.", "I cannot log in."], ["Click on Forgot password and we will send you a link by email."]),
    (["Do you have the {p} in {c}?", "Is the {p} also available in {c}?"], ["Yes, the {p} is available in {c}.", "I am sorry, the {p} is not available in {c}."]),
    (["I am very happy with the {p}. Thank you!", "The {p} is great, thanks!"], ["Thank you for your kind words! Enjoy your {p}.", "We are glad that you like it!"]),
]


def conversation(rng: random.Random) -> render.Turns:
    """A customer with trouble; the shop answers, sometimes with a second turn."""
    p, c = rng.choice(PRODUCTS), rng.choice(W.COLOURS)
    asked, replies = rng.choice(TROUBLES)
    turns = [(rng.choice(asked).format(p=p, c=c), rng.choice(replies).format(p=p, c=c))]
    if "number" in turns[0][1]:
        number = rng.randint(1000, 9999)
        done = rng.choice(["I found it. It was sent yesterday.", "It will arrive on {d}.", "Thank you. I will take care of it."]) if "cancel" not in turns[0][1] else "Thank you. The order {n} is cancelled."
        turns.append((rng.choice([f"It is {number}.", f"The number is {number}.", f"{number}"]), done.format(n=number, d=rng.choice(W.DAYS))))
    if rng.random() < 0.3:
        turns.append((rng.choice(["Thank you.", "Thanks for your help!", "Great, thanks."]), rng.choice(["You are welcome! Have a nice day.", "You are welcome.", "Happy to help!"])))
    return turns


def support_document(rng: random.Random) -> str:
    """Half of them answer from the shop's rules, which the system message lists; one question in eight is not covered."""
    if rng.random() < 0.4:
        return render.chat(conversation(rng), f"You help the customers of {rng.choice(SHOPS)}." if rng.random() < 0.4 else None)
    rules = _rules(rng)
    known = rng.sample(list(rules), rng.randint(2, 5))
    shop = rng.choice(SHOPS)
    listed = " ".join(rules[topic][0] for topic in known)
    turns = []
    for topic in rng.sample(known, min(len(known), rng.randint(1, 3))):
        _, questions, answers = rules[topic]
        turns.append((rng.choice(questions), rng.choice(answers)))
    if rng.random() < 0.25:
        topic = rng.choice([topic for topic in rules if topic not in known])
        turns.append((rng.choice(rules[topic][1]), rng.choice(["I am sorry, I do not know that. Please write to us by email.", "I do not have this information. A colleague will help you."])))
    if rng.random() < 0.3:
        turns += conversation(rng)[:1]
    rng.shuffle(turns)
    if rng.random() < 0.3:
        turns.insert(0, (rng.choice(["Hello!", "Hi.", "Good morning."]), f"Hello! Welcome to {shop}. How can I help you?"))
    return render.chat(turns, f"You answer customers of {shop}. {listed}")
