/**
 * The templates that are compared with transformers: small ones in the manner of each family, which this repository has, and the real ones
 * of a folder, each with a small tokenizer that knows their marks.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { forTemplate } from "../../../packages/models/src/chat/conversation.ts";
import { familyFiles, testFamilies } from "../../../packages/models/src/testing/chat-templates.ts";
import { tinyTokenizer } from "../../../packages/models/src/testing/tiny-tokenizer.ts";
import type { TokenizerFiles } from "../../../packages/models/src/tokenizer/types.ts";
import { type Abilities, type Conversation, conversations } from "./conversations.ts";

export interface ComparedFamily {
  readonly name: string;
  readonly files: TokenizerFiles;
  readonly conversations: readonly Conversation[];
}

const all: Abilities = { manyCalls: true, thinks: true, textWithCall: true };
const abilities: Readonly<Record<string, Abilities>> = {
  llama3: { manyCalls: false, thinks: false, textWithCall: false },
  mistral: { manyCalls: true, thinks: false, textWithCall: false },
};

/** Conversations of each family in the recorded fixture. */
const perFamily = 120;

/** The families whose templates this repository has. */
export function ownFamilies(): readonly ComparedFamily[] {
  return testFamilies.map((name, seed) => ({
    name,
    files: familyFiles(name),
    conversations: conversations(perFamily, 100 + seed, abilities[name] ?? all),
  }));
}

/** Real templates, as the Python package trl carries them. */
const realTemplates: Readonly<Record<string, Abilities>> = {
  qwen2_5: { ...all, thinks: false },
  qwen3: all,
  qwen3_instruct_2507: { ...all, thinks: false },
  llama3: { manyCalls: false, thinks: false, textWithCall: false },
  llama3_1: { manyCalls: false, thinks: false, textWithCall: false },
  llama3_2: { manyCalls: false, thinks: false, textWithCall: false },
  deepseekv3: { manyCalls: true, thinks: false, textWithCall: false },
  deepseek_r1_distill: { manyCalls: true, thinks: false, textWithCall: false },
  glm4moe: all,
  gptoss: { manyCalls: false, thinks: false, textWithCall: false },
};

/** What templates write as marks of their own. */
const mark = /<\|[^|<>\s]+\|>|<｜[^｜<>\s]+｜>|<\/?(?:think|tool_call|tool_response|arg_key|arg_value)>/g;

/** The real templates that lie in a folder as `NAME.jinja`. */
export function realFamilies(folder: string, count: number): readonly ComparedFamily[] {
  return Object.entries(realTemplates).flatMap(([name, can], seed) => {
    const isText = name.startsWith("deepseek");
    const path = join(folder, `${name}.jinja`);
    if (!existsSync(path)) return [];
    const template = readFileSync(path, "utf8");
    const definition = JSON.parse(tinyTokenizer["tokenizer.json"]) as {
      added_tokens: { id: number; content: string }[];
    };
    const known = new Set(definition.added_tokens.map(({ content }) => content));
    const next = Math.max(...definition.added_tokens.map(({ id }) => id)) + 1;
    const added = [...new Set(template.match(mark) ?? [])]
      .filter((content) => !known.has(content))
      .map((content, at) => ({ ...definition.added_tokens[0], id: next + at, content }));
    const files = {
      "tokenizer.json": JSON.stringify({ ...definition, added_tokens: [...definition.added_tokens, ...added] }),
      "tokenizer_config.json": JSON.stringify({
        bos_token: "<|begin|>",
        eos_token: "<|im_end|>",
        chat_template: template,
      }),
    };
    return [
      {
        name: `${name} (real)`,
        files,
        conversations: conversations(count, 200 + seed, can).map((one) => (isText ? withTextArguments(one) : one)),
      },
    ];
  });
}

/** DeepSeek's templates want arguments as JSON text. */
function withTextArguments(conversation: Conversation): Conversation {
  return { ...conversation, messages: forTemplate(conversation.messages, { textArguments: true }) };
}
