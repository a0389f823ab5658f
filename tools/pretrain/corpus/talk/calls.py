"""Tool calls in the model's own template: one to three tools out of families with many names and fields, requests with and
without every form of politeness, results read back, follow-up calls, refusals when no tool fits, small talk beside tools.

Names, descriptions and fields vary per document, so that the model must copy them from the prompt."""

import json
import random
from dataclasses import dataclass, field

from .. import dialogues, tool_chat
from .. import words as W
from . import schemas

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
SONGS = "Morning Light, River Song, Red Balloon, Moon Dance, Old Friend, Summer Rain, Silver Star, Happy Feet, Blue Train, Golden Days, Sweet Home, Little Bird, Dancing Queen, Night Train, Green Hills".split(", ")
DISHES = "soup, pizza, pasta, apple cake, rice pudding, fish stew, fried rice, bean salad, cheese toast, lemon cake, pumpkin soup, omelet, dumplings, waffles, potato salad".split(", ")
LANGUAGES = "French, German, Spanish, Italian, Polish, Dutch, Greek, Swedish, Turkish, Danish".split(", ")
PEOPLE = W.NAMES
ROOMS = "living room, kitchen, bathroom, hall, office, cellar, attic, garage, bedroom, garden".split(", ")
EVENTS = "tennis lesson, team meeting, birthday party, choir practice, school play, doctor visit, math exam, dance class, family dinner, art club".split(", ")
MESSAGES = "I will be home soon, the meeting is at three, please buy milk, happy birthday, the train is late, see you tomorrow, I found your keys, lunch is ready, call me back, we won the game, I cannot come today, the parcel is here".split(", ")
AUTHORS = "Jane Austen, Charles Dickens, Leo Hill, Anna Brook, Karl May, Selma Stone, Victor Hugo, Emily King".split(", ")
SPOTS = "the station, the airport, the market, the river, the castle, the hospital, the old town, the stadium, the church, the library".split(", ")
MEANINGS = {"anchor": "a heavy thing that holds a ship", "barn": "a building for animals and hay", "tide": "the rise and fall of the sea", "quilt": "a warm cover for a bed", "orchard": "a field of fruit trees", "pebble": "a small round stone", "ladle": "a big spoon for soup", "meadow": "a field of grass"}
FOREIGN = {"dog": "hund", "cat": "chat", "sun": "sol", "tree": "arbre", "book": "libro", "milk": "leche", "door": "porta", "fish": "pesce", "moon": "luna", "friend": "amigo"}


@dataclass(frozen=True)
class Use:
    """One tool and one request for it."""

    name: str
    description: str
    properties: dict
    ask: str
    arguments: dict
    result: dict = field(default_factory=dict)
    answer: str = ""


def _pick(rng: random.Random, *forms: str) -> str:
    return rng.choice(forms)


def weather(rng: random.Random) -> Use:
    city, sky, degrees = rng.choice(schemas.CITIES), rng.choice(W.WEATHER), rng.randint(-8, 38)
    key = _pick(rng, "city", "city", "place", "location", "town")
    ask = _pick(rng, f"What is the weather in {city}?", f"Is it cold in {city}?", f"How is the weather in {city} today?", f"Will it rain in {city}?", f"Should I take a coat to {city}?", f"Check the weather in {city}.", f"Weather in {city}, please.", f"Is the sun shining in {city}?")
    return Use(_pick(rng, "get_weather", "weather", "weather_today", "check_weather", "forecast"), _pick(rng, "Weather of a city", "The weather now", "Get the weather", "Weather today"), {key: STRING}, ask, {key: city},
               {_pick(rng, "temperature", "degrees"): degrees, _pick(rng, "sky", "weather"): sky}, _pick(rng, f"It is {degrees} degrees and {sky} in {city}.", f"In {city} it is {sky}, with {degrees} degrees."))


