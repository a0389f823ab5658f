/** Texts and conversations as token ids, within what the model's context and the main thread can take. */
import { ModelError } from "@tinklet/models";
import type { ChatMessage, RenderChatOptions, RenderedChat } from "@tinklet/models/chat";
import { Refusal } from "../../queue/refusal.ts";
import type { ServedModel } from "../api.ts";
import type { ChatModel } from "./chat-models.ts";
import { badField } from "./fields.ts";

/** Longer texts have more tokens than the context: no tokenizer has words of so many characters on average. */
const charactersPerToken = 32;

export const tooLong = (param: string, tokens: number | string, served: ServedModel): Refusal =>
  badField(
    param,
    `${tokens} tokens leave no room in the context of ${served.info.contextLength} of ${served.name}`,
    "context_length_exceeded",
  );

/** A text's ids. @throws {@link Refusal} 400 when they do not fit, without having encoded a text that cannot. */
export function encodeText(
  { tokenizer }: ChatModel,
  served: ServedModel,
  text: string,
  options: { readonly param: string; readonly addSpecialTokens: boolean },
): number[] {
  const { contextLength } = served.info;
  if (text.length > contextLength * charactersPerToken)
    throw tooLong(options.param, `more than ${contextLength}`, served);
  return tokenizer.encode(text, { addSpecialTokens: options.addSpecialTokens });
}

/** What a conversation with the model is rendered from. */
export interface Conversation extends RenderChatOptions {
  readonly messages: readonly ChatMessage[];
  /** Beginning of the reply, written by the client. */
  readonly prefill?: string;
}

/** A conversation as a prompt. @throws {@link Refusal} 400 when the template refuses it, or it does not fit. */
export function renderConversation(
  model: ChatModel,
  served: ServedModel,
  { messages, prefill = "", ...options }: Conversation,
): { readonly rendered: RenderedChat; readonly prompt: readonly number[] } {
  if (messages.length > served.info.contextLength) throw tooLong("messages", `more than ${messages.length}`, served);
  try {
    const rendered = model.chat.render(messages, options);
    const text = rendered.text + prefill;
    const prompt = encodeText(model, served, text, { param: "messages", addSpecialTokens: false });
    return { rendered: prefill === "" ? rendered : { ...rendered, text, startsInReasoning: false }, prompt };
  } catch (error) {
    if (error instanceof Refusal) throw error;
    // Templates are programs that come with models: whatever they throw is about this conversation.
    const told = error instanceof ModelError ? error.message : `the chat template failed: ${String(error)}`;
    throw badField("messages", told.slice(0, 500), "chat_template");
  }
}
