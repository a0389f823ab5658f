/** Converts a reply to Anthropic's content blocks: text, thinking and tool uses, in sequence. */
import type { ReplyEvent } from "@tinklet/models/chat";
import { entropy } from "@tinklet/wire/entropy";

import { namedEvent } from "../../event-stream.ts";

const toolUseId = (): string => `toolu_${entropy.uuid().replaceAll("-", "").slice(0, 24)}`;

/** Writes the blocks of a stream. */
export interface BlockWriter {
  write(event: ReplyEvent): void;
  /** Closes the open block. */
  end(): void;
  readonly calls: number;
}

export function createBlockWriter(send: (text: string) => void): BlockWriter {
  let index = -1;
  let open: "text" | "reasoning" | undefined;
  let calls = 0;
  const emit = (type: string, rest: object) => send(namedEvent({ type, index, ...rest }));
  const close = (): void => {
    if (open !== undefined) emit("content_block_stop", {});
    open = undefined;
  };
  const start = (block: object): void => {
    close();
    index++;
    emit("content_block_start", { content_block: block });
  };
  return {
    write(event) {
      if (event.type === "tool_call") {
        calls++;
        start({ type: "tool_use", id: toolUseId(), name: event.call.name, input: {} });
        emit("content_block_delta", { delta: { type: "input_json_delta", partial_json: event.call.arguments } });
        emit("content_block_stop", {});
        return;
      }
      if (open !== event.type) {
        start(event.type === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" });
        open = event.type;
      }
      const delta =
        event.type === "text"
          ? { type: "text_delta", text: event.text }
          : { type: "thinking_delta", thinking: event.text };
      emit("content_block_delta", { delta });
    },
    end: close,
    get calls() {
      return calls;
    },
  };
}

/** Blocks of a complete response. */
export function blocksOf(events: Iterable<ReplyEvent>): object[] {
  const blocks: { type: string; text?: string; thinking?: string; [key: string]: unknown }[] = [];
  for (const event of events) {
    const last = blocks.at(-1);
    if (event.type === "tool_call") {
      const input: unknown = JSON.parse(event.call.arguments);
      blocks.push({ type: "tool_use", id: toolUseId(), name: event.call.name, input });
    } else if (event.type === "text") {
      if (last?.type === "text") last.text += event.text;
      else blocks.push({ type: "text", text: event.text });
    } else if (last?.type === "thinking") last.thinking += event.text;
    else blocks.push({ type: "thinking", thinking: event.text, signature: "" });
  }
  return blocks;
}
