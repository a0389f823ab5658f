/** Reads the items of a Responses request and converts them to the messages that chat templates expect. */
import type { ChatMessage } from "@tinklet/models/chat";
import type { Limits } from "../../../../limits.ts";
import { type Body, listField, objectField, textField, unsupported } from "../../fields.ts";
import { readRole, readTextParts, turnRoles } from "../messages.ts";

/** `input`: a string, or an array of items. @throws Refusal 400 naming an invalid field */
export function readInput(value: unknown, limits: Limits): ChatMessage[] {
  if (typeof value === "string") return [{ role: "user", content: value }];
  const list = listField(value, "input", limits.chatMessages);
  const builder = new ConversationBuilder();
  for (const [i, each] of list.entries())
    readItem(objectField(each, `input[${i}]`), `input[${i}]`, { builder, limits });
  return builder.messages();
}

interface Reading {
  readonly builder: ConversationBuilder;
  readonly limits: Limits;
}

function readItem(item: Body, at: string, { builder, limits }: Reading): void {
  const type = textField(item["type"] ?? "message", `${at}.type`);
  switch (type) {
    case "message": {
      const role = readRole(item["role"], at, turnRoles);
      const types = role === "assistant" ? ["output_text", "refusal"] : ["input_text"];
      builder.message(role, readTextParts(item["content"], `${at}.content`, { types, limits }));
      return;
    }
    case "function_call": {
      const { call_id: id, name, arguments: json } = item;
      builder.call({
        id: textField(id, `${at}.call_id`, 200),
        name: textField(name, `${at}.name`, 200),
        arguments: textField(json ?? "{}", `${at}.arguments`),
      });
      return;
    }
    case "function_call_output": {
      const id = textField(item["call_id"], `${at}.call_id`, 200);
      builder.result(id, readTextParts(item["output"], `${at}.output`, { types: ["input_text"], limits }));
      return;
    }
    case "reasoning": {
      const parts = item["content"];
      if (parts === undefined || parts === null) return; // a summary alone is not what the model thought
      builder.reasoning(readTextParts(parts, `${at}.content`, { types: ["reasoning_text"], limits }));
      return;
    }
    default:
      throw unsupported(
        `${at}.type`,
        `must be message, function_call, function_call_output or reasoning, got ${JSON.stringify(type.slice(0, 100))}`,
      );
  }
}

interface Call {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** Joins the items of one turn of the assistant: reasoning, text and calls are one message for templates. */
export class ConversationBuilder {
  readonly #messages: ChatMessage[] = [];
  readonly #names = new Map<string, string>();
  #reasoning = "";
  #turn: { content: string; calls: object[]; reasoning: string } | undefined;

  message(role: string, content: string): void {
    if (role !== "assistant") {
      this.#close();
      this.#messages.push({ role, content });
      return;
    }
    if (this.#turn !== undefined && (this.#turn.content !== "" || this.#turn.calls.length > 0)) this.#close();
    this.#open().content = content;
  }

  call({ id, name, arguments: json }: Call): void {
    this.#names.set(id, name);
    this.#open().calls.push({ id, type: "function", function: { name, arguments: json } });
  }

  result(id: string, content: string): void {
    this.#close();
    const name = this.#names.get(id);
    this.#messages.push({ role: "tool", tool_call_id: id, content, ...(name === undefined ? {} : { name }) });
  }

  reasoning(text: string): void {
    this.#close();
    this.#reasoning += text;
  }

  messages(): ChatMessage[] {
    this.#close();
    return this.#messages;
  }

  #open() {
    this.#turn ??= { content: "", calls: [], reasoning: this.#reasoning };
    this.#reasoning = "";
    return this.#turn;
  }

  #close(): void {
    if (this.#turn === undefined) return;
    const { content, calls, reasoning } = this.#turn;
    this.#turn = undefined;
    this.#messages.push({
      role: "assistant",
      content,
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    });
  }
}