def clock(rng: random.Random) -> Use:
    city, time = rng.choice(schemas.CITIES), schemas._time(rng)
    key = _pick(rng, "city", "place", "zone")
    return Use(_pick(rng, "get_time", "local_time", "clock", "time_in"), _pick(rng, "Time in a city", "The local time", "What time it is"), {key: STRING},
               _pick(rng, f"What time is it in {city}?", f"How late is it in {city}?", f"Tell me the time in {city}.", f"What is the local time in {city}?"), {key: city}, {"time": time}, _pick(rng, f"It is {time} in {city}.", f"The time in {city} is {time}."))


def timer(rng: random.Random) -> Use:
    minutes, what = rng.randint(1, 120), rng.choice(["eggs", "tea", "pizza", "break", "cake", "game"])
    key = _pick(rng, "minutes", "minutes", "duration", "length")
    return Use(_pick(rng, "set_timer", "start_timer", "timer", "countdown"), _pick(rng, "Start a timer", "Count down minutes", "Set a timer"), {key: INTEGER},
               _pick(rng, f"Set a timer for {minutes} minutes.", f"Start a timer of {minutes} minutes.", f"Tell me when {minutes} minutes are over.", f"The {what} needs {minutes} minutes. Set a timer.", f"Remind me in {minutes} minutes.", f"{minutes} minutes from now, please ring."), {key: minutes},
               _pick(rng, {"started": True}, {"status": "started"}), _pick(rng, f"The timer is set to {minutes} minutes.", f"I started a timer of {minutes} minutes."))


def alarm(rng: random.Random) -> Use:
    time = schemas._time(rng)
    key = _pick(rng, "time", "at", "hour")
    return Use(_pick(rng, "set_alarm", "alarm", "wake_up", "add_alarm"), _pick(rng, "Set an alarm", "Alarm clock", "Wake the user"), {key: STRING}, _pick(rng, f"Wake me at {time}.", f"Set an alarm for {time}.", f"I have to get up at {time}.", f"The alarm should ring at {time}."), {key: time}, {"set": True}, _pick(rng, f"The alarm is set for {time}.", f"I set the alarm to {time}."))


def message(rng: random.Random) -> Use:
    who, text = rng.choice(PEOPLE), rng.choice(MESSAGES)
    to, body = _pick(rng, "to", "to", "name", "person"), _pick(rng, "text", "text", "message", "body")
    return Use(_pick(rng, "send_message", "message", "write_to", "send_text"), _pick(rng, "Send a message", "Write to a person", "Send a text"), {to: STRING, body: STRING},
               _pick(rng, f"Send {who} a message: {text}", f"Write to {who}: {text}", f"Tell {who} this: {text}", f"Text {who}: {text}", f"Please let {who} know: {text}"), {to: who, body: text}, {"sent": True}, _pick(rng, f"I sent the message to {who}.", f"Your message to {who} was sent."))


def phone(rng: random.Random) -> Use:
    who = rng.choice(PEOPLE)
    key = _pick(rng, "name", "person", "who")
    return Use(_pick(rng, "call_person", "call", "phone_call", "dial"), _pick(rng, "Call a person", "Make a phone call"), {key: STRING}, _pick(rng, f"Call {who}.", f"Phone {who} please.", f"I want to talk to {who} on the phone.", f"Ring {who}."), {key: who}, {"calling": True}, f"I am calling {who}.")


def song(rng: random.Random) -> Use:
    title = rng.choice(SONGS)
    key = _pick(rng, "title", "song", "name")
    return Use(_pick(rng, "play_song", "play_music", "play", "start_song"), _pick(rng, "Play a song", "Play music"), {key: STRING}, _pick(rng, f"Play {title}.", f"Put on {title}.", f"I want to hear {title}.", f"Start the song {title}.", f"Can you play {title}?"), {key: title}, {"playing": True}, _pick(rng, f"Now playing {title}.", f"I started {title}."))


