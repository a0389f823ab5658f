/** All handlers of the chat endpoints. */
import type { Api } from "../api.ts";
import { anthropicHandlers } from "./anthropic/messages.ts";
import { modelHandlers } from "./models.ts";
import { chatCompletionsHandler } from "./openai/chat-completions.ts";
import { completionsHandler } from "./openai/completions.ts";
import { responseHandlers } from "./openai/responses/responses.ts";
import type { ChatHandlers } from "./routes.ts";
import { createChatSlots } from "./slots.ts";

export function chatHandlers(api: Api): ChatHandlers {
  const context = { api, slots: createChatSlots(api.limits), modelOf: api.chatModel };
  return {
    ...modelHandlers(api),
    ...anthropicHandlers(context),
    oaiChatCompletions: chatCompletionsHandler(context),
    oaiCompletions: completionsHandler(context),
    ...responseHandlers(context),
  };
}
