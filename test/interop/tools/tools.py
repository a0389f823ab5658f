"""Python tools against the chat endpoints at the address given, each as its own documentation uses it. One line per check."""
import asyncio
import sys

from pydantic import BaseModel, Field

url, key, model = sys.argv[1], "tml-chat", "tinklet/base"


class User(BaseModel):
    name: str = Field(max_length=10)
    age: int = Field(ge=0, le=120)


class Sum(BaseModel):
    result: int = Field(ge=0, le=100)


def check(name, run):
    try:
        held = run()
        print(f"ok   {name}" if held else f"FAIL {name}: not of the expected form", flush=True)
    except Exception as error:
        print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def agents_sdk():
    from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"21 degrees in {city}"

    async def everything():
        responses = OpenAIResponsesModel(model, AsyncOpenAI(base_url=url, api_key=key, max_retries=0))
        brief = ModelSettings(max_tokens=60, temperature=0)
        agent = Agent(name="free", instructions="Be brief.", model=responses, model_settings=brief, tools=[get_weather])
        free = await Runner.run(agent, "What is 2 + 3?", max_turns=4)
        demanding = agent.clone(model_settings=ModelSettings(max_tokens=60, temperature=0, tool_choice="required"))
        demanded = await Runner.run(demanding, "The weather in Oslo?", max_turns=4)
        typed = await Runner.run(Agent(name="typed", model=responses, model_settings=brief, output_type=Sum), "2 + 3?")
        streamed = Runner.run_streamed(agent, "What is 2 + 3?", max_turns=4)
        events = [event async for event in streamed.stream_events()]
        return free, demanded, typed, events

    free, demanded, typed, events = asyncio.run(everything())
    check("openai-agents: a strict tool that the model need not call", lambda: isinstance(free.final_output, str))
    kinds = [item.type for item in demanded.new_items]
    check("openai-agents: a demanded call and its result", lambda: {"tool_call_item", "tool_call_output_item"} <= {*kinds})
    check("openai-agents: typed output", lambda: isinstance(typed.final_output, Sum))
    check("openai-agents: a stream", lambda: len(events) > 3)


def responses_api():
    from openai import OpenAI

    client = OpenAI(base_url=url, api_key=key, max_retries=0)
    parsed = client.responses.parse(model=model, input="2 + 3?", text_format=Sum, max_output_tokens=60, temperature=0)
    check("openai: responses.parse", lambda: isinstance(parsed.output_parsed, Sum))
    with client.responses.stream(model=model, input="Tell me about the sea.", max_output_tokens=30, temperature=0) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    check("openai: responses.stream", lambda: deltas == final.output_text and deltas != "")
    more = client.responses.create(model=model, input="And then?", previous_response_id=final.id, max_output_tokens=10, temperature=0)
    check("openai: previous_response_id", lambda: more.usage.input_tokens > final.usage.input_tokens)
    check("openai: responses.retrieve", lambda: client.responses.retrieve(more.id).id == more.id)


def instructor_():
    import instructor
    from openai import OpenAI

    client = instructor.from_openai(OpenAI(base_url=url, api_key=key, max_retries=0))
    messages = [{"role": "user", "content": "Bob is 5."}]
    user = client.chat.completions.create(model=model, response_model=User, messages=messages, max_tokens=80, temperature=0, max_retries=0)
    check("instructor: a response model", lambda: isinstance(user, User))


def langchain():
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    chat = ChatOpenAI(model=model, base_url=url, api_key=key, max_tokens=80, temperature=0, max_retries=0)
    check("langchain-openai: structured output", lambda: isinstance(chat.with_structured_output(User).invoke("Bob is 5."), User))
    calling = chat.with_structured_output(User, method="function_calling")
    check("langchain-openai: structured output by a call", lambda: isinstance(calling.invoke("Bob is 5."), User))
    strict = chat.bind_tools([add], tool_choice="any", strict=True)
    check("langchain-openai: a demanded strict tool", lambda: {*strict.invoke("2 + 3?").tool_calls[0]["args"]} == {"a", "b"})


def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=url, api_key=key)
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        agent = Agent(kind(model, provider=provider), output_type=User, model_settings={"max_tokens": 80, "temperature": 0})
        check(f"pydantic-ai: an output type by {kind.__name__}", lambda: isinstance(agent.run_sync("Bob is 5.").output, User))


def litellm_():
    import litellm

    litellm.suppress_debug_info = True
    named = {"model": f"openai/{model}", "api_base": url, "api_key": key, "num_retries": 0, "temperature": 0}
    messages = [{"role": "user", "content": "What is 2 + 3?"}]
    reply = litellm.completion(**named, messages=messages, max_tokens=20)
    check("litellm: a completion", lambda: len(reply.choices[0].message.content) > 0)
    tools = [{"type": "function", "function": {"name": "add", "parameters": Sum.model_json_schema()}}]
    called = litellm.completion(**named, messages=messages, max_tokens=60, tools=tools, tool_choice="required")
    check("litellm: a demanded call", lambda: called.choices[0].message.tool_calls[0].function.name == "add")
    try:
        litellm.completion(**named, messages=[{"role": "user", "content": "x " * 5000}], max_tokens=5)
        error = None
    except Exception as raised:
        error = raised
    check("litellm: a prompt that is too long", lambda: isinstance(error, litellm.ContextWindowExceededError))


def dspy_():
    import dspy

    lm = dspy.LM(f"openai/{model}", api_base=url, api_key=key, max_tokens=200, temperature=0, cache=False, num_retries=0)
    answer = lm(messages=[{"role": "user", "content": "What is 2 + 3?"}])
    check("dspy: a call of the model", lambda: len(answer) == 1)


for name in sys.argv[2:]:
    try:
        globals()[name]()
    except Exception as error:
        print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