def light(rng: random.Random) -> Use:
    room, state = rng.choice(ROOMS), rng.choice(["on", "off"])
    where, key = _pick(rng, "room", "room", "place"), _pick(rng, "state", "state", "power")
    ask = _pick(rng, f"Turn {state} the light in the {room}.", f"Turn the {room} light {state}.", f"Switch {state} the lamp in the {room}.", f"Light {state} in the {room}, please.", f"It is too dark in the {room}." if state == "on" else f"Nobody is in the {room}, no light is needed.")
    return Use(_pick(rng, "switch_light", "set_light", "light", "lamp"), _pick(rng, "Switch a light", "Turn a lamp on or off"), {where: STRING, key: {"type": "string", "enum": ["on", "off"]}}, ask, {where: room, key: state}, {"done": True}, f"The light in the {room} is {state} now.")


def heating(rng: random.Random) -> Use:
    degrees = rng.randint(14, 27)
    key = _pick(rng, "degrees", "temperature", "value")
    return Use(_pick(rng, "set_temperature", "heating", "set_heating", "warm_room"), _pick(rng, "Set the heating", "Set the room temperature"), {key: INTEGER}, _pick(rng, f"Set the heating to {degrees} degrees.", f"I want {degrees} degrees here.", f"Make the room {degrees} degrees warm.", f"It should be {degrees} degrees in the house."), {key: degrees}, {"set": degrees}, f"The heating is set to {degrees} degrees.")


def recipe(rng: random.Random) -> Use:
    dish, minutes = rng.choice(DISHES), rng.randint(10, 90)
    key = _pick(rng, "dish", "food", "query")
    return Use(_pick(rng, "find_recipe", "recipe", "search_recipe", "cookbook"), _pick(rng, "Find a recipe", "Search recipes"), {key: STRING}, _pick(rng, f"Find a recipe for {dish}.", f"How do I make {dish}? Search a recipe.", f"I want to cook {dish}. Is there a recipe?", f"Look up {dish}."), {key: dish}, {"recipe": dish, "minutes": minutes}, f"I found a recipe for {dish}. It takes {minutes} minutes.")


def shopping(rng: random.Random) -> Use:
    thing = rng.choice(schemas.GOODS)
    key = _pick(rng, "item", "item", "product", "thing")
    return Use(_pick(rng, "add_to_list", "shopping_list", "add_item", "note_item"), _pick(rng, "Add to the shopping list", "Put an item on the list"), {key: STRING}, _pick(rng, f"Put {thing} on the list.", f"Add {thing} to the shopping list.", f"We need {thing}.", f"Note {thing} for shopping.", f"There are no {thing} left. Add them to the list."), {key: thing}, {"added": True}, f"I added {thing} to the list.")


def table(rng: random.Random) -> Use:
    people, day = rng.randint(1, 12), rng.choice(W.DAYS)
    count, when = _pick(rng, "people", "people", "guests", "persons"), _pick(rng, "day", "day", "date")
    noun = "person" if people == 1 else "people"
    return Use(_pick(rng, "book_table", "reserve_table", "reservation"), _pick(rng, "Book a table", "Reserve a table"), {count: INTEGER, when: STRING}, _pick(rng, f"Book a table for {people} on {day}.", f"I need a table for {people} {noun} on {day}.", f"On {day} we come with {people} {noun}. Is there a table?", f"Table for {people}, {day}."), {count: people, when: day}, {"booked": True}, f"Your table for {people} on {day} is booked.")


def event(rng: random.Random) -> Use:
    what, day = rng.choice(EVENTS), rng.choice(W.DAYS)
    title, when = _pick(rng, "title", "title", "event", "what"), _pick(rng, "day", "day", "date")
    return Use(_pick(rng, "create_event", "add_event", "calendar", "new_event"), _pick(rng, "Add to the calendar", "Create an event"), {title: STRING, when: STRING}, _pick(rng, f"Put {what} on {day} in the calendar.", f"Add {what} to my calendar for {day}.", f"I have {what} on {day}. Note it.", f"Plan {what} on {day}."), {title: what, when: day}, {"saved": True}, f"I added {what} on {day}.")


