/** What is drawn to answer a conversation: the same for both APIs. */
import type { ChatPrompt } from "../../thread/chat-tasks.ts";
import type { Generation } from "./generate.ts";
import type { NamedModel } from "./model-names.ts";
import type { PromptPlace } from "./prompt.ts";
import { engineStops } from "./sampling.ts";

export interface Reply extends Pick<Generation, "params" | "n" | "top"> {
  readonly model: NamedModel;
  readonly place: PromptPlace;
  readonly chatPrompt: ChatPrompt;
  /** Texts at which the client wants an end. */
  readonly stop: readonly string[];
}

/** The draw of a reply, once it is known when its client leaves. */
export function drawOf({ model, place, chatPrompt, stop, ...rest }: Reply): (signal: AbortSignal) => Generation {
  const { rendered, prompt } = chatPrompt;
  return (signal) => ({
    ...rest,
    tenant: place.tenant,
    model,
    prompt,
    stop: engineStops(stop, place.model, model),
    createReader: () => place.model.chat.read(rendered, { stop }),
    signal,
  });
}
