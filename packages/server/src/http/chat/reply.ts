/** What is drawn to answer a conversation: the same for both APIs. */
import { createReplyReader, type RenderedChat } from "@tinklet/models/chat";
import type { ChatPrompt } from "../../thread/chat-tasks.ts";
import { badField } from "./fields.ts";
import type { Generation } from "./generate.ts";
import type { NamedModel } from "./model-names.ts";
import type { PromptPlace } from "./prompt.ts";
import type { ResponseFormat } from "./response-format.ts";
import { engineStops } from "./sampling.ts";

export interface Reply extends Pick<Generation, "params" | "n" | "top" | "format"> {
  readonly model: NamedModel;
  readonly place: PromptPlace;
  readonly chatPrompt: ChatPrompt;
  /** Texts at which the client wants an end. */
  readonly stop: readonly string[];
}

/** The draw of a reply, once it is known when its client leaves. */
export function drawOf({ model, place, chatPrompt, stop, ...rest }: Reply): (signal: AbortSignal) => Generation {
  const { rendered, prompt, traits } = chatPrompt;
  const { tokenizer } = place.model;
  const chat = place.model.chatOf(traits);
  const { format } = rest;
  if (format !== undefined) checkFormat(format, rendered);
  return (signal) => ({
    ...rest,
    tenant: place.tenant,
    model,
    prompt,
    // A reply with a format ends with it, and all of it is text: nothing in it is a call, a thought or the end of a turn.
    stop: format === undefined ? engineStops(stop, { tokenizer, chat }, model) : stop,
    createReader: () =>
      format === undefined
        ? chat.read(rendered, { stop })
        : createReplyReader({ tokenizer, endTokenIds: chat.endTokenIds, stop }),
    signal,
  });
}

/** @throws {@link Refusal} 400 where the format would be that of a thought */
function checkFormat({ param }: ResponseFormat, { startsInReasoning }: RenderedChat): void {
  if (!startsInReasoning) return;
  throw badField(
    param,
    "this model's template begins every reply with thinking, which has no format; turn thinking off in the request",
    "unsupported_value",
  );
}