def _number(rng: random.Random) -> str:
    return str(rng.randint(100, 99999))


def status(rng: random.Random) -> Use:
    number, state = _number(rng), rng.choice(["packed", "sent", "on its way", "delivered", "waiting"])
    key = _pick(rng, "order_id", "order", "number", "id")
    return Use(_pick(rng, "order_status", "check_order", "find_order", "get_order"), _pick(rng, "Status of an order", "Look up an order"), {key: STRING}, _pick(rng, f"Where is order {number}?", f"What is the status of order {number}?", f"Has my order {number} left?", f"Check order {number}.", f"When does order {number} come?"), {key: number}, {"status": state}, _pick(rng, f"Your order {number} is {state}.", f"The status is: {state}."))


def cancel(rng: random.Random) -> Use:
    number = _number(rng)
    key = _pick(rng, "order_id", "order", "number", "id")
    return Use(_pick(rng, "cancel_order", "stop_order", "delete_order"), _pick(rng, "Cancel an order", "Stop an order"), {key: STRING}, _pick(rng, f"Cancel order {number}.", f"I want to cancel my order {number}.", f"Please stop order {number}.", f"Order {number} was a mistake. Cancel it."), {key: number}, {"cancelled": True}, f"Order {number} is cancelled.")


def stock(rng: random.Random) -> Use:
    colour, thing, size, there = rng.choice(W.COLOURS), rng.choice(["shirt", "coat", "dress", "hat", "sweater", "skirt", "shoe", "scarf"]), rng.choice(["S", "M", "L", "XL"]), rng.random() < 0.5
    product, key = _pick(rng, "product", "item", "article"), "size"
    name = f"{colour} {thing}"
    return Use(_pick(rng, "check_stock", "in_stock", "stock"), _pick(rng, "Check the stock", "Whether a product is there"), {product: STRING, key: STRING}, _pick(rng, f"Is the {name} there in {size}?", f"Do you have the {name} in size {size}?", f"I need the {name}, size {size}. Is it in stock?"), {product: name, key: size}, {"in_stock": there}, f"Yes, the {name} is in stock in size {size}." if there else f"Sorry, the {name} is not in stock in size {size}.")


def price(rng: random.Random) -> Use:
    colour, thing, amount = rng.choice(W.COLOURS), rng.choice(schemas.THINGS), rng.randint(1, 400)
    key, name = _pick(rng, "item", "product", "name"), f"{colour} {thing}"
    return Use(_pick(rng, "get_price", "price", "find_price", "price_of"), _pick(rng, "Price of a product", "What something costs"), {key: STRING}, _pick(rng, f"What does the {name} cost?", f"How much is the {name}?", f"Tell me the price of the {name}."), {key: name}, {"price": amount}, f"The {name} costs {amount}.")


def parcel(rng: random.Random) -> Use:
    number, place, day = _number(rng), rng.choice(schemas.CITIES), rng.choice(W.DAYS)
    key = _pick(rng, "number", "parcel", "code")
    return Use(_pick(rng, "track_parcel", "find_parcel", "parcel", "track"), _pick(rng, "Find a parcel", "Track a parcel"), {key: STRING}, _pick(rng, f"Where is my parcel {number}?", f"Track parcel {number}.", f"My parcel has the code {number}. Find it.", f"When does parcel {number} come?"), {key: number}, {"place": place, "arrives": day}, f"Your parcel is in {place}. It arrives on {day}.")


