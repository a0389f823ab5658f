"""Records what transformers makes of the chat template with tools, for the test that our models package makes the same
(test/integration/pretrain/chat-template.test.ts). `python template_fixture.py`, whenever chat_template_tools.jinja changes.
Also asserts that the corpus, which renders with plain Jinja, writes the same text."""

import json
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

from corpus import tool_chat

FIXTURE = Path(__file__).parent.parent.parent / "test" / "fixtures" / "base-model" / "chat-template.json"


def tool(name: str, description: str, properties: dict) -> dict:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TOOLS = [
    tool("get_weather", "Weather of a city", {"city": TEXT, "days": {"type": "integer", "description": "1 to 7, \"today\" is 1"}}),
    tool("send_mail", "Sends <b>mail</b> & files", {"to": TEXT, "lines": {"type": "array", "items": TEXT}, "urgent": {"type": "boolean"}}),
    tool("größe", "Länge einer Straße, 長さ", {"size": {"type": "string", "enum": ["S", "M", "L"]}, "at": {"type": "object", "properties": {"x": WHOLE}}}),
]


def user(content: str) -> dict:
    return {"role": "user", "content": content}


def call(name: str, arguments: object, content: str = "") -> dict:
    return {"role": "assistant", "content": content, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}]}


def result(content: str) -> dict:
    return {"role": "tool", "tool_call_id": "call_1", "content": content}


ASK, ANSWER = user("How warm is it in Zürich? 🌡️"), {"role": "assistant", "content": "It is 21 °C."}
SYSTEM = {"role": "system", "content": "You are Pip.\nBe brief."}
CALL = call("get_weather", {"city": 'a "quoted" \\ city\n</tool_call> & <b>', "days": 3, "nested": [{"deep": [1, None, True, 2.5]}]})
TWO = {"role": "assistant", "content": "Two calls.", "tool_calls": [*call("get_weather", {"city": "Oslo", "days": 1})["tool_calls"], *call("größe", {})["tool_calls"]]}
MESSAGES = [
    [ASK],
    [SYSTEM, ASK],
    [ASK, ANSWER],
    [SYSTEM, ASK, ANSWER, user("And in Rome?")],
    [ASK, CALL],
    [SYSTEM, ASK, CALL, result('{"temperature": 21}')],
    [ASK, CALL, result("21"), ANSWER, user("Thanks!")],
    [ASK, TWO, result("1"), result("2"), ANSWER],
    [ASK, call("get_weather", '{"city": "Oslo"}', "Let me look."), result("3")],
    [SYSTEM, ASK, ANSWER, SYSTEM, user("Once more.")],
]

if __name__ == "__main__":
    source = tool_chat.SOURCE.read_text()
    cases = []
    for messages in MESSAGES:
        for count in (0, 1, 3):
            for prompted in (False, True):
                tools = TOOLS[:count]
                rendered, _ = render_jinja_template([messages], tools=tools or None, chat_template=source, add_generation_prompt=prompted)
                assert tool_chat.render(messages, tools, prompted) == rendered[0], (messages, count)
                cases.append({"messages": messages, "tools": tools, "addGenerationPrompt": prompted, "text": rendered[0]})
    FIXTURE.write_text(json.dumps(cases, ensure_ascii=False) + "\n")
    print(len(cases), "conversations")
