/** Reads and checks conversations and tools of Anthropic's API, and converts them to the form that chat templates expect. */
import type { ChatMessage } from "@tinklet/models/chat";
import { omitUndefined } from "@tinklet/wire/options";
import type { Limits } from "../../../limits.ts";
import type { Conversation } from "../../../thread/chat-tasks.ts";
import { type Body, badField, booleanField, listField, objectField, shown, textField, unsupported } from "../fields.ts";
import { toolName } from "../openai/messages.ts";
import { toolsOf } from "../reply.ts";
import { type OfferedTool, type ToolChoice, type ToolUse, toolUseOf } from "../tool-use.ts";

/** The conversation of a body, and how its reply may use tools. @throws Refusal 400 naming an invalid field */
export function readConversation(body: Body, limits: Limits): { conversation: Conversation; tools: ToolUse } {
  const tools = readToolUse(body, limits);
  const system = readSystem(body["system"], limits);
  const list = listField(body["messages"], "messages", limits.chatMessages);
  if (list.length === 0) throw badField("messages", "is empty");
  const messages = list.flatMap((each, i) =>
    readMessage(objectField(each, `messages[${i}]`), `messages[${i}]`, limits),
  );
  const last = messages.at(-1)!;
  // a last message with the role assistant is the beginning of the reply
  const isPrefill = last.role === "assistant" && last["tool_calls"] === undefined;
  const rest = isPrefill ? messages.slice(0, -1) : messages;
  if (isPrefill && tools.demanded.length > 0) {
    throw badField(
      "tool_choice",
      "cannot demand a call of a reply whose text the last message begins; remove one of them",
    );
  }
  const conversation = {
    messages: system === "" ? rest : [{ role: "system", content: system }, ...rest],
    variables: readVariables(body),
    ...toolsOf(tools),
    ...(isPrefill ? { prefill: String(last.content) } : {}),
  };
  return { conversation, tools };
}

function readSystem(value: unknown, limits: Limits): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : readTexts(value, "system", limits).join("\n");
}

function readTexts(value: unknown, at: string, limits: Limits): string[] {
  return listField(value, at, limits.chatMessages).map((each, i) => {
    const block = objectField(each, `${at}[${i}]`);
    if (block["type"] === "text") return textField(block["text"], `${at}[${i}].text`);
    throw notRead(block, `${at}[${i}]`);
  });
}

const notRead = (block: Body, at: string) => unsupported(at, `type must be text, got ${shown(block["type"])}`);

function readMessage(message: Body, at: string, limits: Limits): ChatMessage[] {
  const { role, content } = message;
  if (role !== "user" && role !== "assistant") throw badField(`${at}.role`, "must be user or assistant");
  if (typeof content === "string") return [{ role, content }];
  const blocks = listField(content, `${at}.content`, limits.chatMessages).map((each, i) =>
    objectField(each, `${at}.content[${i}]`),
  );
  return role === "user" ? readUser(blocks, `${at}.content`, limits) : [readAssistant(blocks, `${at}.content`)];
}

/** Results of tools become messages before the user's text of the same message. */
function readUser(blocks: readonly Body[], at: string, limits: Limits): ChatMessage[] {
  const results: ChatMessage[] = [];
  const texts: string[] = [];
  for (const [i, block] of blocks.entries()) {
    const here = `${at}[${i}]`;
    if (block["type"] === "text") texts.push(textField(block["text"], `${here}.text`));
    else if (block["type"] === "tool_result") {
      const { content } = block;
      const text =
        content === undefined || content === null
          ? ""
          : typeof content === "string"
            ? content
            : readTexts(content, `${here}.content`, limits).join("\n");
      results.push({
        role: "tool",
        tool_call_id: textField(block["tool_use_id"], `${here}.tool_use_id`, 200),
        content: text,
      });
    } else throw notRead(block, here);
  }
  return texts.length === 0 && results.length > 0 ? results : [...results, { role: "user", content: texts.join("\n") }];
}

function readAssistant(blocks: readonly Body[], at: string): ChatMessage {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: object[] = [];
  for (const [i, block] of blocks.entries()) {
    const here = `${at}[${i}]`;
    if (block["type"] === "text") texts.push(textField(block["text"], `${here}.text`));
    else if (block["type"] === "thinking") thoughts.push(textField(block["thinking"], `${here}.thinking`));
    else if (block["type"] === "tool_use") {
      calls.push({
        id: textField(block["id"], `${here}.id`, 200),
        type: "function",
        function: {
          name: textField(block["name"], `${here}.name`, 200),
          arguments: objectField(block["input"] ?? {}, `${here}.input`),
        },
      });
    } else throw notRead(block, here);
  }
  return {
    role: "assistant",
    content: texts.join("\n"),
    ...omitUndefined({
      reasoning_content: thoughts.length === 0 ? undefined : thoughts.join("\n"),
      tool_calls: calls.length === 0 ? undefined : calls,
    }),
  };
}

/** `tools` and `tool_choice`. */
function readToolUse(body: Body, limits: Limits): ToolUse {
  const { tools, tool_choice: choice } = body;
  const list = tools === undefined || tools === null ? [] : listField(tools, "tools", limits.chatTools);
  const offered = list.map((each, i) => readTool(objectField(each, `tools[${i}]`), `tools[${i}]`));
  if (choice === undefined || choice === null) return toolUseOf(offered, { type: "auto" }, true);
  const chosen = objectField(choice, "tool_choice");
  const isParallel = !booleanField(chosen, "disable_parallel_tool_use");
  return toolUseOf(offered, readToolChoice(chosen), isParallel);
}

function readToolChoice({ type, name }: Body): ToolChoice {
  if (type === "auto" || type === "none") return { type };
  if (type === "any") return { type: "required" };
  const param = "tool_choice.name";
  if (type === "tool") return { type: "named", name: textField(name, param, 200), param };
  throw badField("tool_choice.type", "must be auto, any, tool or none");
}

function readTool(tool: Body, at: string): OfferedTool {
  const type = tool["type"] ?? "custom";
  if (type !== "custom") throw unsupported(`${at}.type`, 'only tools of the type "custom" are supported');
  const name = textField(tool["name"], `${at}.name`);
  if (!toolName.test(name)) throw badField(`${at}.name`, "must be 1 to 128 letters, digits, _, - or .");
  const { description } = tool;
  const schemaParam = `${at}.input_schema`;
  return {
    tool: {
      type: "function",
      function: {
        name,
        ...(description === undefined || description === null
          ? {}
          : { description: textField(description, `${at}.description`) }),
        parameters: objectField(tool["input_schema"], schemaParam),
      },
    },
    schemaParam,
    strict: booleanField(tool, "strict"),
    strictParam: `${at}.strict`,
  };
}

/** The template's variables for thinking. */
function readVariables(body: Body): Record<string, unknown> {
  const { thinking, output_config: output } = body;
  const effort = output === undefined || output === null ? undefined : objectField(output, "output_config")["effort"];
  const type = thinking === undefined || thinking === null ? undefined : objectField(thinking, "thinking")["type"];
  if (type !== undefined && type !== "enabled" && type !== "disabled" && type !== "adaptive") {
    throw badField("thinking.type", "must be enabled, adaptive or disabled");
  }
  return {
    ...(effort === undefined || effort === null
      ? {}
      : { reasoning_effort: textField(effort, "output_config.effort", 20) }),
    ...(type === undefined ? {} : { enable_thinking: type !== "disabled" }),
  };
}
