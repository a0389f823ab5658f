/** Chat templates: Jinja programs that models bring along, run with the same variables as in Python. */

import { Template } from "@huggingface/jinja";
import { TokenizerError } from "../errors.ts";
import type { ChatMessage, ChatTemplateOptions } from "./types.ts";

/** Renders messages with the model's own template. */
export type ChatTemplate = (messages: readonly ChatMessage[], options?: ChatTemplateOptions) => string;

/** What a model brings along for its conversations. */
export interface ChatTemplateSource {
  /** Templates by name: `default`, and `tool_use` where the model has one for calls of tools. */
  readonly templates: ReadonlyMap<string, string>;
  /** `bos_token`, `eos_token` …, which templates use as variables. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** For messages. */
  readonly origin: string;
}

/**
 * Makes a template ready. It is parsed when it is first used: a text can be encoded although its model's template cannot be read.
 * @throws TokenizerError when applied: `no_chat_template`, `bad_chat_template` (not Jinja) or `chat_template_failed` (it refused).
 */
export function createChatTemplate({ templates, specialTokens, origin }: ChatTemplateSource): ChatTemplate {
  const compiled = new Map<string, Template>();
  const compile = (name: string): Template => {
    const known = compiled.get(name);
    if (known !== undefined) return known;
    const source = templates.get(name);
    if (source === undefined) {
      throw new TokenizerError(`${origin} has no chat template`, {
        code: "no_chat_template",
        hint: "this is probably a base model: write the prompt yourself and use encode()",
      });
    }
    try {
      const template = new Template(source);
      compactEmptyJson(template.parsed);
      compiled.set(name, template);
      return template;
    } catch (cause) {
      const message = `${origin}: the chat template cannot be parsed: ${(cause as Error).message}`;
      throw new TokenizerError(message, { code: "bad_chat_template", cause });
    }
  };
  return (messages, { addGenerationPrompt = false, tools, variables = {} } = {}) => {
    const template = compile(tools !== undefined && templates.has("tool_use") ? "tool_use" : "default");
    try {
      return template.render({
        [compactName]: compact,
        ...specialTokens,
        tools: null, // given by Python even when there are none, and templates test for it
        documents: null,
        ...variables,
        ...(tools !== undefined && { tools }),
        messages,
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (cause) {
      const message = `${origin}: the chat template refused the messages: ${(cause as Error).message}`;
      throw new TokenizerError(message, { code: "chat_template_failed", cause });
    }
  };
}

/** The name of {@link compact} inside of templates; no template has it. */
const compactName = "__tinklet_compact";

/** Empty objects and lists on one line. Texts in JSON hold no line ends of their own, so that these are always structure. */
const compact = (json: string): string => json.replace(/\{\n\s*\}/g, "{}").replace(/\[\n\s*\]/g, "[]");

/** Indented JSON of the library has a line end within what is empty, that of Python has none: wraps every such filter. */
function compactEmptyJson(node: unknown): void {
  if (typeof node !== "object" || node === null) return;
  for (const [key, child] of Object.entries(node)) {
    compactEmptyJson(child);
    if (isIndentedJson(child)) {
      const wrapped = { type: "CallExpression", callee: { type: "Identifier", value: compactName }, args: [child] };
      (node as Record<string, unknown>)[key] = wrapped;
    }
  }
}

function isIndentedJson(node: unknown): boolean {
  const { type, filter } = (node ?? {}) as {
    type?: unknown;
    filter?: { callee?: { value?: unknown }; args?: unknown };
  };
  if (type !== "FilterExpression" || filter?.callee?.value !== "tojson" || !Array.isArray(filter.args)) return false;
  return filter.args.some((given: { key?: { value?: unknown } }) => given.key?.value === "indent");
}
