/** Converts AI SDK prompts to chat template messages. Parts that are not text (images, files, approvals) are errors that name the part. */
import {
  InvalidPromptError,
  type LanguageModelV3Message,
  type LanguageModelV3Prompt,
  type LanguageModelV3ToolResultPart,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import type { ChatMessage } from "@tinklet/models/chat";
import { tokensOfPart } from "./token-record.ts";

/** A message; `tokenIds` are the sampled tokens if it is an earlier reply of this provider. */
export interface KnownMessage {
  readonly message: ChatMessage;
  readonly tokenIds?: readonly number[];
}

/**
 * @throws UnsupportedFunctionalityError for images, files and approvals.
 * @throws InvalidPromptError for a prompt without messages.
 */
export function chatMessages(prompt: LanguageModelV3Prompt): KnownMessage[] {
  if (prompt.length === 0) throw new InvalidPromptError({ prompt, message: "it has no messages" });
  return prompt.flatMap(readMessage);
}

function readMessage(message: LanguageModelV3Message, at: number): KnownMessage[] {
  switch (message.role) {
    case "system":
      return [{ message: { role: "system", content: message.content } }];
    case "user":
      return [{ message: { role: "user", content: message.content.map((part) => textOf(part, at)).join("") } }];
    case "assistant":
      return [readReply(message, at)];
    case "tool":
      return message.content.map((part) => {
        if (part.type !== "tool-result") throw unsupported(part.type, at);
        return { message: readResult(part, at) };
      });
    default:
      throw unsupported(`role ${JSON.stringify((message as { readonly role: unknown }).role)}`, at);
  }
}

function readReply(message: LanguageModelV3Message & { readonly role: "assistant" }, at: number): KnownMessage {
  let content = "";
  let reasoning = "";
  const calls: object[] = [];
  for (const part of message.content) {
    if (part.type === "text") content += part.text;
    else if (part.type === "reasoning") reasoning += part.text;
    else if (part.type === "tool-call") {
      const call = { name: part.toolName, arguments: part.input };
      calls.push({ id: part.toolCallId, type: "function", function: call });
    } else throw unsupported(part.type, at);
  }
  const tokenIds = tokensOfPart(message.content.at(-1)?.providerOptions);
  return {
    message: {
      role: "assistant",
      content,
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    ...(tokenIds === undefined ? {} : { tokenIds }),
  };
}

function readResult(part: LanguageModelV3ToolResultPart, at: number): ChatMessage {
  return { role: "tool", name: part.toolName, tool_call_id: part.toolCallId, content: outputText(part.output, at) };
}

function outputText(output: LanguageModelV3ToolResultPart["output"], at: number): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return JSON.stringify(output.value);
    case "execution-denied":
      return output.reason ?? "The call was not allowed.";
    case "content":
      return output.value.map((part) => textOf(part, at)).join("");
    default:
      throw unsupported(`tool result of type ${String((output as { readonly type: unknown }).type)}`, at);
  }
}

function textOf(
  part: { readonly type: string; readonly text?: string; readonly mediaType?: string },
  at: number,
): string {
  if (part.type === "text" && typeof part.text === "string") return part.text;
  throw unsupported(part.mediaType === undefined ? part.type : `${part.type} of ${part.mediaType}`, at);
}

const unsupported = (what: string, at: number): UnsupportedFunctionalityError =>
  new UnsupportedFunctionalityError({
    functionality: what,
    message: `prompt[${at}]: Tinklet models accept text only, got ${what}. Remove it, or describe it in text.`,
  });
