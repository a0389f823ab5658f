"""The dresses a text can wear: chat markup (the model's own chat template, word for word), a transcript with roles, and
plain question-and-answer lines. The end-of-text token is added by the tokenizer stage, one after each document."""

import random

IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
SYSTEMS = ["You are a helpful assistant.", "You are Pip, a small and friendly language model.", "You are a kind teacher.", "You are a helpful assistant. Keep your answers short.",
           "Answer the question.", "You are a storyteller.", "You help children learn.", "Be polite and clear."]
# A system message that changes the answer, so that the model learns that it may.
RULES = [
    ("Write every answer in capital letters.", str.upper),
    ("Write every answer in small letters.", str.lower),
    ("End every answer with the word over.", lambda text: text + " Over."),
    ("Start every answer with the word well.", lambda text: "Well, " + text),
    ("Put every answer in quotes.", lambda text: f'"{text}"'),
    ("Always thank the user.", lambda text: text + " Thank you for asking."),
]

Turns = list[tuple[str, str]]


def chat(turns: Turns, system: str | None = None) -> str:
    head = f"{IM_START}system\n{system}{IM_END}\n" if system else ""
    return head + "".join(f"{IM_START}user\n{user}{IM_END}\n{IM_START}assistant\n{reply}{IM_END}\n" for user, reply in turns)


def dress(turns: Turns, rng: random.Random) -> str:
    """A conversation in chat markup two times out of three, else as plain text."""
    form = rng.random()
    if form < 0.45:
        return chat(turns)
    if form < 0.62:
        return chat(turns, rng.choice(SYSTEMS))
    if form < 0.67:
        rule, apply = rng.choice(RULES)
        return chat([(user, apply(reply)) for user, reply in turns], rule)
    if form < 0.77:
        return "".join(f"User: {user}\n\nAssistant: {reply}\n\n" for user, reply in turns).rstrip()
    if form < 0.85:
        return "\n".join(f"{user} {reply}" for user, reply in turns)
    if form < 0.90:
        return "\n\n".join(f"{user}\n{reply}" for user, reply in turns)
    if form < 0.95:
        return "\n\n".join(f"Q: {user}\nA: {reply}" for user, reply in turns)
    return "\n\n".join(f"Question: {user}\nAnswer: {reply}" for user, reply in turns)
