/**
 * For templates without tool support: the system message describes the tools, and a reply of the form
 * `{"tool_calls": [{"name": …, "arguments": {…}}]}` or `{"name": …, "arguments": …}` is a tool call.
 */
import { type CallShape, callsIn, listIn } from "../json-value.ts";
import type { ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ChatMessage, ChatTool } from "../types.ts";
import { jsonBody } from "./json-body.ts";

export const jsonFormat: ReplyFormat = {
  name: "json",
  markers: ["<think>", "</think>"],
  reasoningOpens: "<think>",
  callOpening: {
    textOf: (tool) => `{"tool_calls": [${tool === undefined ? "" : `{"name": ${JSON.stringify(tool)}, "arguments":`}`,
    // Calls stand at the beginning, after the reasoning.
    startIn: (reply) => reply.lastIndexOf("</think>") + (reply.includes("</think>") ? "</think>".length : 1),
  },
  isUsedBy: () => true,
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "<think>", closes: "</think>" },
        bareCalls: "{[",
        createBody: ({ tools }) => {
          const shape: CallShape = {
            argumentKeys: ["arguments", "parameters"],
            isTool: (name) => tools.some((tool) => tool.function.name === name),
          };
          return jsonBody(shape, (json) => callsIn(listIn(json, "tool_calls") ?? json, shape));
        },
      },
      options,
    ),
};

const instruction = (tools: readonly ChatTool[]): string =>
  [
    "You can call these tools:",
    ...tools.map((tool) => JSON.stringify(tool.function)),
    'To call tools, answer with nothing but JSON of this form: {"tool_calls": [{"name": "…", "arguments": {…}}]}',
  ].join("\n");

/**
 * Rewrites a conversation for a template without tool support: tools go into the system message, calls become the JSON that the system
 * message asks for, and tool results become user messages.
 */
export function withToolsAsText(messages: readonly ChatMessage[], tools: readonly ChatTool[]): ChatMessage[] {
  const [first, ...others] = messages;
  const hasSystem = first?.role === "system";
  const toolPrompt = instruction(tools);
  const system = {
    role: "system",
    content: hasSystem ? `${String(first.content ?? "")}\n\n${toolPrompt}` : toolPrompt,
  };
  const rest = hasSystem ? others : messages;
  const plain = rest.map((message): ChatMessage => {
    const { tool_calls: calls, tool_call_id: _id, ...bare } = message;
    if (message.role === "tool") {
      const name = typeof message["name"] === "string" ? message["name"] : undefined;
      return { role: "user", content: JSON.stringify({ tool_result: { name, content: message.content } }) };
    }
    if (!Array.isArray(calls) || calls.length === 0) return bare as ChatMessage;
    const functions = calls.map((call: { function: { name: string; arguments: unknown } }) => call.function);
    const json = JSON.stringify({
      tool_calls: functions.map(({ name, arguments: callArguments }) => ({ name, arguments: callArguments })),
    });
    const text = typeof message.content === "string" && message.content !== "" ? `${message.content}\n` : "";
    return { ...bare, role: message.role, content: text + json };
  });
  return tools.length === 0 ? plain : [system, ...plain];
}
