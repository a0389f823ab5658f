/** Chat templates: Jinja programs that models bring along, run with the same variables as in Python. */

import { Template } from "@huggingface/jinja";
import { TokenizerError } from "../errors.ts";
import type { ChatMessage } from "../tokenizer/types.ts";

/** Renders messages with the model's own template. */
export type ChatTemplate = (
  messages: readonly ChatMessage[],
  options: { addGenerationPrompt: boolean; variables: Readonly<Record<string, unknown>> },
) => string;

/**
 * Compiles a template.
 * @param specialTokens `bos_token`, `eos_token` …, which templates use as variables.
 * @throws TokenizerError when the template is not Jinja.
 */
export function compileChatTemplate(
  source: string,
  specialTokens: Readonly<Record<string, string>>,
  origin: string,
): ChatTemplate {
  let template: Template;
  try {
    template = new Template(source);
  } catch (cause) {
    const message = `${origin}: the chat template cannot be parsed: ${(cause as Error).message}`;
    throw new TokenizerError(message, { code: "bad_chat_template", cause });
  }
  return (messages, { addGenerationPrompt, variables }) => {
    try {
      return template.render({
        ...specialTokens,
        tools: null, // given by Python even when there are none, and templates test for it
        documents: null,
        ...variables,
        messages,
        add_generation_prompt: addGenerationPrompt,
      });
    } catch (cause) {
      const message = `${origin}: the chat template refused the messages: ${(cause as Error).message}`;
      throw new TokenizerError(message, { code: "chat_template_failed", cause });
    }
  };
}
