"""The unmodified `openai`, `anthropic` and `llm` packages of PyPI against a local server; one line for each check."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import anthropic
import openai

url = sys.argv[1]
text = "naïve 日本語 e\u0301 👩‍👩‍👧 done"
call = 'SAY <think>\nhm\n</think>\n\nLet me see.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🏔️"}}\n</tool_call>'
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def check(what, got, wanted):
    ok = got == wanted
    print(f"{'ok   ' if ok else 'FAIL '} {what}" + ("" if ok else f": {got!r} is not {wanted!r}"), flush=True)


def raises(what, run, kind):
    try:
        run()
    except Exception as error:  # noqa: BLE001
        ok = isinstance(error, kind)
        print(f"{'ok   ' if ok else 'FAIL '} {what}" + ("" if ok else f": {error!r}"), flush=True)
    else:
        print(f"FAIL  {what}: nothing was raised", flush=True)


def idle():
    for _ in range(600):
        metrics = urllib.request.Request(f"{url}/metrics", headers={"Authorization": "Bearer tml-chat"})
        lines = urllib.request.urlopen(metrics).read().decode().splitlines()
        if all(line.endswith(" 0") for line in lines if line.startswith(("tinklet_engine_active_sequences{", "tinklet_waiting_samples{"))):
            return True
        time.sleep(0.05)
    return False


def say(what):
    return [{"role": "user", "content": f"SAY {what}"}]


story = [{"role": "user", "content": "Tell me a long story."}]
fail = [{"role": "user", "content": "FAIL AT THIS"}]
close = [{"role": "user", "content": "CLOSE AT THIS"}]


def check_openai():
    at = "openai (PyPI):"
    client = openai.OpenAI(base_url=f"{url}/oai/api/v1", api_key="tml-chat", max_retries=0)
    create = client.chat.completions.create
    check(f"{at} models", [model.id for model in client.models.list()], ["tinklet/base", "scripted"])
    whole = create(model="scripted", messages=say(text))
    check(f"{at} chat", (whole.choices[0].message.content, whole.choices[0].finish_reason), (text, "stop"))
    joined, usage = "", None
    for chunk in create(model="scripted", messages=say(text), stream=True, stream_options={"include_usage": True}):
        joined += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        usage = chunk.usage or usage
    check(f"{at} stream equals whole, with its usage", (joined, usage.completion_tokens), (text, whole.usage.completion_tokens))
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": schema}}]
    called = create(model="scripted", messages=[{"role": "user", "content": call}], tools=tools).choices[0]
    made = called.message.tool_calls[0]
    check(f"{at} tool call", (made.function.name, json.loads(made.function.arguments), called.finish_reason), ("get_weather", {"city": "Zürich 🏔️"}, "tool_calls"))
    more = [{"role": "user", "content": call}, called.message, {"role": "tool", "tool_call_id": made.id, "content": "21"}, *say("It is 21.")]
    check(f"{at} tool result", create(model="scripted", messages=more, tools=tools).choices[0].message.content, "It is 21.")
    check(f"{at} stop", create(model="scripted", messages=say("one two three"), stop=[" three"]).choices[0].message.content, "one two")
    real = {"model": "tinklet/base", "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
    check(f"{at} n", [c.index for c in create(**real, n=2, max_tokens=3).choices], [0, 1])
    scores = create(**real, logprobs=True, max_tokens=3, temperature=0).choices[0].logprobs.content
    check(f"{at} logprobs", all(each.logprob <= 0 for each in scores) and len(scores) > 0, True)
    completed = client.completions.create(model="tinklet/base", prompt="The sea", echo=True, logprobs=0, max_tokens=2)
    check(f"{at} completions", completed.choices[0].text.startswith("The sea"), True)
    raises(f"{at} a wrong key", lambda: openai.OpenAI(base_url=f"{url}/v1", api_key="tml-wrong", max_retries=0).models.list(), openai.AuthenticationError)
    raises(f"{at} an unknown model", lambda: create(model="none", messages=say("x")), openai.NotFoundError)
    raises(f"{at} an unsupported parameter", lambda: create(**real, extra_body={"web_search_options": {}}), openai.BadRequestError)
    forced = create(**real, max_tokens=100, tools=tools, tool_choice="required").choices[0]
    [demanded] = forced.message.tool_calls
    check(f"{at} a demanded tool call", (demanded.function.name, [*json.loads(demanded.function.arguments)], forced.finish_reason), ("get_weather", ["city"], "tool_calls"))
    raises(f"{at} another origin", lambda: create(**real, extra_headers={"Origin": "https://evil.example"}), openai.PermissionDeniedError)
    raises(f"{at} a failure of the server", lambda: create(model="scripted", messages=fail), openai.InternalServerError)
    raises(f"{at} a server that closes", lambda: create(model="scripted", messages=close, stream=True), openai.InternalServerError)
    raises(f"{at} nobody there", lambda: openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="tml-x", max_retries=0).models.list(), openai.APIConnectionError)
    raises(f"{at} no answer in time", lambda: create(**real, max_tokens=900, n=4, timeout=0.001), openai.APITimeoutError)
    formatted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}}}
    held = create(**real, max_tokens=40, temperature=1, response_format=formatted).choices[0].message.content
    check(f"{at} a schema", isinstance(json.loads(held)["sum"], int), True)
    streams = [create(model="tinklet/base", messages=story, max_tokens=900, temperature=2, n=4, stream=True) for _ in range(4)]
    raises(f"{at} too many chats", lambda: create(**real), openai.RateLimitError)
    for stream in streams:
        next(iter(stream))
        stream.close()
    check(f"{at} streams that are left end in the engine", idle(), True)


def check_anthropic():
    at = "anthropic (PyPI):"
    client = anthropic.Anthropic(base_url=f"{url}/anthropic/api", api_key="tml-chat", max_retries=0)
    create = client.messages.create
    whole = create(model="scripted", max_tokens=500, messages=say(text))
    check(f"{at} message", (whole.content[0].text, whole.stop_reason), (text, "end_turn"))
    with client.messages.stream(model="scripted", max_tokens=500, messages=say(text)) as stream:
        joined = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(f"{at} stream equals whole, with its usage", (joined, final.usage.output_tokens), (text, whole.usage.output_tokens))
    tools = [{"name": "get_weather", "input_schema": schema}]
    asked = [{"role": "user", "content": call}]
    called = create(model="scripted", max_tokens=500, messages=asked, tools=tools)
    check(f"{at} tool use", ([b.type for b in called.content], called.content[-1].input, called.stop_reason), (["thinking", "text", "tool_use"], {"city": "Zürich 🏔️"}, "tool_use"))
    with client.messages.stream(model="scripted", max_tokens=500, messages=asked, tools=tools) as stream:
        check(f"{at} tool use, streamed", stream.get_final_message().content[-1].input, {"city": "Zürich 🏔️"})
    result = {"type": "tool_result", "tool_use_id": called.content[-1].id, "content": "21"}
    more = [*asked, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result, {"type": "text", "text": "SAY It is 21."}]}]
    check(f"{at} tool result", create(model="scripted", max_tokens=500, messages=more, tools=tools).content[0].text, "It is 21.")
    stopped = create(model="scripted", max_tokens=500, messages=say("one two three"), stop_sequences=[" three"])
    check(f"{at} stop sequence", (stopped.content[0].text, stopped.stop_sequence), ("one two", " three"))
    counted = client.messages.count_tokens(model="scripted", messages=say(text)).input_tokens
    check(f"{at} count_tokens", counted, whole.usage.input_tokens + whole.usage.cache_read_input_tokens)
    real = {"model": "tinklet/base", "max_tokens": 5, "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
    raises(f"{at} a wrong key", lambda: anthropic.Anthropic(base_url=f"{url}/anthropic/api", api_key="tml-wrong", max_retries=0).messages.create(**real), anthropic.AuthenticationError)
    raises(f"{at} an unknown model", lambda: create(**{**real, "model": "none"}), anthropic.NotFoundError)
    raises(f"{at} an unsupported parameter", lambda: create(**real, extra_body={"container": "x"}), anthropic.BadRequestError)
    forced = create(**{**real, "max_tokens": 100}, tools=tools, tool_choice={"type": "any"})
    check(f"{at} a demanded tool call", (forced.content[0].name, [*forced.content[0].input], forced.stop_reason), ("get_weather", ["city"], "tool_use"))
    raises(f"{at} another origin", lambda: create(**real, extra_headers={"Origin": "https://evil.example"}), anthropic.PermissionDeniedError)
    raises(f"{at} a failure of the server", lambda: create(model="scripted", max_tokens=5, messages=fail), anthropic.InternalServerError)
    raises(f"{at} a server that closes", lambda: create(model="scripted", max_tokens=5, messages=close, stream=True), anthropic.APIStatusError)
    raises(f"{at} nobody there", lambda: anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="tml-x", max_retries=0).messages.create(**real), anthropic.APIConnectionError)
    raises(f"{at} no answer in time", lambda: create(**{**real, "max_tokens": 900}, timeout=0.001), anthropic.APITimeoutError)
    streams = [create(model="tinklet/base", max_tokens=900, messages=story, stream=True, extra_body={"temperature": 2}) for _ in range(4)]
    raises(f"{at} too many chats", lambda: create(**real), anthropic.RateLimitError)
    for stream in streams:
        next(iter(stream))
        stream.close()
    check(f"{at} streams that are left end in the engine", idle(), True)


def check_llm():
    at = "llm (PyPI):"
    with tempfile.TemporaryDirectory() as folder:
        models = f"- model_id: tinklet\n  model_name: tinklet/base\n  api_base: {url}/v1\n  api_key_name: tinklet\n- model_id: scripted\n  model_name: scripted\n  api_base: {url}/v1\n  api_key_name: tinklet\n"
        pathlib.Path(folder, "extra-openai-models.yaml").write_text(models)
        environment = {**os.environ, "LLM_USER_PATH": folder}

        def run(*words):
            command = [sys.executable, "-m", "llm", *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)

        for streams in ([], ["--no-stream"]):
            done = run("-m", "scripted", "--key", "tml-chat", *streams, f"SAY {text}")
            check(f"{at} a prompt {' '.join(streams) or 'streamed'}", (done.returncode, done.stdout.strip()), (0, text.strip()))
        held = run("-m", "tinklet", "--key", "tml-chat", "-o", "max_tokens", "60", "-o", "json_object", "true", "Answer in JSON.")
        check(f"{at} JSON", isinstance(json.loads(held.stdout or "null"), dict), True)
        check(f"{at} a wrong key is told", run("-m", "tinklet", "--key", "tml-wrong", "x").returncode, 1)


check_openai()
check_anthropic()
check_llm()
