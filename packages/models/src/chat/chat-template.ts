/** Chat templates: the Jinja programs that models ship, run with the same variables as transformers passes in Python. */

import { Template } from "@huggingface/jinja";
import { TokenizerError } from "../errors.ts";
import type { ChatMessage, ChatTemplateOptions } from "./types.ts";

/** Renders messages with the model's own template. */
export type ChatTemplate = (messages: readonly ChatMessage[], options?: ChatTemplateOptions) => string;

/** A model's chat templates and the tokens that they refer to. */
export interface ChatTemplateSource {
  /** Templates by name: `default`, and `tool_use` if the model has a separate one for tool calls. */
  readonly templates: ReadonlyMap<string, string>;
  /** `bos_token`, `eos_token` …: variables of the template. */
  readonly specialTokens: Readonly<Record<string, string>>;
  /** Name of the model or folder, shown in error messages. */
  readonly origin: string;
}

/**
 * Creates a chat template. It is parsed on first use, so a tokenizer with a broken template can still encode text.
 * @throws TokenizerError when applied: `no_chat_template`, `bad_chat_template` (not valid Jinja) or `chat_template_failed` (the template
 *   raised an error).
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
        tools: null, // transformers always defines `tools`, and templates test it
        documents: null,
        ...variables,
        ...(tools !== undefined && { tools }),
        messages,
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (cause) {
      const message = `${origin}: the chat template raised an error: ${(cause as Error).message}`;
      throw new TokenizerError(message, { code: "chat_template_failed", cause });
    }
  };
}

/** The name under which templates call {@link compact}; it does not collide with names in published templates. */
const compactName = "__tinklet_compact";

/** Puts empty objects and lists on one line. Newlines inside JSON strings are escaped, so a raw newline is always structure. */
const compact = (json: string): string => json.replace(/\{\n\s*\}/g, "{}").replace(/\[\n\s*\]/g, "[]");

/** Python prints empty containers of indented JSON on one line; this Jinja library does not. Wraps every `tojson(indent=…)` to match. */
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
  return filter.args.some((argument: { key?: { value?: unknown } }) => argument.key?.value === "indent");
}