def translate(rng: random.Random) -> Use:
    (word, foreign), language = rng.choice(list(FOREIGN.items())), rng.choice(LANGUAGES)
    what, to = _pick(rng, "word", "text"), _pick(rng, "language", "to", "target")
    return Use(_pick(rng, "translate_word", "translate", "translation"), _pick(rng, "Translate a word", "Translate to a language"), {what: STRING, to: STRING}, _pick(rng, f"Translate {word} to {language}.", f"What is {word} in {language}?", f"How do I say {word} in {language}?", f"I need the {language} word for {word}."), {what: word, to: language}, {"translation": foreign}, f"In {language}, {word} is {foreign}.")


def define(rng: random.Random) -> Use:
    word, meaning = rng.choice(list(MEANINGS.items()))
    return Use(_pick(rng, "define_word", "dictionary", "define", "look_up"), _pick(rng, "Meaning of a word", "Look up a word"), {"word": STRING}, _pick(rng, f"What does {word} mean?", f"Define {word}.", f"Look up the word {word}.", f"What is the meaning of {word}?"), {"word": word}, {"meaning": meaning}, f"{word.capitalize()} means {meaning}.")


def books(rng: random.Random) -> Use:
    author, title = rng.choice(AUTHORS), rng.choice(SONGS)
    key = _pick(rng, "author", "writer", "name")
    return Use(_pick(rng, "search_books", "find_books", "books_by"), _pick(rng, "Search books", "Books of an author"), {key: STRING}, _pick(rng, f"Find books by {author}.", f"What did {author} write?", f"Do you have books of {author}?", f"Search for {author}."), {key: author}, {"books": [title]}, f"I found {title} by {author}.")


def route(rng: random.Random) -> Use:
    start, end = (spot.removeprefix("the ") for spot in rng.sample(SPOTS, 2))
    minutes = rng.randint(2, 90)
    a, b = _pick(rng, *[("start", "end"), ("from", "to"), ("origin", "goal")])
    return Use(_pick(rng, "get_route", "route", "find_way", "directions"), _pick(rng, "Find the way", "Route between two places"), {a: STRING, b: STRING}, _pick(rng, f"How do I get from the {start} to the {end}?", f"Show the way from the {start} to the {end}.", f"I am at the {start} and want to go to the {end}.", f"Route from the {start} to the {end}."), {a: start, b: end}, {"minutes": minutes}, f"It takes {minutes} minutes from the {start} to the {end}.")


def multiply(rng: random.Random) -> Use:
    """Not addition: how many sums the model sees is set elsewhere."""
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    x, y = _pick(rng, *[("a", "b"), ("x", "y"), ("first", "second")])
    return Use(_pick(rng, "multiply", "product", "times"), _pick(rng, "Multiply two numbers", "Product of two numbers"), {x: INTEGER, y: INTEGER},
               _pick(rng, f"What is {a} times {b}?", f"Multiply {a} by {b}.", f"Calculate {a} times {b}.", f"How much is {a} times {b}?"), {x: a, y: b}, {"result": a * b}, _pick(rng, f"The result is {a * b}.", f"It is {a * b}."))


def made_up(rng: random.Random) -> Use:
    """A tool of a random name with one field: only copying helps."""
    verb, noun = rng.choice("open, close, show, start, stop, find, save, read, print, count, lock, paint, feed, wash, check, move".split(", ")), rng.choice("door, gate, file, robot, camera, fish, garden, pump, page, photo, window, map, box, report, screen, note".split(", "))
    value = rng.choice([rng.choice(PEOPLE), rng.choice(schemas.CITIES), str(rng.randint(1, 999)), rng.choice(W.COLOURS), rng.choice(schemas.THINGS)])
    key = rng.choice("name, id, target, label, key, value, code".split(", "))
    return Use(f"{verb}_{noun}", f"{verb.capitalize()} a {noun}", {key: STRING}, _pick(rng, f"{verb.capitalize()} the {noun} {value}.", f"Please {verb} the {noun} {value}.", f"Can you {verb} {noun} {value}?", f"I want you to {verb} the {noun} with the {key} {value}."), {key: value}, {"ok": True}, _pick(rng, "Done.", f"I did it: {verb} {noun} {value}."))


