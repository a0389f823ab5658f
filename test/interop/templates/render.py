"""What transformers makes of conversations: reads a JSON file of tokenizers and conversations, writes the token ids of each.

Input:  [{"folder": …, "template": …, "conversations": [{"messages", "tools"?, "addGenerationPrompt", "variables"}]}]
Output: [[{"ids": […]} or {"error": …}, …], …]
"""

import json
import sys

from transformers import PreTrainedTokenizerFast

source, target = sys.argv[1:]
results = []
for model in json.load(open(source, encoding="utf-8")):
    settings = model["settings"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=model["file"], bos_token=settings["bos_token"], eos_token=settings["eos_token"]
    )
    rendered = []
    for conversation in model["conversations"]:
        try:
            ids = tokenizer.apply_chat_template(
                conversation["messages"],
                tools=conversation.get("tools"),
                chat_template=settings["chat_template"],
                add_generation_prompt=conversation["addGenerationPrompt"],
                tokenize=True,
                return_dict=False,
                **conversation["variables"],
            )
            rendered.append({"ids": ids})
        except Exception as error:  # templates refuse what they do not know
            rendered.append({"error": f"{type(error).__name__}: {error}"})
    results.append(rendered)
json.dump(results, open(target, "w", encoding="utf-8"))
