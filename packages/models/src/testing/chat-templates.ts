/**
 * Short chat templates for tests, one per family, with the same special tokens and call syntax as the published templates, and a
 * tokenizer with these special tokens.
 */
import type { TokenizerFiles } from "../tokenizer/types.ts";
import { tinyTokenizer } from "./tiny-tokenizer.ts";

const qwen = `{% if tools %}<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}
{% endif %}# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Write <tool_call>{"name": …, "arguments": …}</tool_call>.<|im_end|>
{% elif messages[0].role == 'system' %}<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'user' %}<|im_start|>user
{{ m.content }}<|im_end|>
{% elif m.role == 'assistant' %}<|im_start|>assistant
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% if m.tool_calls %}{% for call in m.tool_calls %}{% if m.content or not loop.first %}
{% endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endif %}<|im_end|>
{% elif m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% elif opens_thinking %}<think>
{% endif %}{% endif %}`;

const llama3 = `<|begin|>{% if tools %}<|start_header_id|>system<|end_header_id|>

{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Respond with {"name": function name, "parameters": dictionary}.<|eot_id|>{% endif %}{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception("This model only supports single tool-calls at once!") }}{% endif %}<|start_header_id|>assistant<|end_header_id|>

{"name": "{{ m.tool_calls[0].function.name }}", "parameters": {{ m.tool_calls[0].function.arguments | tojson }}}<|eot_id|>{% else %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`;

const mistral = `<|begin|>{% for m in messages %}{% if m.role == 'user' %}{% if tools and loop.last %}[AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]{% endif %}[INST]{{ m.content }}[/INST]{% elif m.tool_calls %}[TOOL_CALLS][{% for call in m.tool_calls %}{% if call.id | length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]</s>{% elif m.role == 'assistant' %}{{ m.content }}</s>{% elif m.role == 'tool' %}[TOOL_RESULTS]{"content": {{ m.content }}, "call_id": "{{ m.tool_call_id }}"}[/TOOL_RESULTS]{% endif %}{% endfor %}`;

const marks = [
  ["<think>", false],
  ["</think>", false],
  ["<tool_call>", false],
  ["</tool_call>", false],
  ["<|eot_id|>", true],
  ["<|python_tag|>", true],
  ["<|start_header_id|>", true],
  ["<|end_header_id|>", true],
  ["[TOOL_CALLS]", true],
  ["[ARGS]", true],
  ["[THINK]", true],
  ["[/THINK]", true],
  ["[INST]", true],
  ["[/INST]", true],
  ["</s>", true],
] as const;

/** The families and the special tokens of their tokenizers. */
const families = {
  qwen: { template: qwen, marks: /think|tool_call/, eos: "<|im_end|>" },
  llama3: { template: llama3, marks: /\|/, eos: "<|eot_id|>" },
  mistral: { template: mistral, marks: /^\[|<\/s>/, eos: "</s>" },
} as const;

export type TestFamily = keyof typeof families;
export const testFamilies = Object.keys(families) as TestFamily[];

/** A family's tokenizer: all bytes, a few merges, and the family's special tokens. */
export function familyFiles(family: TestFamily): TokenizerFiles {
  const { template, marks: markers, eos } = families[family];
  const definition = JSON.parse(tinyTokenizer["tokenizer.json"]) as { added_tokens: { id: number; content: string }[] };
  const next = Math.max(...definition.added_tokens.map(({ id }) => id)) + 1;
  const added = marks
    .filter(([content]) => markers.test(content))
    .map(([content, special], i) => ({ ...definition.added_tokens[0], id: next + i, content, special }));
  return {
    "tokenizer.json": JSON.stringify({ ...definition, added_tokens: [...definition.added_tokens, ...added] }),
    "tokenizer_config.json": JSON.stringify({
      bos_token: "<|begin|>",
      eos_token: eos,
      chat_template: template,
      tokenizer_class: "PreTrainedTokenizerFast",
    }),
  };
}
