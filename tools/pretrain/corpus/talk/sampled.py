"""What the conversation teacher is asked, and which of its replies are kept. A prompt carries two example turns that show a
short, plain answer; they are not part of the document. Every prompt is sampled twice, and a reply is kept only where both
pass the rules and agree with each other."""

import random
import re
from dataclasses import dataclass

from .. import render
from .. import words as W
from . import knowledge as K
from . import writing
from .support import PRODUCTS

SYSTEM = "You are a kind helper. You answer in one or two short, simple sentences."
NOUNS = sorted({*W.THINGS, *W.ANIMALS, *W.PLACES, *W.FOODS, *W.JOBS, *PRODUCTS, *"blanket bridge calendar candle castle compass curtain desert diary elevator engine factory feather fence festival furniture garage glove hammer harbor helmet holiday island jacket journey ladder lawn library lighthouse mailbox market medicine mirror museum needle neighbor newspaper oven passport pillow planet playground poem pool prize puzzle rainbow recipe river roof sandwich scarf secret shadow shelf shore soap staircase storm suitcase sunrise theater thunder ticket towel tractor tunnel umbrella vacation valley village volcano wallet waterfall wheel whistle window winter wool zipper".split()})
ACTS = "wash the dishes, feed a cat, plant tomatoes, pack a suitcase, paint a wall, write a letter, ride a horse, learn a song, plan a party, clean a carpet, cook rice, iron a shirt, build a fence, catch a bus, choose a present, draw a face, fix a chair, fly a kite, go camping, grow herbs, keep a secret, light a fire, make a phone call, make pancakes, meet new people, move to a new home, order food, peel a potato, play cards, read a map, save energy, sew a button, sort old clothes, start a garden, study for a test, sweep the floor, swim in the sea, take a photo, tell a joke, thank a teacher, train a dog, travel by train, visit a friend, wait for a guest, walk in the snow, wrap a gift".split(", ")
FEELINGS = "happy, sad, tired, nervous, proud, lonely, bored, angry, excited, worried, hungry, sick, shy, jealous, thankful, confused".split(", ")
CAUSES = "my best friend moved away, I have a new job, I lost my watch, it rains all week, my team won, my sister is ill, I start school tomorrow, I cannot sleep, my cake fell down, I passed the test, my dog ran away, I forgot the meeting, my neighbor is loud, I got a letter, my plan failed, I am alone at home".split(", ")


@dataclass(frozen=True)
class Ask:
    kind: str
    question: str
    examples: tuple[tuple[str, str], ...]
    about: str  # the word, or the text, that the rules of the kind compare with


EXAMPLES: dict[str, list[tuple[str, str]]] = {
    "explain": [("What is a kettle?", "A kettle is a pot with a lid that you use to boil water."), ("What is a nurse?", "A nurse is a person who takes care of sick people."), ("What is a raft?", "A raft is a flat boat made of wood.")],
    "advice": [("I lost my hat. What should I do?", "Look in the places where you were today, or ask your friends."), ("How do I clean my shoes?", "Brush off the dirt and wipe them with a wet cloth."), ("How can I make tea?", "Boil some water and pour it over the tea leaves.")],
    "why": [("Why do people plant trees?", "Trees give shade and clean air."), ("Why do people sing?", "Singing is fun and makes people happy."), ("Why do people wear hats?", "A hat keeps the head warm and dry.")],
    "list": [("Name three things you can do with a rope.", "You can climb it, tie a knot or pull a cart."), ("Name three things you can do with paper.", "You can write on it, fold it or draw a picture.")],
    "rewrite": [("Say it in other words: The boy is very happy.", "The boy feels great joy."), ("Say it in other words: She ran home fast.", "She hurried back to her house.")],
    "summary": [("Sum up in one sentence: Ken had a red boat. It sank in the pond. His father made a new one.", "Ken's boat sank, and his father made him a new one.")],
    "feeling": [("I am happy because the sun is shining.", "That is nice! Enjoy the sunny day."), ("I am scared because I heard a noise.", "Take a deep breath. It was probably just the wind.")],
    "support": [("I bought a lamp and it flickers. Can you help me?", "I am sorry. Please turn the bulb until it is tight."), ("I bought a bag, but it is too small. Can I change it?", "Of course. Send it back and we will send you a bigger one.")],
}
TROUBLES = "it is broken, a part is missing, it is the wrong color, it is too small, it does not work, it has a scratch, it came too late, I do not need it, it is dirty, it makes a noise".split(", ")


