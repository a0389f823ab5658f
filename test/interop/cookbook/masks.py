"""What the official cookbook's renderers make of conversations for training: tokens and the weight of each.

Input:  [{"renderer", "file", "settings", "conversations": [[message, …], …]}]
Output: [[{policy: [{"tokens", "weights", "text"}, …] or {"error": …}}, …], …]; more than one where the renderer splits a conversation.
"""

import json
import sys

from tinker_cookbook.renderers import ToolCall, TrainOnWhat, get_renderer
from transformers import PreTrainedTokenizerFast

policies = {
    "last_answer": TrainOnWhat.LAST_ASSISTANT_MESSAGE,
    "all_answers": TrainOnWhat.ALL_ASSISTANT_MESSAGES,
    "everything": TrainOnWhat.ALL_TOKENS,
}


def message_of(message):
    """The same message in the official cookbook's types."""
    made = {"role": message["role"], "content": message["content"]}
    if "reasoning_content" in message:
        thinking = {"type": "thinking", "thinking": message["reasoning_content"]}
        made["content"] = [thinking, {"type": "text", "text": message["content"]}]
    if "tool_calls" in message:
        made["tool_calls"] = [call_of(call) for call in message["tool_calls"]]
    for key in ("name", "tool_call_id"):
        if key in message:
            made[key] = message[key]
    return made


def call_of(call):
    given = call["function"]["arguments"]
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return ToolCall(id=call["id"], function=ToolCall.FunctionBody(name=call["function"]["name"], arguments=text))


def examples_of(renderer, messages, policy):
    made = [message_of(message) for message in messages]
    if policy == TrainOnWhat.ALL_ASSISTANT_MESSAGES:
        examples = renderer.build_supervised_examples(made, train_on_what=policy)
    else:
        examples = [renderer.build_supervised_example(made, train_on_what=policy)]
    return [shown(renderer.tokenizer, tokens.to_ints(), weights.tolist()) for tokens, weights in examples]


def shown(tokenizer, tokens, weights):
    return {"tokens": tokens, "weights": weights, "text": tokenizer.decode(tokens, skip_special_tokens=False)}


source, target = sys.argv[1:]
results = []
for family in json.load(open(source, encoding="utf-8")):
    settings = family["settings"]
    marks = {key: settings[key] for key in ("bos_token", "eos_token") if key in settings}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=family["file"], **marks)
    renderer = get_renderer(family["renderer"], tokenizer)
    rendered = []
    for messages in family["conversations"]:
        one = {}
        for name, policy in policies.items():
            try:
                one[name] = examples_of(renderer, messages, policy)
            except Exception as error:  # renderers refuse what they do not know
                one[name] = {"error": f"{type(error).__name__}: {error}"}
        rendered.append(one)
    results.append(rendered)
json.dump(results, open(target, "w", encoding="utf-8"))
