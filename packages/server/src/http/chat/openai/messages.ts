/** Reads and checks conversations and tools of OpenAI's API. */
import type { ChatMessage } from "@tinklet/models/chat";
import { omitUndefined } from "@tinklet/wire/options";
import type { Limits } from "../../../limits.ts";
import { type Body, badField, booleanField, listField, objectField, shown, textField, unsupported } from "../fields.ts";
import { type OfferedTool, type ToolChoice, type ToolUse, toolUseOf } from "../tool-use.ts";

/** Roles of the Responses API, as templates name them. */
export const turnRoles: Readonly<Record<string, string>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
};
const roles: Readonly<Record<string, string>> = { ...turnRoles, tool: "tool" };

/** @param known - role that templates know, by role of the API. @throws Refusal 400 naming the roles */
export function readRole(value: unknown, at: string, known: Readonly<Record<string, string>>): string {
  const sent = textField(value, `${at}.role`, 100);
  if (Object.hasOwn(known, sent)) return known[sent]!;
  throw badField(`${at}.role`, `must be one of ${Object.keys(known).join(", ")}, got ${JSON.stringify(sent)}`);
}

/** @param value - a string, or an array of parts whose text is joined */
export function readTextParts(
  value: unknown,
  at: string,
  { types, limits }: { types: readonly string[]; limits: Limits },
): string {
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) throw badField(at, "must be a string or an array of parts");
  return listField(value, at, limits.chatMessages)
    .map((each, i) => {
      const part = objectField(each, `${at}[${i}]`);
      const { type } = part;
      if (typeof type === "string" && types.includes(type))
        return textField(part[type === "refusal" ? "refusal" : "text"], `${at}[${i}].text`);
      throw unsupported(`${at}[${i}]`, `type must be ${types.join(" or ")}, got ${shown(type)}`);
    })
    .join("");
}

export function readMessages(value: unknown, limits: Limits): ChatMessage[] {
  const list = listField(value, "messages", limits.chatMessages);
  if (list.length === 0) throw badField("messages", "is empty");
  return list.map((each, i) => readMessage(objectField(each, `messages[${i}]`), `messages[${i}]`, limits));
}

function readMessage(message: Body, at: string, limits: Limits): ChatMessage {
  const role = readRole(message["role"], at, roles);
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
  return readTextParts(value, at, { types: ["text", "refusal"], limits: options.limits });
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

/** Where the name and schema of a function are: in a member `function` (chat), or beside the type (responses). */
export type FunctionPlace = "member" | "beside";

/** `tools`, `tool_choice` and `parallel_tool_calls`. */
export function readToolUse(body: Body, limits: Limits, place: FunctionPlace): ToolUse {
  const { tools, parallel_tool_calls: parallel } = body;
  const list = tools === undefined || tools === null ? [] : listField(tools, "tools", limits.chatTools);
  const offered = list.map((each, i) => readTool(objectField(each, `tools[${i}]`), `tools[${i}]`, place));
  const isParallel = parallel === undefined || parallel === null || booleanField(body, "parallel_tool_calls");
  return toolUseOf(offered, readToolChoice(body["tool_choice"], place), isParallel);
}

/** The part of a tool or choice that describes the function, and its path. */
function functionIn({ type: _, ...value }: Body, at: string, place: FunctionPlace): readonly [Body, string] {
  return place === "beside" ? [value, at] : [objectField(value["function"], `${at}.function`), `${at}.function`];
}

function readToolChoice(choice: unknown, place: FunctionPlace): ToolChoice {
  if (choice === undefined || choice === null) return { type: "auto" };
  if (choice === "auto" || choice === "none" || choice === "required") return { type: choice };
  if (typeof choice === "string") {
    throw badField("tool_choice", `must be "auto", "none", "required" or a function, got ${shown(choice)}`);
  }
  const chosen = objectField(choice, "tool_choice");
  if (chosen["type"] !== "function") throw unsupported("tool_choice.type", 'only "function" is supported');
  const [called, at] = functionIn(chosen, "tool_choice", place);
  return { type: "named", name: textField(called["name"], `${at}.name`, 200), param: `${at}.name` };
}

export const toolName = /^[\w.-]{1,128}$/;

function readTool(tool: Body, path: string, place: FunctionPlace): OfferedTool {
  if (tool["type"] !== "function") throw unsupported(`${path}.type`, 'only tools of the type "function" are supported');
  const [described, at] = functionIn(tool, path, place);
  const name = textField(described["name"], `${at}.name`);
  if (!toolName.test(name)) throw badField(`${at}.name`, "must be 1 to 128 letters, digits, _, - or .");
  const { strict, ...rest } = described;
  const { description, parameters } = rest;
  if (description !== undefined && description !== null) textField(description, `${at}.description`);
  if (parameters !== undefined && parameters !== null) objectField(parameters, `${at}.parameters`);
  return {
    // unchanged, because templates write the whole object
    tool: { type: "function", function: rest as unknown as OfferedTool["tool"]["function"] },
    schemaParam: `${at}.parameters`,
    strict: strict === true,
    strictParam: `${at}.strict`,
  };
}
