"""Guess a number, as an environment of the official package openenv, served on a free port of the loopback interface, which it prints."""

import socket
from uuid import uuid4

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Guess(Action):
    guess: int


class Hint(Observation):
    hint: str


class Game(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.secret = 4
        self.guesses = 0
        self.episode = ""

    def reset(self, seed=None, episode_id=None, **_):
        self.secret = 1 + (seed if seed is not None else 3) % 9
        self.guesses = 0
        self.episode = episode_id or str(uuid4())
        return Hint(hint="Guess 1 to 9.")

    def step(self, action, timeout_s=None, **_):
        if action.guess < 1:
            raise ValueError("the guess must be positive")
        self.guesses += 1
        if action.guess == self.secret:
            return Hint(hint="Right.", reward=1.0, done=True)
        hint = "Higher." if action.guess < self.secret else "Lower."
        return Hint(hint=hint, reward=0.0, done=self.guesses == 3)

    @property
    def state(self):
        return State(episode_id=self.episode, step_count=self.guesses)


app = create_fastapi_app(Game, Guess, Hint, max_concurrent_envs=8)
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
