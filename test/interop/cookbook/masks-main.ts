// Renders generated conversations for training with our cookbook, and writes them for masks.py: `main.js TEMPLATES OUT MODEL`.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderExamples, toExample, trainOnChoices } from "@tinklet/cookbook";
import type { ChatMessage } from "@tinklet/models/chat";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { forTemplate } from "../../../packages/models/src/chat/conversation.ts";
import { type Abilities, conversations } from "../../fixtures/chat/conversations.ts";

/** A renderer of the official cookbook beside the template that it follows. */
interface Family {
  readonly renderer: string;
  /** File of a real template; without one, the bundled model's own. */
  readonly template?: string;
  readonly bos?: string;
  readonly eos?: string;
  readonly can: Abilities;
  /** Calls and what tools said, where both can write them. */
  readonly tools: boolean;
  /** Whether the renderer makes an example of each answer, because the template rewrites earlier ones. */
  readonly splits?: boolean;
}

const plain: Abilities = { manyCalls: false, thinks: false, textWithCall: false };
const calls: Abilities = { manyCalls: true, thinks: false, textWithCall: true };
const all: Abilities = { ...calls, thinks: true };
const families: readonly Family[] = [
  { renderer: "qwen3_instruct", can: plain, tools: false },
  { renderer: "qwen3_instruct", template: "qwen3_instruct_2507", can: calls, tools: true },
  { renderer: "qwen3", template: "qwen3", can: all, tools: true, splits: true },
  { renderer: "qwen3_5", template: "qwen3_5_think", can: all, tools: true, splits: true },
  { renderer: "qwen3_8_xhigh_reasoning", template: "qwen3_8", can: all, tools: true, splits: true },
  { renderer: "llama3", template: "llama3", bos: "<|begin_of_text|>", eos: "<|eot_id|>", can: plain, tools: false },
  { renderer: "nemotron3", template: "nemotron_3_nano", can: all, tools: true, splits: true },
  { renderer: "nemotron3_ultra", template: "nemotron_3_ultra", can: all, tools: true, splits: true },
  {
    renderer: "gpt_oss_medium_reasoning",
    template: "gptoss",
    eos: "<|return|>",
    can: plain,
    tools: false,
    splits: true,
  },
];
const perFamily = 40;

/** What templates write as marks of their own; those in plain angle brackets are ordinary tokens to their tokenizers. */
const mark = /<\|[^|<>\s]+\|>|<｜[^｜<>\s]+｜>|<\/?(?:think|tool_call|tool_response)>/g;

const [templates = "", out = "", base = ""] = process.argv.slice(2);
const read = (file: string) => JSON.parse(readFileSync(join(base, file), "utf8"));

/** The bundled model's tokenizer with the marks of a family. */
function filesOf({ template, bos, eos = "<|im_end|>" }: Family) {
  const definition = read("tokenizer.json") as { added_tokens: { id: number; content: string; special: boolean }[] };
  const vocabulary = (definition as unknown as { model: { vocab: Record<string, number> } }).model.vocab;
  const settings = read("tokenizer_config.json") as { chat_template: string };
  const text =
    template === undefined ? settings.chat_template : readFileSync(join(templates, `${template}.jinja`), "utf8");
  const known = new Set(definition.added_tokens.map(({ content }) => content));
  const next = Math.max(...Object.values(vocabulary), ...definition.added_tokens.map(({ id }) => id)) + 1;
  const marks = new Set([...(text.match(mark) ?? []), ...(bos === undefined ? [] : [bos]), eos]);
  const added = [...marks]
    .filter((content) => !known.has(content))
    .map((content, at) => ({
      ...definition.added_tokens[0],
      id: next + at,
      content,
      special: /^<[|｜]/.test(content),
    }));
  return {
    "tokenizer.json": JSON.stringify({ ...definition, added_tokens: [...definition.added_tokens, ...added] }),
    "tokenizer_config.json": JSON.stringify({
      ...(bos === undefined ? {} : { bos_token: bos }),
      eos_token: eos,
      chat_template: text,
    }),
  };
}

/** Conversations that end with an answer. */
function trainable({ can, tools }: Family, seed: number): ChatMessage[][] {
  return conversations(3 * perFamily, 300 + seed, can)
    .map(({ messages }) => (tools ? messages : messages.filter((one) => one.role !== "tool" && !("tool_calls" in one))))
    .map((messages) => messages.slice(0, messages.findLastIndex(({ role }) => role === "assistant") + 1))
    .filter((messages) => messages.length > 0)
    .slice(0, perFamily);
}

const input = families.map((family, at) => {
  const files = filesOf(family);
  const file = join(out, `tokenizer-${at}.json`);
  writeFileSync(file, files["tokenizer.json"]);
  const settings = JSON.parse(files["tokenizer_config.json"]) as object;
  const tokenizer = tokenizerFromFiles(files, family.renderer);
  const all = trainable(family, at);
  const ours = all.map((messages, line) =>
    Object.fromEntries(
      trainOnChoices.map((trainOn) => {
        try {
          const example = toExample({ messages }, { file: family.renderer, line });
          const history = family.splits ? "split" : "detect";
          const rendered = renderExamples(tokenizer, { trainOn, history })(example);
          return [trainOn, rendered.map((one) => ({ ...one, text: tokenizer.decode(one.tokens) }))];
        } catch (error) {
          return [trainOn, { error: (error as Error).message }];
        }
      }),
    ),
  );
  const { renderer, template = "the bundled model's" } = family;
  return { renderer, template, file, settings, conversations: all.map((messages) => forTemplate(messages, {})), ours };
});
writeFileSync(join(out, "input.json"), JSON.stringify(input));
