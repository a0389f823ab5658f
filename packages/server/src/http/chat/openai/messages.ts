/** Reads and checks conversations and tools of OpenAI's API. */
import type { ChatMessage, ChatTool } from "@tinklet/models/chat";
import { omitUndefined } from "@tinklet/wire/options";
import type { Limits } from "../../../limits.ts";
import { type Body, badField, listField, objectField, textField, unsupported } from "../fields.ts";

const roles: Readonly<Record<string, string>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
};

export function readMessages(value: unknown, limits: Limits): ChatMessage[] {
  const list = listField(value, "messages", limits.chatMessages);
  if (list.length === 0) throw badField("messages", "is empty");
  return list.map((each, i) => readMessage(objectField(each, `messages[${i}]`), `messages[${i}]`, limits));
}

function readMessage(message: Body, at: string, limits: Limits): ChatMessage {
  const sent = textField(message["role"], `${at}.role`, 100);
  const role = Object.hasOwn(roles, sent) ? roles[sent]! : undefined;
  if (role === undefined) {
    throw badField(`${at}.role`, `must be one of ${Object.keys(roles).join(", ")}, got ${JSON.stringify(sent)}`);
  }
  for (const key of ["function_call", "audio"]) {
    if (message[key] !== undefined && message[key] !== null) {
      throw unsupported(`${at}.${key}`, "is not supported");
    }
  }
  const calls = message["tool_calls"];
  const hasCalls = role === "assistant" && Array.isArray(calls) && calls.length > 0;
  const optional = (key: string) =>
    message[key] === undefined || message[key] === null ? undefined : textField(message[key], `${at}.${key}`);
  return {
    role,
    content: readContent(message["content"], `${at}.content`, { optional: hasCalls || role === "assistant", limits }),
    ...omitUndefined({
      name: optional("name"),
      reasoning_content: role === "assistant" ? (optional("reasoning_content") ?? optional("reasoning")) : undefined,
      tool_calls: hasCalls ? readCalls(calls, `${at}.tool_calls`, limits) : undefined,
      tool_call_id: role === "tool" ? textField(message["tool_call_id"], `${at}.tool_call_id`, 200) : undefined,
    }),
  };
}

function readContent(value: unknown, at: string, options: { optional: boolean; limits: Limits }): string {
  if (typeof value === "string") return value;
  if ((value === undefined || value === null) && options.optional) return "";
  if (!Array.isArray(value)) throw badField(at, "must be a string or an array of parts");
  return listField(value, at, options.limits.chatMessages)
    .map((each, i) => {
      const part = objectField(each, `${at}[${i}]`);
      if (part["type"] === "text") return textField(part["text"], `${at}[${i}].text`);
      if (part["type"] === "refusal") return textField(part["refusal"], `${at}[${i}].refusal`);
      const type = JSON.stringify(String(part["type"]).slice(0, 100));
      throw unsupported(`${at}[${i}]`, `type must be text or refusal, got ${type}`);
    })
    .join("");
}

function readCalls(value: readonly unknown[], at: string, limits: Limits): object[] {
  return listField(value, at, limits.chatTools).map((each, i) => {
    const call = objectField(each, `${at}[${i}]`);
    const called = objectField(call["function"], `${at}[${i}].function`);
    return {
      ...omitUndefined({ id: call["id"] === undefined ? undefined : textField(call["id"], `${at}[${i}].id`, 200) }),
      type: "function",
      function: {
        name: textField(called["name"], `${at}[${i}].function.name`, 200),
        arguments: textField(called["arguments"] ?? "{}", `${at}[${i}].function.arguments`),
      },
    };
  });
}

/** The tools that a reply may call. `tool_choice: "none"` leaves them out; one that forces a call cannot be honoured. */
export function readTools(body: Body, limits: Limits): ChatTool[] {
  const { tools, tool_choice: choice } = body;
  const list = tools === undefined || tools === null ? [] : listField(tools, "tools", limits.chatTools);
  const read = list.map((each, i) => readTool(objectField(each, `tools[${i}]`), `tools[${i}]`));
  if (choice === undefined || choice === null || choice === "auto") return read;
  if (choice === "none") return [];
  throw unsupported("tool_choice", 'only "auto" and "none" can be honoured');
}

export const toolName = /^[\w.-]{1,128}$/;

function readTool(tool: Body, at: string): ChatTool {
  if (tool["type"] !== "function") throw unsupported(`${at}.type`, "this server knows tools of the type function only");
  const of = objectField(tool["function"], `${at}.function`);
  const name = textField(of["name"], `${at}.function.name`);
  if (!toolName.test(name)) throw badField(`${at}.function.name`, "must be 1 to 128 letters, digits, _, - or .");
  if (of["strict"] === true) throw unsupported(`${at}.function.strict`, "arguments are not constrained here");
  const { strict: _strict, ...rest } = of;
  const { description, parameters } = rest;
  if (description !== undefined && description !== null) textField(description, `${at}.function.description`);
  if (parameters !== undefined && parameters !== null) objectField(parameters, `${at}.function.parameters`);
  // As it came: templates write the whole of it.
  return { type: "function", function: rest as unknown as ChatTool["function"] };
}