def _asked(rng: random.Random, kind: str) -> tuple[str, str]:
    noun, act = rng.choice(NOUNS), rng.choice(ACTS)
    if kind == "explain":
        return rng.choice([f"What is {W.article(noun)}?", f"What is {W.article(noun)} used for?" if noun in PRODUCTS or noun in W.THINGS else f"Tell me about {W.article(noun)}.", f"Explain what {W.article(noun)} is."]), noun
    if kind == "advice":
        if rng.random() < 0.5:
            return rng.choice([f"How do I {act}?", f"How can I {act}?", f"I want to {act}. Do you have a tip?", f"What do I need to {act}?"]), act
        said = rng.choice(rng.choice([line.split(" | ")[0].split(" / ") for line in K.PROBLEMS.strip().splitlines()]))
        return f"{said[0].upper()}{said[1:]}. {rng.choice(['What should I do?', 'What can I do?', 'Can you help me?'])}", said
    if kind == "why":
        return f"Why do people {act}?" if rng.random() < 0.6 else rng.choice([f"Why do people like {W.plural(noun)}?", f"Why is {W.article(noun)} useful?"]), act
    if kind == "list":
        return f"Name three things you can do with {W.article(noun)}.", noun
    if kind == "rewrite":
        sentence = writing._sentence(rng, noun)
        return f"Say it in other words: {sentence}", sentence
    if kind == "summary":
        while True:
            question, _ = writing._summary(rng)
            text = question.removeprefix("Summarize: ")
            if text != question:
                return f"Sum up in one sentence: {text}", text
    if kind == "feeling":
        return f"I am {rng.choice(FEELINGS)} because {rng.choice(CAUSES)}.", ""
    return f"I bought {W.article(rng.choice(PRODUCTS))}, but {rng.choice(TROUBLES)}. {rng.choice(['Can you help me?', 'What can we do?', 'What do I do now?'])}", ""


WEIGHTS = {"explain": 5, "advice": 6, "why": 3, "list": 2, "rewrite": 1, "summary": 1, "feeling": 3, "support": 3}


def ask(rng: random.Random) -> Ask:
    kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    question, about = _asked(rng, kind)
    examples = tuple(rng.sample(EXAMPLES[kind], min(2, len(EXAMPLES[kind]))))
    return Ask(kind, question, examples, about)


_ALLOWED = re.compile(r"[A-Za-z0-9 .,!?;:'\"\-\n]+")
_MANNERISM = re.compile(r"\b(as an? (ai|assistant|chatbot|language model)|smollm|hugging face|ai (assistant|model)|i'?m (just )?an? ai|language model|http|www|click|certainly|of course!?$|i'?m not able|i can'?t (help|assist)|i cannot (help|assist|provide)|i don'?t have (personal|access)|as a kind helper|kind helper)\b", re.IGNORECASE)
_GRIM = re.compile(r"\b(died|dead|kill\w*|blood\w*|guns?|murder\w*|suicid\w*|drugs?|alcohol|sex\w*|weapon\w*)\b", re.IGNORECASE)
_STOP = set("a an the is are was were be to of in on at for and or but with it its this that you your i my me we our they their he she his her can could should would will do does did not have has had if so as by from there here what how when who which make makes made use used using get some any more very also".split())


def content_words(text: str) -> set[str]:
    """Words that carry meaning, cut to six letters so that endings do not count."""
    return {word[:6] for word in re.findall(r"[a-z]+", text.lower()) if word not in _STOP}


def tidy(reply: str) -> str:
    return re.sub(r"[ \t]+", " ", reply.replace("\u2019", "'").replace("\u201c", '"').replace("\u201d", '"')).strip()


def fault(a: Ask, reply: str) -> str | None:
    """The rule that a tidy reply breaks, or None."""
    words = reply.split()
    if not 3 <= len(words) <= 45:
        return "length"
    if not _ALLOWED.fullmatch(reply) or reply[-1] not in ".!?" or reply.count('"') % 2:
        return "form"
    if _MANNERISM.search(reply) or _GRIM.search(reply):
        return "mannerism"
    lower = [word.lower().strip(".,!?;:\"'") for word in words]
    sentences = [part.strip().lower() for part in re.split(r"(?<=[.!?])\s+", reply)]
    trigrams = [tuple(lower[i : i + 3]) for i in range(len(lower) - 2)]
    if len(set(sentences)) < len(sentences) or len(set(trigrams)) < len(trigrams) or len(set(lower)) < 0.6 * len(lower):
        return "repetition"
    if sum(map(len, lower)) > 5.6 * len(lower):
        return "long words"
    said, asked = content_words(reply), content_words(a.question)
    if not said or said <= asked and a.kind != "rewrite":
        return "echo"
    if a.kind == "explain" and a.about[:4].lower() not in reply.lower():
        return "off topic"
    if a.kind in ("advice", "why", "list") and (reply.endswith("?") or not said - asked):
        return "off topic"
    if a.kind == "list" and len(re.split(r",|\bor\b|\band\b", reply)) < 3:
        return "no list"
    if a.kind == "rewrite" and (reply.lower() == a.about.lower() or not content_words(a.about) & said or len(words) > 1.7 * len(a.about.split())):
        return "not rewritten"
    if a.kind == "summary" and (len(words) > 0.75 * len(a.about.split()) or reply in a.about or not set(re.findall(r"\b[A-Z][a-z]+\b", a.about)) & set(re.findall(r"\b[A-Z][a-z]+\b", reply))):
        return "no summary"
    return None


AGREEMENT = 0.2


def chosen(a: Ask, one: str, two: str) -> tuple[str | None, str]:
    """The shorter of two replies where both pass and agree; else None and the reason."""
    one, two = tidy(one), tidy(two)
    for reply in (one, two):
        if broken := fault(a, reply):
            return None, broken
    first, second = content_words(one), content_words(two)
    if len(first & second) < AGREEMENT * len(first | second):
        return None, "disagreement"
    return min(one, two, key=len), "kept"


def document(a: Ask, reply: str, rng: random.Random) -> str:
    return render.dress([(a.question, reply)], rng)
