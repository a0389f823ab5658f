/**
 * Converts a parsed reply to stream parts of the AI SDK. Whole results are assembled from the same parts, so both modes agree. The last
 * part is held back until the reply ends, because it carries the reply's tokens.
 */
import type { LanguageModelV3Content, LanguageModelV3StreamPart, LanguageModelV3ToolCall } from "@ai-sdk/provider";
import type { ReplyEvent } from "@tinklet/models/chat";
import { partMetadata } from "./token-record.ts";

/** Converts the events of a reply reader to stream parts. */
export interface ReplyParts {
  push(events: readonly ReplyEvent[]): LanguageModelV3StreamPart[];
  /** Completes the reply: returns the parts that were held back. @param tokenIds - all tokens of the reply */
  end(tokenIds: readonly number[]): LanguageModelV3StreamPart[];
  readonly hasToolCalls: boolean;
}

export function createReplyParts(): ReplyParts {
  let blocks = 0;
  let open: { readonly type: "text" | "reasoning"; readonly id: string } | undefined;
  let call: LanguageModelV3ToolCall | undefined;
  let hasToolCalls = false;

  const close = (tokenIds?: readonly number[]): LanguageModelV3StreamPart[] => {
    const metadata = tokenIds === undefined ? {} : { providerMetadata: partMetadata(tokenIds) };
    const parts: LanguageModelV3StreamPart[] = [];
    if (open !== undefined) parts.push({ type: `${open.type}-end`, id: open.id, ...metadata });
    if (call !== undefined) parts.push({ ...call, ...metadata });
    open = undefined;
    call = undefined;
    return parts;
  };
  const next = (event: ReplyEvent): LanguageModelV3StreamPart[] => {
    if (event.type === "tool_call") {
      const { name: toolName, arguments: input } = event.call;
      const parts = close();
      const id = `call_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`;
      call = { type: "tool-call", toolCallId: id, toolName, input };
      hasToolCalls = true;
      return [
        ...parts,
        { type: "tool-input-start", id, toolName },
        { type: "tool-input-delta", id, delta: input },
        { type: "tool-input-end", id },
      ];
    }
    const { type, text: delta } = event;
    if (delta === "") return [];
    if (open?.type === type) return [{ type: `${type}-delta`, id: open.id, delta }];
    const parts = close();
    open = { type, id: String(blocks++) };
    return [...parts, { type: `${type}-start`, id: open.id }, { type: `${type}-delta`, id: open.id, delta }];
  };
  return {
    push: (events) => events.flatMap(next),
    end: (tokenIds) => close(tokenIds),
    get hasToolCalls() {
      return hasToolCalls;
    },
  };
}

/** The content of a complete reply. */
export function contentOf(parts: Iterable<LanguageModelV3StreamPart>): LanguageModelV3Content[] {
  const content: LanguageModelV3Content[] = [];
  let text = "";
  for (const part of parts) {
    if (part.type === "text-delta" || part.type === "reasoning-delta") text += part.delta;
    else if (part.type === "text-end" || part.type === "reasoning-end") {
      const metadata = part.providerMetadata === undefined ? {} : { providerMetadata: part.providerMetadata };
      content.push({ type: part.type === "text-end" ? "text" : "reasoning", text, ...metadata });
      text = "";
    } else if (part.type === "tool-call") content.push(part);
  }
  return content;
}
