/**
 * Qwen2.5, Qwen3 and other models with the Hermes syntax: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, reasoning in `<think>`.
 * Newer Qwen models use tags instead of JSON, `<function=name><parameter=key>value</parameter></function>`; both are parsed.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ParserOptions, ReplyFormat } from "../reply-format.ts";
import { type CallBody, createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { chosenBody } from "./chosen-body.ts";
import { jsonBody } from "./json-body.ts";
import { sectionBody } from "./section-body.ts";
import { taggedValue, typeOfArgument } from "./tagged-value.ts";

const opens = "<tool_call>";
const closes = "</tool_call>";

export const hermesFormat: ReplyFormat = {
  name: "hermes",
  markers: [opens, closes, "<think>", "</think>"],
  reasoningOpens: "<think>",
  callOpening: {
    textOf: (tool) => `${opens}\n${tool === undefined ? "" : `{"name": ${JSON.stringify(tool)}, "arguments":`}`,
    // reasoning may mention the marker
    startIn: (reply) => Math.max(0, reply.indexOf(opens, Math.max(0, reply.lastIndexOf("</think>")))),
  },
  isUsedBy: ({ withTool, withCall }) => `${withTool} ${withCall}`.includes(opens),
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "<think>", closes: "</think>" },
        callOpens: opens,
        callCloses: closes,
        createBody: (parserOptions) =>
          chosenBody((first) =>
            first === "<" ? taggedBody(parserOptions) : jsonBody({ argumentKeys: ["arguments", "parameters"] }),
          ),
      },
      options,
    ),
};

const functionEnd = "</function>";

/** From `<function=name>` to `</function>`. */
const taggedBody = (options: ParserOptions): CallBody =>
  sectionBody(functionEnd, (text) => {
    const call = taggedCall(text, options);
    return call && [call];
  });

function taggedCall(text: string, { tools }: ParserOptions): ToolCall | undefined {
  const head = /^<function=([^>\s]+)>/.exec(text);
  if (head === null) return undefined;
  const name = head[1]!;
  const schema = tools.find((tool) => tool.function.name === name)?.function.parameters;
  const members: string[] = [];
  let rest = text.slice(head[0].length).trim();
  while (rest !== "") {
    const open = /^<parameter=([^>\s]+)>/.exec(rest);
    const end = rest.indexOf("</parameter>");
    if (open === null || end < 0) return undefined;
    const value = rest
      .slice(open[0].length, end)
      .replace(/^\r?\n/, "")
      .replace(/\r?\n$/, "");
    members.push(`${JSON.stringify(open[1])}: ${taggedValue(value, typeOfArgument(schema, open[1]!))}`);
    rest = rest.slice(end + "</parameter>".length).trimStart();
  }
  const json = `{${members.join(", ")}}`;
  return parseJsonValue(json) === undefined ? undefined : { name, arguments: json };
}
