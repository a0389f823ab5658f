/** The generation of a reply to a conversation, for both APIs. */
import { createReplyReader, type RenderedChat } from "@tinklet/models/chat";
import type { ChatPrompt } from "../../thread/chat-tasks.ts";
import { badField } from "./fields.ts";
import type { Generation } from "./generate.ts";
import type { NamedModel } from "./model-names.ts";
import type { PromptContext } from "./prompt.ts";
import type { ResponseFormat } from "./response-format.ts";
import { engineStops } from "./sampling.ts";

export interface Reply extends Pick<Generation, "params" | "n" | "top" | "format"> {
  readonly model: NamedModel;
  readonly context: PromptContext;
  readonly chatPrompt: ChatPrompt;
  /** Stop strings of the client. */
  readonly stop: readonly string[];
}

/** Prepares the generation of a reply; the returned function needs the signal that ends it. */
export function generationOf({
  model,
  context,
  chatPrompt,
  stop,
  ...rest
}: Reply): (signal: AbortSignal) => Generation {
  const { rendered, prompt, traits } = chatPrompt;
  const { tokenizer } = context.model;
  const chat = context.model.chatOf(traits);
  const { format } = rest;
  if (format !== undefined) checkFormat(format, rendered);
  return (signal) => ({
    ...rest,
    tenant: context.tenant,
    model,
    prompt,
    // A reply with a format ends when the format is complete. It is read as text only, without tool calls, thinking or end-of-turn strings.
    stop: format === undefined ? engineStops(stop, { tokenizer, chat }, model) : stop,
    createReader: () =>
      format === undefined
        ? chat.read(rendered, { stop })
        : createReplyReader({ tokenizer, endTokenIds: chat.endTokenIds, stop }),
    signal,
  });
}

/** @throws {@link Refusal} 400 when the format would apply to the model's thinking */
function checkFormat({ param }: ResponseFormat, { startsInReasoning }: RenderedChat): void {
  if (!startsInReasoning) return;
  throw badField(
    param,
    "is not supported for thinking, with which this model's template begins every reply; turn thinking off in the request",
    "unsupported_value",
  );
}
