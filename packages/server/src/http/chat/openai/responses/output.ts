/** The output of a response: items of reasoning, text and calls, and the events that announce them in a stream. */
import type { ChatMessage, ReplyEvent } from "@tinklet/models/chat";
import { entropy } from "@tinklet/wire/entropy";
import { ConversationBuilder } from "./read-input.ts";

const newId = (prefix: string): string => `${prefix}_${entropy.uuid().replaceAll("-", "")}`;

type Status = "in_progress" | "completed" | "incomplete";

interface TextItem {
  readonly kind: "text" | "reasoning";
  readonly id: string;
  text: string;
}

interface CallItem {
  readonly kind: "call";
  readonly id: string;
  readonly callId: string;
  readonly name: string;
  readonly json: string;
}

/** Collects one reply. `emit` receives the events of a stream. */
export class ResponseOutput {
  readonly #items: (TextItem | CallItem)[] = [];
  readonly #emit: (type: string, fields: object) => void;
  #open: TextItem | undefined;
  #status: Status = "completed";

  constructor(emit: (type: string, fields: object) => void = () => {}) {
    this.#emit = emit;
  }

  write(event: ReplyEvent): void {
    if (event.type === "tool_call") this.#call(event.call.name, event.call.arguments);
    else this.#text(event.type, event.text);
  }

  /** Closes the open item. @param status - incomplete where the reply reached its limit of tokens */
  end(status: Status): void {
    if (this.#open !== undefined) this.#status = status; // calls are complete
    this.#close(status);
  }

  get items(): object[] {
    return this.#items.map((item) => itemOf(item, item === this.#items.at(-1) ? this.#status : "completed"));
  }

  /** The reply as messages of the conversation. */
  get messages(): ChatMessage[] {
    const builder = new ConversationBuilder();
    for (const item of this.#items) {
      if (item.kind === "call") builder.call({ id: item.callId, name: item.name, arguments: item.json });
      else if (item.kind === "reasoning") builder.reasoning(item.text);
      else builder.message("assistant", item.text);
    }
    return builder.messages();
  }

  get #index(): number {
    return this.#items.length - 1;
  }

  #text(kind: TextItem["kind"], text: string): void {
    if (this.#open?.kind !== kind) {
      this.#close("completed");
      const item: TextItem = { kind, id: newId(kind === "text" ? "msg" : "rs"), text: "" };
      this.#items.push(item);
      this.#open = item;
      this.#emit("response.output_item.added", { output_index: this.#index, item: itemOf(item, "in_progress") });
      this.#emit("response.content_part.added", { ...this.#place(item), part: partOf(item) });
    }
    const item = this.#open!;
    item.text += text;
    if (kind === "text") {
      this.#emit("response.output_text.delta", { ...this.#place(item), delta: text, logprobs: [] });
    } else this.#emit("response.reasoning_text.delta", { ...this.#place(item), delta: text });
  }

  #call(name: string, json: string): void {
    this.#close("completed");
    const item: CallItem = { kind: "call", id: newId("fc"), callId: newId("call"), name, json };
    this.#items.push(item);
    const place = { item_id: item.id, output_index: this.#index };
    const empty = itemOf({ ...item, json: "" }, "in_progress");
    this.#emit("response.output_item.added", { output_index: this.#index, item: empty });
    this.#emit("response.function_call_arguments.delta", { ...place, delta: json });
    this.#emit("response.function_call_arguments.done", { ...place, name, arguments: json });
    this.#emit("response.output_item.done", { output_index: this.#index, item: itemOf(item, "completed") });
  }

  #place(item: TextItem): object {
    return { item_id: item.id, output_index: this.#index, content_index: 0 };
  }

  #close(status: Status): void {
    const item = this.#open;
    if (item === undefined) return;
    this.#open = undefined;
    const place = this.#place(item);
    if (item.kind === "text") this.#emit("response.output_text.done", { ...place, text: item.text, logprobs: [] });
    else this.#emit("response.reasoning_text.done", { ...place, text: item.text });
    this.#emit("response.content_part.done", { ...place, part: partOf(item) });
    this.#emit("response.output_item.done", { output_index: this.#index, item: itemOf(item, status) });
  }
}

const partOf = ({ kind, text }: TextItem): object =>
  kind === "text" ? { type: "output_text", text, annotations: [], logprobs: [] } : { type: "reasoning_text", text };

function itemOf(item: TextItem | CallItem, status: Status): object {
  if (item.kind === "call") {
    const { id, callId, name, json } = item;
    return { id, type: "function_call", call_id: callId, name, arguments: json, status };
  }
  const content = status === "in_progress" ? [] : [partOf(item)];
  if (item.kind === "reasoning") return { id: item.id, type: "reasoning", summary: [], content, status };
  return { id: item.id, type: "message", role: "assistant", content, status };
}