FAMILIES = [weather, clock, timer, alarm, message, phone, song, light, heating, recipe, shopping, table, event, status, cancel, stock, price, parcel, translate, define, books, route, multiply, made_up, made_up, made_up]
OTHER_WISHES = "Paint my house., Order a taxi., Feed the dog., Buy me a bike., Book a flight., Write a book for me., Make me a coffee., Wash my car., Pay my bill., Fix the roof., Bring me a pizza., Cut the grass., Rent a boat., Clean the windows., Sell my old phone., Print this page.".split(", ")
NOTHING_FITS = ["I am sorry, I cannot do that.", "Sorry, I have no tool for that.", "I am sorry, I do not have a tool for this.", "I cannot help with that. I have no tool for it.", "Sorry, that is not possible with my tools."]


def definition(use: Use, rng: random.Random) -> dict:
    parameters: dict = {"type": "object", "properties": use.properties, "required": list(use.properties)}
    if rng.random() < 0.5:
        parameters["additionalProperties"] = False
    return {"type": "function", "function": {"name": use.name, "description": use.description, "parameters": parameters}}


def calling(use: Use) -> dict:
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": use.name, "arguments": use.arguments}}]}


def _user(text: str) -> dict:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def _polite(rng: random.Random, ask: str) -> str:
    if rng.random() < 0.85:
        return ask
    return rng.choice([f"Hi! {ask}", f"Hello, {ask[0].lower() if ask.split()[0] not in ('I', *W.NAMES) else ask[0]}{ask[1:]}", f"{ask} Thank you.", f"Please help me. {ask}"])


def call_document(rng: random.Random) -> str:
    """A conversation with one to three tools of different families."""
    uses: list[Use] = []
    for family in rng.sample(FAMILIES[:-2], rng.choice([1, 2, 2, 3, 3])):
        use = family(rng)
        if use.name not in [each.name for each in uses]:
            uses.append(use)
    tools = [definition(use, rng) for use in uses]
    rng.shuffle(tools)
    messages: list[dict] = []
    if rng.random() < 0.15:
        messages.append({"role": "system", "content": rng.choice(["You are a helpful assistant.", "You help the user.", "Be short.", "You are Pip."])})
    kind = rng.random()
    if kind < 0.16:  # no tool fits
        if rng.random() < 0.5:
            ask = rng.choice(OTHER_WISHES)
        else:
            names = {use.description for use in uses}
            ask = next(other for _ in range(99) if (other := rng.choice(FAMILIES[:-3])(rng)).description not in names and not any(_same_family(other, use) for use in uses)).ask
        messages += [_user(_polite(rng, ask)), _assistant(rng.choice(NOTHING_FITS))]
    elif kind < 0.24:  # small talk beside tools
        messages += [each for user, reply in [rng.choice([*dialogues.GREETINGS, *dialogues.PARTINGS, *dialogues.ABOUT_ME])] for each in (_user(user), _assistant(reply))]
    else:
        use = uses[0]
        messages += [_user(_polite(rng, use.ask)), calling(use)]
        if rng.random() < 0.7:
            messages += [{"role": "tool", "content": json.dumps(use.result)}, _assistant(use.answer)]
            if len(uses) > 1 and rng.random() < 0.35:
                messages += [_user(uses[1].ask), calling(uses[1])]
                if rng.random() < 0.6:
                    messages += [{"role": "tool", "content": json.dumps(uses[1].result)}, _assistant(uses[1].answer)]
            elif rng.random() < 0.2:
                messages += [_user("Thank you!"), _assistant("You are welcome!")]
    return tool_chat.render(messages, tools)


def _same_family(one: Use, other: Use) -> bool:
    return bool(set(one.properties) & set(other.properties)) or one.name == other.name
