"""Conversations with tools in the model's own chat template: the template file itself is rendered, with the Jinja settings
of transformers, so that training text and later prompts cannot differ."""

import json
from functools import cache
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

SOURCE = Path(__file__).parent.parent / "chat_template_tools.jinja"
# Tokens of their own, so that a call opens and closes with one token each. Not special: a reply keeps them as text.
MARKERS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


@cache
def _template():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(SOURCE.read_text())


def render(messages: list[dict], tools: list[dict] | None = None, prompted: bool = False) -> str:
    return _template().render(messages=messages, tools=tools or None, add_generation_prompt=prompted)
