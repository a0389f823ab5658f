/** A few tasks done as they should be, as supervised data: the model has never seen a tool, and rewards need something to begin with. */
import { type ChatMessage, createChat } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { Datum, ModelInput } from "tinklet";
import { calculatorTool, type Task } from "./calculator.ts";

/** The conversation of a task, each turn of the model learned, everything else read only. */
export function demonstration(tokenizer: Tokenizer, task: Task): Datum<"target_tokens" | "weights"> {
  const chat = createChat(tokenizer);
  const tools = [{ type: "function" as const, function: calculatorTool }];
  const end = chat.endTokenIds[0]!;
  const call = { name: calculatorTool.name, arguments: { expression: task.expression } };
  const messages: ChatMessage[] = [
    { role: "user", content: task.question },
    { role: "assistant", content: "", tool_calls: [{ id: "call", type: "function", function: call }] },
    { role: "tool", name: calculatorTool.name, tool_call_id: "call", content: task.answer },
  ];
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  const question = chat.render(messages.slice(0, 1), { tools }).text;
  const whole = chat.render(messages, { tools }).text; // ends where the model answers
  const callText = JSON.stringify({ tool_calls: [call] });
  const result = whole.slice(whole.indexOf(callText) + callText.length + tokenizer.idToToken(end)!.length);
  const turns = [
    { ids: encode(question), weight: 0 },
    { ids: [...encode(callText), end], weight: 1 },
    { ids: encode(result), weight: 0 },
    { ids: [...encode(task.answer), end], weight: 1 },
  ];
  const tokens = turns.flatMap(({ ids }) => ids);
  const weights = turns.flatMap(({ ids, weight }) => ids.map(() => weight));
  return new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1), weights: weights.slice(1) },
  });
}
