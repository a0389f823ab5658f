/**
 * GLM 4.5 and later: `<tool_call>name` with a pair of `<arg_key>` and `<arg_value>` per argument; reasoning in `<think>`. Values other
 * than strings are JSON.
 */
import { parseJsonValue } from "../json-value.ts";
import type { ParserOptions, ReplyFormat } from "../reply-format.ts";
import { createReplyParser } from "../reply-parser.ts";
import type { ToolCall } from "../types.ts";
import { sectionBody } from "./section-body.ts";
import { taggedValue, typeOfArgument } from "./tagged-value.ts";

const [opens, closes] = ["<tool_call>", "</tool_call>"];

export const glmFormat: ReplyFormat = {
  name: "glm",
  markers: [opens, closes, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<think>", "</think>"],
  reasoningOpens: "<think>",
  isUsedBy: ({ withTool, withCall }) => `${withTool} ${withCall}`.includes("<arg_key>"),
  createParser: (options) =>
    createReplyParser(
      {
        reasoning: { opens: "<think>", closes: "</think>" },
        callOpens: opens,
        callCloses: closes,
        createBody: (parserOptions) => sectionBody(closes, (text) => callsOf(text, parserOptions)),
      },
      options,
    ),
};

const pair = /\s*<arg_key>([^<]{1,256})<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>\s*/y;

function callsOf(text: string, { tools }: ParserOptions): readonly ToolCall[] | undefined {
  const first = text.indexOf("<arg_key>");
  const name = (first < 0 ? text : text.slice(0, first)).trim();
  if (!/^[\w.-]{1,256}$/.test(name)) return undefined;
  const schema = tools.find((tool) => tool.function.name === name)?.function.parameters;
  const members: string[] = [];
  for (let at = first < 0 ? text.length : first; at < text.length; ) {
    pair.lastIndex = at;
    const found = pair.exec(text);
    if (found === null) return undefined;
    const [whole, key = "", value = ""] = found;
    members.push(`${JSON.stringify(key)}: ${taggedValue(value, typeOfArgument(schema, key))}`);
    at += whole.length;
  }
  const json = `{${members.join(", ")}}`;
  return parseJsonValue(json) === undefined ? undefined : [{ name, arguments: json }];
}
